"""The slow twin's memory: states, activations and what is held for a while, in bytes of one accelerator."""

from math import fsum

from slow_twin_layers import (
    is_mixture,
    is_recomputed,
    microbatch_tokens,
    parameters_per_accelerator,
    routed_layer_parameters,
    shared_layer_parameters,
)

# --- activations -----------------------------------------------------------------------------------------------------


def score_bytes(p: dict, tokens: float) -> float:
    """Softmax output, and with dropout its mask and what it leaves, for one layer."""
    if p["flash_attention"]:
        return 0.0
    entries = tokens * p["context"] * p["attention_heads"] / p["tensor_parallel_degree"]
    kept = entries * p["activation_precision"]
    if p["dropout"] > 0:
        kept += entries * 1 + entries * p["activation_precision"]
    return kept


def input_bytes(p: dict, tokens: float) -> float:
    whole = tokens * p["dimensionality"] * p["activation_precision"]
    return whole / p["tensor_parallel_degree"] if p["sequence_parallel"] else whole


def layer_bytes(p: dict, layer: int, tokens: float) -> float:
    """All that one layer keeps of one micro-batch when nothing is recomputed."""
    a, d, tp = p["activation_precision"], p["dimensionality"], p["tensor_parallel_degree"]
    unsplit = p["norms_per_layer"] * tokens * d * a  # inputs of the norms
    unsplit += 2 * tokens * d * a  # inputs of the projection and of the feed-forward
    if p["dropout"] > 0:
        unsplit += 2 * tokens * d * 1  # masks after both
    if p["sequence_parallel"]:
        unsplit /= tp
    split = tokens * p["attention_heads"] * p["head_dimension"] * a  # queries
    split += 2 * tokens * p["key_value_heads"] * p["head_dimension"] * a  # keys and values
    split += tokens * p["attention_heads"] * p["head_dimension"] * a  # input of the output projection
    copies = 3 if p["gated_mlp"] else 2  # (gate,) up, input of down
    if is_mixture(p, layer):
        split += copies * p["experts_per_token"] * tokens * p["expert_feedforward_dimension"] * a
        split += p["experts_per_token"] * tokens * d * a * p["tensor_parallel_degree"]  # each share has it whole
        if p["number_of_shared_experts"]:
            split += copies * tokens * p["shared_experts_feedforward_dimension"] * a
    else:
        split += copies * tokens * p["feedforward_dimension"] * a
    return unsplit + split / tp + score_bytes(p, tokens)


def kept_bytes(p: dict, layer: int, tokens: float) -> float:
    if is_recomputed(p, layer):
        return input_bytes(p, tokens)
    if p["activation_recomputation"] == "selective":
        return layer_bytes(p, layer, tokens) - score_bytes(p, tokens)
    return layer_bytes(p, layer, tokens)


# --- all of the memory -----------------------------------------------------------------------------------------------


def memory(p: dict) -> dict:
    layers = range(int(p["layers"]))
    tp, pp = p["tensor_parallel_degree"], p["pipeline_parallel_degree"]
    tokens = microbatch_tokens(p)
    shared, routed = parameters_per_accelerator(p)
    replicas = p["data_parallel_degree"] * p["context_parallel_degree"]
    routed_replicas = replicas / p["expert_parallel_degree"]

    def state(width: float, from_stage: int) -> float:
        if p["zero_stage"] >= from_stage:
            return width * (shared / replicas + routed / routed_replicas)
        return width * (shared + routed)

    m, v = p["number_of_microbatches_per_minibatch"], p["virtual_pipeline_stages"]
    first = min(pp, m) * (1 + (pp - 1) / (pp * v) if v > 1 else 1)
    last = ((v - 1) * pp + 1) / v  # one micro-batch in its last chunk, a whole round of them in each earlier one
    kept = fsum(kept_bytes(p, i, tokens) for i in layers) / pp
    logits = tokens * p["vocabulary_size"] * p["logits_precision"] / tp
    at_the_end = pp == 1 or kept * last + logits > kept * first
    temporary = 0.0
    if p["zero_stage"] >= 3 and replicas > 1:  # a layer's weights are whole while it runs
        whole = (shared_layer_parameters(p, i) / tp + routed_layer_parameters(p, i) / (p["expert_parallel_degree"] * tp)
                 for i in layers)  # fmt: skip
        temporary += max(whole) * p["weight_precision"]
    temporary += max((layer_bytes(p, i, tokens) for i in layers if is_recomputed(p, i)), default=0.0)
    if p["activation_recomputation"] == "selective":
        temporary += score_bytes(p, tokens)
    if at_the_end:
        temporary += logits
    return {
        "weight_bytes": state(p["weight_precision"], 3),
        "gradient_bytes": state(p["gradient_precision"], 2),
        "optimizer_state_bytes": state(p["optimizer_states_per_parameter"] * p["optimizer_state_precision"], 1),
        "activation_bytes": kept * (last if at_the_end else first),
        "temporary_bytes": temporary,
    }
