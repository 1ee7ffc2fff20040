"""Collectives of a step of AMPeD's model, call by call, over the links inside a node and those across nodes."""

from math import fsum

from tests.helpers.counted.layers import (
    Values,
    is_mixture,
    is_recomputed,
    microbatch_tokens,
    parameters_per_accelerator,
)

REDUCED = 2  # an all-reduce carries the payload twice: reduce-scatter, then all-gather
SUBLAYERS = 2  # attention and feed-forward; each all-reduces its output over the tensor-parallel group
ALL_TO_ALLS = 2  # dispatch and combine


class Tier:
    """The links inside a node, or those across nodes, and how many of a group they join."""

    def __init__(self, members: float, bandwidth: float, latency: float) -> None:
        self.members, self.bandwidth, self.latency = members, bandwidth, latency

    def gather(self, payload: float) -> float:
        """Seconds of a ring all-gather (or reduce-scatter) that leaves `payload` bytes with each member."""
        steps = self.members - 1
        return steps * (payload / self.members / self.bandwidth + self.latency)


def inside(p: Values, members: float) -> Tier:
    rate = p["inter_accelerator_bandwidth"] * p["inter_accelerator_efficiency"]
    return Tier(members, rate, p["inter_accelerator_latency"])


def across(p: Values, members: float) -> Tier:
    node = p["number_of_network_cards_per_node"] * p["bandwidth_per_network_card"] / p["oversubscription"]
    one = node / p["number_of_accelerators_per_node"]
    return Tier(members, one * p["inter_node_efficiency"], p["inter_node_latency"])


def gathered(near: Tier, far: Tier, payload: float) -> float:
    return near.gather(payload) + far.gather(payload / near.members)


def reduced(near: Tier, far: Tier, payload: float) -> float:
    return REDUCED * gathered(near, far, payload)


def volume_reduced(near: Tier, far: Tier, payload: float) -> float:
    """An all-reduce so large that latency is not counted."""
    return reduced(Tier(near.members, near.bandwidth, 0.0), Tier(far.members, far.bandwidth, 0.0), payload)


def scattered(near: Tier, far: Tier, payload: float) -> float:
    """An all-to-all: what stays in the node goes over its links, the rest over the network."""
    stays = payload * (near.members - 1) / (near.members * far.members)
    leaves = payload * (far.members - 1) / far.members
    latency = (near.members - 1) * near.latency + (far.members - 1) * far.latency
    return stays / near.bandwidth + leaves / far.bandwidth + latency


def tiers(p: Values, *kinds: str) -> tuple[Tier, Tier]:
    """The links that a group of these kinds spans."""
    near = far = 1.0
    for kind in kinds:
        near *= p[f"intra_node_{kind}_parallel_degree"]
        far *= p[f"inter_node_{kind}_parallel_degree"]
    return inside(p, near), across(p, far)


def data_communication(p: Values) -> float:
    """Seconds in which the replicas add up their gradients, once a step, and gather weights that are sharded."""
    shared, routed = parameters_per_accelerator(p)
    near, far = tiers(p, "data", "context")
    expert_near, expert_far = tiers(p, "expert")
    groups = [(near, far, shared), (inside(p, near.members / expert_near.members),
                                    across(p, far.members / expert_far.members), routed)]  # fmt: skip
    seconds = 0.0
    for group_near, group_far, parameters in groups:
        whole = volume_reduced(group_near, group_far, parameters * p["gradient_precision"])
        if p["zero_stage"] < 3:
            seconds += whole
            continue
        seconds += whole / REDUCED  # each keeps its own share of the sum
        gather = volume_reduced(group_near, group_far, parameters * p["weight_precision"]) / REDUCED
        for _ in range(int(p["number_of_microbatches_per_minibatch"])):
            for _ in range(int(p["layers"])):
                seconds += gather * passes(p) / p["layers"]
    return seconds


def passes(p: Values) -> float:
    """Passes through a layer that need its weights, averaged over the layers."""
    return fsum(3 if is_recomputed(p, layer) else 2 for layer in range(int(p["layers"]))) / p["layers"]


def head_bytes(p: Values, heads: float) -> float:
    """So many heads of an accelerator's own tokens."""
    return microbatch_tokens(p) * heads * p["head_dimension"] / p["tensor_parallel_degree"] * p["activation_precision"]


def handed(near: Tier, far: Tier, payload: float) -> float:
    """To the neighbor in a ring; some neighbor is in another node as soon as there is one."""
    tier = far if far.members > 1 else near
    return payload / tier.bandwidth + tier.latency


def exchanged(p: Values) -> float:
    """Keys and values on their way to all shares of a sequence, in one pass."""
    near, far = tiers(p, "context")
    own, shares = head_bytes(p, 2 * p["key_value_heads"]), p["context_parallel_degree"]
    if p["context_parallel_kind"] == "all_gather":
        return gathered(near, far, own * shares)
    if p["context_parallel_kind"] == "all_to_all":  # queries too, and the output back
        queries = head_bytes(p, p["attention_heads"])
        return scattered(near, far, own + queries) + scattered(near, far, queries)
    return fsum(handed(near, far, own) for _ in range(int(shares) - 1))


def exchanged_gradients(p: Values) -> float:
    """Gradients of keys and values on their way home; exchanged heads take theirs with them."""
    near, far = tiers(p, "context")
    own, shares = head_bytes(p, 2 * p["key_value_heads"]), p["context_parallel_degree"]
    if p["context_parallel_kind"] == "all_gather":
        return gathered(near, far, own * shares)
    if p["context_parallel_kind"] == "all_to_all" or shares == 1:
        return 0.0
    return fsum(handed(near, far, own) for _ in range(int(shares)))


def communication(p: Values) -> dict[str, float]:
    tp, pp = p["tensor_parallel_degree"], p["pipeline_parallel_degree"]
    tokens = microbatch_tokens(p)
    hidden = tokens * p["dimensionality"] * p["activation_precision"]

    tensor, context, expert, boundary = [], [], [], []
    for _ in range(int(p["number_of_microbatches_per_minibatch"])):
        for layer in range(int(p["layers"])):
            for _ in range(3 if is_recomputed(p, layer) else 2):
                tensor += [reduced(*tiers(p, "tensor"), hidden)] * SUBLAYERS
                context.append(exchanged(p))
                if is_mixture(p, layer):
                    payload = hidden * p["experts_per_token"] / tp
                    expert += [scattered(*tiers(p, "expert"), payload)] * ALL_TO_ALLS
            context.append(exchanged_gradients(p))
        if pp > 1:
            near, far = tiers(p, "pipeline")
            rate = far.bandwidth if far.members > 1 else near.bandwidth
            boundary += [hidden / tp / rate, hidden / tp / rate]  # activations on, gradients back

    return {
        "exposed_tensor_communication_time": fsum(tensor) / pp,
        "exposed_pipeline_communication_time": fsum(boundary),
        "exposed_data_communication_time": data_communication(p),
        "exposed_context_communication_time": fsum(context) / pp,
        "exposed_expert_communication_time": fsum(expert) / pp,
    }
