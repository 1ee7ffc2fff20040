"""The slow twin's memory: every stage of the pipeline, one by one, and of them the accelerator that needs most."""

from math import floor, fsum

from tests.helpers.twins.activations import (
    head_entries,
    input_bytes,
    largest_gradient_bytes,
    layer_bytes,
    mask_bytes,
    residual_entries,
    score_bytes,
)
from tests.helpers.twins.layers import (
    is_mixture,
    is_recomputed,
    microbatch_tokens,
    routed_layer_parameters,
    shared_layer_parameters,
    stage_layers,
    stage_parameters,
)
from tests.helpers.twins.values import Values

Bytes = dict[str, float]


def kept_bytes(p: Values, layer: int, tokens: float) -> float:
    if is_recomputed(p, layer):
        return input_bytes(p, tokens)
    if p["activation_recomputation"] == "selective":
        return layer_bytes(p, layer, tokens) - score_bytes(p, tokens)
    return layer_bytes(p, layer, tokens)


def microbatches_held(p: Values, stage: int) -> float:
    """Micro-batches whose activations a stage holds at once; with chunks of layers, in micro-batches of all of them."""
    pp, v, m = (
        p["pipeline_parallel_degree"], p["virtual_pipeline_stages"], p["number_of_microbatches_per_minibatch"],
    )  # fmt: skip
    if p["pipeline_schedule"] == "gpipe":
        return m
    if v == 1:
        return min(pp - stage, m)
    chunks = 2 * (pp - stage - 1) + (v - 1) * pp + 1  # those of the warm-up, and the one that goes on
    return min(chunks, v * m) / v


def states(p: Values, shared: float, routed: float) -> Bytes:
    """Weights, gradients and optimizer states, shared out among the accelerators of a sharding group."""
    group = p["sharding_degree"]
    tensor_shares = p["tensor_parallel_degree"] / p["expert_tensor_parallel_degree"]
    routed_group = max(group * tensor_shares / p["expert_parallel_degree"], 1)

    def state(width: float, from_stage: int) -> float:
        if p["zero_stage"] >= from_stage:
            return width * (shared / group + routed / routed_group)
        return width * (shared + routed)

    return {
        "weight_bytes": state(p["weight_precision"], 3),
        "gradient_bytes": state(p["gradient_precision"], 2),
        "optimizer_state_bytes": state(p["optimizer_states_per_parameter"] * p["optimizer_state_precision"], 1),
    }


def activations(p: Values, stage: int) -> float:
    """Of the layers and, at the ends, the embedding's dropout and the inputs of final norm, head and loss."""
    layers, tokens = range(int(p["layers"])), microbatch_tokens(p)
    kept = fsum(kept_bytes(p, layer, tokens) for layer in layers) / len(layers) * stage_layers(p)[stage]
    if stage == 0:
        kept += mask_bytes(p, residual_entries(p, tokens))
    held = kept * microbatches_held(p, stage)
    if stage == p["pipeline_parallel_degree"] - 1:
        head = 2 * input_bytes(p, tokens)
        head += tokens * p["vocabulary_size"] / p["tensor_parallel_degree"] * p["logits_precision"]
        # The backward pass starts here: of one micro-batch, unless all have to go forward first.
        held += head * (p["number_of_microbatches_per_minibatch"] if p["pipeline_schedule"] == "gpipe" else 1)
    return held


def logits_and_gradient(p: Values, stage: int) -> float:
    """Before the loss, in the precision of activations."""
    if stage < p["pipeline_parallel_degree"] - 1:
        return 0.0
    entries = microbatch_tokens(p) * p["vocabulary_size"] / p["tensor_parallel_degree"]
    return 2 * entries * p["activation_precision"]


def working_bytes(p: Values) -> float:
    """A layer recomputed, the largest gradient and the one it comes from, what is gathered or handed to neighbors."""
    layers, tokens = range(int(p["layers"])), microbatch_tokens(p)
    working = max((layer_bytes(p, i, tokens) for i in layers if is_recomputed(p, i)), default=0.0)
    if p["activation_recomputation"] == "selective":
        working += score_bytes(p, tokens)
    gradients = 2 * max(largest_gradient_bytes(p, i, tokens) for i in layers)
    working += max(gradients, *(visit_bytes(p, tokens) for i in layers if is_mixture(p, i)), 0.0)
    if p["sequence_parallel"] and p["tensor_parallel_degree"] > 1:
        working += tokens * p["dimensionality"] * p["activation_precision"]
    if p["pipeline_parallel_degree"] > 1:
        working += 2 * input_bytes(p, tokens)
    return working + exchange_bytes(p, tokens)


def visit_bytes(p: Values, tokens: float) -> float:
    """What experts left, in the order of who sent it, on its way, and as it came: four buffers of the visits."""
    once = tokens * p["experts_per_token"] / p["tensor_parallel_degree"] * p["expert_tensor_parallel_degree"]
    return 4 * once * p["dimensionality"] * p["activation_precision"]


def exchange_bytes(p: Values, tokens: float) -> float:
    """Keys and values of others, which a share of a sequence sees all at once, one after the other, or of its heads."""
    shares, own = p["context_parallel_degree"], 2 * head_entries(p, tokens, p["key_value_heads"])
    if shares == 1:
        return 0.0
    exchanged = {"ring": 2 * own, "all_gather": shares * own,
                 "all_to_all": own + 2 * head_entries(p, tokens, p["attention_heads"])}  # fmt: skip
    return exchanged[p["context_parallel_kind"]] * p["activation_precision"]


def gathered_bytes(p: Values) -> float:
    """Weights of the largest layer, whole while it runs; experts are not where nobody else has them."""
    if p["zero_stage"] < 3 or p["sharding_degree"] == 1:
        return 0.0
    tp, shares = p["tensor_parallel_degree"], p["expert_parallel_degree"] * p["expert_tensor_parallel_degree"]
    layers = range(int(p["layers"]))
    replicas = p["data_parallel_degree"] * p["context_parallel_degree"]
    same = replicas * tp / shares * (p["sharding_degree"] / replicas)  # accelerators that share out an expert's states
    whole = (
        shared_layer_parameters(p, i) / tp + (routed_layer_parameters(p, i) / shares if same > 1 else 0) for i in layers
    )
    return max(whole) * p["weight_precision"]


def memory(p: Values) -> dict[str, float]:
    stages = range(int(p["pipeline_parallel_degree"]))
    available = p["memory_capacity"] - p["reserved_memory_bytes"]
    working, gathered = working_bytes(p), gathered_bytes(p)
    parts, room = [], []
    for stage in stages:
        held = states(p, *stage_parameters(p)[stage])
        own = held | {"activation_bytes": activations(p, stage)}
        own["temporary_bytes"] = working + gathered + logits_and_gradient(p, stage)
        parts.append(own)
        fixed = fsum(held.values()) + gathered
        sequence = (fsum(own.values()) - fixed) / p["microbatch_size"]
        room.append((available - fixed) / sequence)
    needed = [fsum(own.values()) for own in parts]
    fullest = len(stages) - 1 if needed[-1] == max(needed) else needed.index(max(needed))
    sequences = p["microbatch_size"] * p["number_of_microbatches_per_minibatch"]
    return parts[fullest] | {
        "memory_per_accelerator_bytes": needed[fullest],
        "fits_in_memory": float(needed[fullest] <= available),
        "largest_microbatch_size": max(min(floor(min(room)), sequences), 0),
    }
