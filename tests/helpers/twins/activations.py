"""The slow twin's activations: what one layer keeps of a micro-batch, and the largest gradient it writes, in bytes."""

from tests.helpers.twins.layers import is_mixture
from tests.helpers.twins.values import Values

STATISTIC_BYTES = 4  # the logarithm of a row's sum that fused attention keeps
FP8_BYTES = 1
LAYOUTS = 2  # a cast to fp8 is written in both


def operand_bytes(p: Values) -> float:
    """An entry that a product with weights reads, and keeps for their gradient."""
    return FP8_BYTES if p["matrix_precision"] == "fp8" else p["activation_precision"]


def residual_entries(p: Values, tokens: float) -> float:
    """Entries of the residual stream on one accelerator."""
    whole = tokens * p["dimensionality"]
    return whole / p["tensor_parallel_degree"] if p["sequence_parallel"] else whole


def input_bytes(p: Values, tokens: float) -> float:
    return residual_entries(p, tokens) * p["activation_precision"]


def mask_bytes(p: Values, entries: float) -> float:
    return entries * 1 if p["dropout"] > 0 else 0.0


def block_input_bytes(p: Values, tokens: float) -> float:
    """The input of a block, which comes from a norm and may be computed again from what that keeps."""
    return 0.0 if p["norm_recomputation"] else residual_entries(p, tokens) * operand_bytes(p)


# --- attention -------------------------------------------------------------------------------------------------------


def head_entries(p: Values, tokens: float, heads: float) -> float:
    return tokens * heads * p["head_dimension"] / p["tensor_parallel_degree"]


def query_key_value_bytes(p: Values, tokens: float) -> float:
    entries = head_entries(p, tokens, p["attention_heads"]) + 2 * head_entries(p, tokens, p["key_value_heads"])
    return entries * p["activation_precision"]


def score_entries(p: Values, tokens: float) -> float:
    return tokens * p["context"] * p["attention_heads"] / p["tensor_parallel_degree"]


def score_bytes(p: Values, tokens: float) -> float:
    """Softmax output, and with dropout its mask and what it leaves, unless that is computed again."""
    if p["flash_attention"]:
        return 0.0
    entries = score_entries(p, tokens)
    kept = entries * p["activation_precision"] + mask_bytes(p, entries)
    if p["dropout"] > 0 and not p["dropout_recomputation"]:
        kept += entries * p["activation_precision"]
    return kept


def attention_bytes(p: Values, tokens: float) -> float:
    kept = block_input_bytes(p, tokens) + query_key_value_bytes(p, tokens) + score_bytes(p, tokens)
    if p["flash_attention"]:
        kept += tokens * p["attention_heads"] / p["tensor_parallel_degree"] * STATISTIC_BYTES
    return kept + head_entries(p, tokens, p["attention_heads"]) * operand_bytes(p)  # input of the output projection


# --- feed-forward ----------------------------------------------------------------------------------------------------


def hidden_bytes(p: Values, units: float) -> float:
    """Inputs of an activation function (a bit where it works in place), and its output for the product behind it."""
    if p["in_place_activation"] and not p["gated_mlp"]:
        kept = units / 8
    else:
        kept = units * p["activation_precision"] * (2 if p["gated_mlp"] else 1)
    return kept if p["activation_function_recomputation"] else kept + units * operand_bytes(p)


def units_of(p: Values, layer: int, tokens: float) -> list[float]:
    """Hidden units of each feed-forward network of a layer: the dense one, or the routed experts and the shared."""
    tp = p["tensor_parallel_degree"]
    if not is_mixture(p, layer):
        return [tokens * p["feedforward_dimension"] / tp]
    routed = tokens * p["experts_per_token"] * p["expert_feedforward_dimension"] / tp
    return [routed, tokens * p["shared_experts_feedforward_dimension"] / tp]


def feedforward_bytes(p: Values, layer: int, tokens: float) -> float:
    kept = block_input_bytes(p, tokens)  # a router and shared experts share it
    if is_mixture(p, layer):  # each share of an expert has the visiting tokens whole
        visits = tokens * p["experts_per_token"] * p["dimensionality"] * operand_bytes(p)
        kept += visits * p["expert_tensor_parallel_degree"] / p["tensor_parallel_degree"]
        kept += tokens / p["tensor_parallel_degree"] * p["number_of_experts"] * p["logits_precision"]  # probabilities
    return kept + sum(hidden_bytes(p, units) for units in units_of(p, layer, tokens))


# --- a layer ---------------------------------------------------------------------------------------------------------


def layer_bytes(p: Values, layer: int, tokens: float) -> float:
    """All that one layer keeps of one micro-batch when nothing is recomputed."""
    norms = 0.0 if p["in_place_norm"] else p["norms_per_layer"] * input_bytes(p, tokens)
    masks = 2 * mask_bytes(p, residual_entries(p, tokens))  # behind attention and behind the feed-forward network
    return norms + masks + attention_bytes(p, tokens) + feedforward_bytes(p, layer, tokens)


def largest_gradient_bytes(p: Values, layer: int, tokens: float) -> float:
    """The most that one operator of a layer's backward pass writes, gradients of weights aside."""
    return max(*residual_gradients(p, tokens), *attention_gradients(p, tokens), *unit_gradients(p, layer, tokens))


def residual_gradients(p: Values, tokens: float) -> list[float]:
    """Of norms with that of their weights, of sums with that of what they drop out, of a block's whole input."""
    own, vector = input_bytes(p, tokens), p["dimensionality"] * p["activation_precision"]
    again = own if p["norm_recomputation"] else 0.0  # the output, for the product behind
    block = tokens * p["dimensionality"] * p["activation_precision"]
    if p["norm_position"] == "post":  # arXiv 2007.00072: sum and norm in one, gradients of weights and biases apart
        return [2 * own + again, own + 3 * vector, block]
    return [own + p["norm_vectors"] * vector + again, own * (2 if p["dropout"] > 0 else 1), block]


def attention_gradients(p: Values, tokens: float) -> list[float]:
    a = p["activation_precision"]
    queries = head_entries(p, tokens, p["attention_heads"])
    found = [queries * a]
    if p["positions"] == "rope":
        found.append((queries + head_entries(p, tokens, p["key_value_heads"])) * a)
    if p["flash_attention"]:
        found.append(query_key_value_bytes(p, tokens))
    else:
        scores = score_entries(p, tokens) * a
        again = p["dropout"] > 0 and p["dropout_recomputation"]
        found += [scores * (2 if again else 1), queries * p["context_parallel_degree"] * a]  # each query head's keys
    width = p["attention_heads"] + 2 * p["key_value_heads"]
    return [*found, *cast_gradients(p, [head_entries(p, tokens, width), tokens * p["dimensionality"]])]


def unit_gradients(p: Values, layer: int, tokens: float) -> list[float]:
    """Of the hidden units before an activation function (computed again if so), and of the tokens at their experts."""
    a, copies, found = p["activation_precision"], 2 if p["gated_mlp"] else 1, []
    biased = p["norm_position"] == "post" and not is_mixture(p, layer)  # arXiv 2007.00072: in the same kernel
    bias = p["feedforward_dimension"] / p["tensor_parallel_degree"] if biased else 0
    for units in units_of(p, layer, tokens):
        again = units if p["activation_function_recomputation"] else 0
        found += [(copies * (units + bias) + again) * a, *cast_gradients(p, [copies * units])]
    if is_mixture(p, layer):
        visits = tokens * p["experts_per_token"] * p["dimensionality"]
        found += [visits * a, *cast_gradients(p, [visits])]
    return found


def cast_gradients(p: Values, entries: list[float]) -> list[float]:
    """Gradients of a product's output, cast to fp8 in both layouts."""
    return [LAYOUTS * FP8_BYTES * each for each in entries] if p["matrix_precision"] == "fp8" else []
