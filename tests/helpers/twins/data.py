"""The slow twin's data parallelism in the operator model: what is added up and gathered, and beside what it hides."""

from collections.abc import Mapping
from math import gcd

from tests.helpers.twins import operators as twin
from tests.helpers.twins.communication import across, inside, tiers
from tests.helpers.twins.layers import embedding_parameters, output_head_parameters, shared_layer_parameters
from tests.helpers.twins.values import Values


def stages(p: Values) -> list[float]:
    """How many layers each stage has."""
    count = int(p["pipeline_parallel_degree"])
    if count == 1:
        return [p["layers"]]
    first, last = (p[f"number_of_{end}_stage_layers"] for end in ("first", "last"))
    return [first, *[(p["layers"] - first - last) / (count - 2) for _ in range(count - 2)], last]


def parameters_of_the_fullest(p: Values) -> float:
    """Parameters of an accelerator on the stage that has most; the last has the head's matrix, tied or not."""
    counts = [layers * shared_layer_parameters(p, 0) for layers in stages(p)]
    counts[0] += embedding_parameters(p)
    counts[-1] += output_head_parameters(p, own_matrix=len(counts) > 1 or not p["tied_embeddings"])
    return max(counts) / p["tensor_parallel_degree"]


def data_communication(p: Values) -> tuple[float, float]:
    """Seconds in which gradients are added up, and weights gathered, once for what the rest of a step asks."""
    near, far = tiers(p, "data", "context")
    held, stage = parameters_of_the_fullest(p), p["zero_stage"]
    messages = max(stages(p)) if stage >= 3 else 1
    gradients, weights = (held * p[f"{kind}_precision"] / messages for kind in ("gradient", "weight"))
    if stage == 0:
        return twin.called(p, "all_reduce", (near, far), gradients), 0.0
    m, inner = p["number_of_microbatches_per_minibatch"], gcd(int(p["sharding_degree"]), int(near.members))
    outer = p["sharding_degree"] / inner
    shards = (inside(p, inner), across(p, outer))
    copies = (inside(p, near.members / inner), across(p, far.members / outer))
    scattered = twin.called(p, "gather", shards, gradients)
    scattered += twin.called(p, "all_reduce", copies, gradients / p["sharding_degree"])
    gathered = twin.called(p, "gather", shards, weights)
    return scattered * messages * (m if stage >= 2 else 1), gathered * messages * (2 * m if stage >= 3 else 1)


# What tensor parallelism hides and exposes, forward and back: where gradients find or make their time.
WINDOWS = ("hidden_there", "hidden_back", "hidden_exposed_there", "hidden_exposed_back")


def own_links(p: Values) -> bool:
    """Whether gradients cross nodes and tensor parallelism does not, so that both travel at once."""
    return p["inter_node_tensor_parallel_degree"] == 1 and p["inter_node_data_parallel_degree"] > 1


def free_forward(p: Values, parts: Mapping[str, float]) -> float:
    """Seconds of the forward passes in which the links of gradients are free."""
    exchanged = parts["hidden_exposed_there"] if own_links(p) else -parts["hidden_there"]
    return max(parts["compute_forward_time"] + exchanged, 0.0)


def hidden_data_communication(
    p: Values, parts: Mapping[str, float], gradients: float, weights: float, layers: float
) -> float:
    """Gradients beside what other communication left of the backward pass, weights beside what is left then.

    From stage 2 (3) of all micro-batches, before of the last (first); the last layer's has nothing left to hide behind.
    """
    if not p["overlap_data_communication"]:
        return 0.0
    m, able = p["number_of_microbatches_per_minibatch"], 1 - 1 / layers
    able *= p["prefetched_sharding_fraction"] if p["zero_stage"] >= 3 else 1
    forward = free_forward(p, parts) - parts["hidden_pipeline_communication_time"]
    backward = parts["compute_backward_time"] + parts["weight_update_time"] + parts["recomputation_time"]
    backward = max(backward + (parts["hidden_exposed_back"] if own_links(p) else -parts["hidden_back"]), 0.0)
    beside = min(gradients * able, backward / (1 if p["zero_stage"] >= 2 else m))
    left = forward + backward - beside if p["zero_stage"] >= 3 else forward / m
    return beside + min(weights * able, left)
