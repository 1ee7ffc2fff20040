"""A network gone through layer by layer: products, nonlinear operations and parameters of each."""

from math import fsum
from typing import Any

# What is known of a training: SI numbers, switches and choices by canonical name.
Values = dict[str, Any]


def is_mixture(p: Values, layer: int) -> bool:
    return layer < p["number_of_MoE_layers"]


def is_recomputed(p: Values, layer: int) -> bool:
    """Whether all of a layer is run forward again; with `block`, some layers of each stage."""
    if p["activation_recomputation"] == "block":
        return layer < p["number_of_recomputed_layers"] * p["pipeline_parallel_degree"]
    return p["activation_recomputation"] == "full"


def microbatch_tokens(p: Values) -> float:
    """Tokens of a micro-batch on one accelerator."""
    sequences = p["batch_size"] / p["data_parallel_degree"] / p["number_of_microbatches_per_minibatch"]
    return sequences * p["context"] / p["context_parallel_degree"]


# --- work of one layer for a number of tokens ------------------------------------------------------------------------


def attention_core_macs(p: Values, tokens: float) -> float:
    scores = tokens * p["context"] * p["attention_heads"] * p["head_dimension"]
    values = tokens * p["context"] * p["attention_heads"] * p["head_dimension"]
    return scores + values


def feedforward_macs(p: Values, tokens: float, hidden: float) -> float:
    macs = tokens * p["dimensionality"] * hidden  # up
    if p["gated_mlp"]:
        macs += tokens * p["dimensionality"] * hidden
    return macs + tokens * hidden * p["dimensionality"]  # down


def layer_macs(p: Values, layer: int, tokens: float) -> float:
    d, hd = p["dimensionality"], p["head_dimension"]
    macs = tokens * d * p["attention_heads"] * hd  # queries
    macs += tokens * d * p["key_value_heads"] * hd  # keys
    macs += tokens * d * p["key_value_heads"] * hd  # values
    macs += attention_core_macs(p, tokens)
    macs += tokens * p["attention_heads"] * hd * d  # output projection
    if not is_mixture(p, layer):
        return macs + feedforward_macs(p, tokens, p["feedforward_dimension"])
    macs += tokens * d * p["number_of_experts"]  # router
    for _ in range(int(p["experts_per_token"])):
        macs += feedforward_macs(p, tokens, p["expert_feedforward_dimension"])
    if p["number_of_shared_experts"]:
        macs += feedforward_macs(p, tokens, p["shared_experts_feedforward_dimension"])
    return macs


def softmax_operations(p: Values, tokens: float) -> float:
    return tokens * p["context"] * p["attention_heads"]


def nonlinear_operations(p: Values, layer: int, tokens: float) -> float:
    hidden = p["feedforward_dimension"]
    if is_mixture(p, layer):
        hidden = p["experts_per_token"] * p["expert_feedforward_dimension"]
        if p["number_of_shared_experts"]:
            hidden += p["shared_experts_feedforward_dimension"]
    return softmax_operations(p, tokens) + tokens * hidden


# --- parameters ------------------------------------------------------------------------------------------------------


def norm(p: Values) -> float:
    return p["norm_vectors"] * p["dimensionality"]


def feedforward_parameters(p: Values, hidden: float, biased: bool) -> float:
    ups = 2 if p["gated_mlp"] else 1
    count = ups * p["dimensionality"] * hidden + hidden * p["dimensionality"]
    return count + (ups * hidden + p["dimensionality"] if biased else 0)


def shared_layer_parameters(p: Values, layer: int) -> float:
    """All of a layer but its routed experts."""
    d, hd = p["dimensionality"], p["head_dimension"]
    projected = hd * (p["attention_heads"] + 2 * p["key_value_heads"])
    count = d * projected + (projected if p["query_key_value_bias"] else 0)
    count += p["attention_heads"] * hd * d + (d if p["attention_output_bias"] else 0)
    count += p["norms_per_layer"] * norm(p)
    if not is_mixture(p, layer):
        return count + feedforward_parameters(p, p["feedforward_dimension"], p["mlp_bias"])
    count += d * p["number_of_experts"]  # router
    if p["number_of_shared_experts"]:
        count += feedforward_parameters(p, p["shared_experts_feedforward_dimension"], p["mlp_bias"])
    return count


def routed_layer_parameters(p: Values, layer: int) -> float:
    if not is_mixture(p, layer):
        return 0.0
    return p["number_of_experts"] * feedforward_parameters(p, p["expert_feedforward_dimension"], False)


def embedding_parameters(p: Values) -> float:
    return (p["vocabulary_size"] + p["position_table"]) * p["dimensionality"]


def output_head_parameters(p: Values, own_matrix: bool) -> float:
    return norm(p) + (p["vocabulary_size"] * p["dimensionality"] if own_matrix else 0)


def number_of_parameters(p: Values) -> float:
    layers = fsum(shared_layer_parameters(p, i) + routed_layer_parameters(p, i) for i in range(int(p["layers"])))
    return layers + embedding_parameters(p) + output_head_parameters(p, own_matrix=not p["tied_embeddings"])


def stage_layers(p: Values) -> list[float]:
    """Layers of each pipeline stage: the first and the last may have other numbers than those between."""
    pp, first, last = p["pipeline_parallel_degree"], p["number_of_first_stage_layers"], p["number_of_last_stage_layers"]
    if pp == 1:
        return [p["layers"]]
    if pp == 2:
        return [first, p["layers"] - first]
    return [first, *[(p["layers"] - first - last) / (pp - 2)] * int(pp - 2), last]


def stage_parameters(p: Values) -> list[tuple[float, float]]:
    """Those outside and inside the routed experts on an accelerator of each stage, of layers that are like the average."""
    layers, stages = range(int(p["layers"])), stage_layers(p)
    shared = fsum(shared_layer_parameters(p, i) for i in layers) / len(layers)
    routed = fsum(routed_layer_parameters(p, i) for i in layers) / len(layers)
    own = [count * shared for count in stages]
    own[0] += embedding_parameters(p)
    own[-1] += output_head_parameters(
        p, own_matrix=len(stages) > 1 or not p["tied_embeddings"]
    )  # the last has it, tied or not
    shares = p["expert_parallel_degree"] * p["expert_tensor_parallel_degree"]
    return [
        (each / p["tensor_parallel_degree"], count * routed / shares) for each, count in zip(own, stages, strict=True)
    ]


def parameters_per_accelerator(p: Values) -> tuple[float, float]:
    """Those outside and inside the routed experts, each on the stage that has most."""
    shared, routed = zip(*stage_parameters(p), strict=True)
    return max(shared), max(routed)
