"""Data parallelism of the operator model: gradients added up, and states sharded by ZeRO within groups of replicas.

Stage 1 shards optimizer states, 2 gradients too, 3 weights too (FSDP). From stage 2 gradients are scattered for each
micro-batch, from stage 3 weights are gathered for each. Groups smaller than all replicas are hybrid sharding.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, records
from amped.records import Collective


@quantity("count", category=MAPPING)
def sharding_degree(state_replicas):
    """Replicas among which ZeRO shares out states: all, unless fewer are given (hybrid sharding).

    Source: arXiv 2304.11277, section 3.2.2.
    """
    return state_replicas


@parameter("boolean", category=MAPPING)
def pipelined_weight_sharding():
    """Whether the framework can shard weights within pipeline stages: torchtitan can, Megatron-LM and DeepSpeed cannot.

    Source: Megatron-LM, arguments.py.
    """
    return 0


@quantity("count")
def intra_node_shards(sharding_degree, intra_node_replicas):
    """Part of a sharding group inside the node: as many of its replicas as divide the group. Source: arXiv 2304.11277."""
    return np.gcd(sharding_degree.astype(np.int64), intra_node_replicas.astype(np.int64)).astype(np.float64)


@quantity("count")
def inter_node_shards(sharding_degree, intra_node_shards):
    """Nodes of a sharding group. Source: arXiv 2304.11277, section 3.2.2."""
    return sharding_degree / intra_node_shards


@quantity("count")
def expert_sharding_degree(expert_state_replicas, sharding_degree, state_replicas):
    """Replicas of an expert among which ZeRO shares out its states. Source: Megatron-Core, expert data parallelism."""
    return np.maximum(expert_state_replicas * sharding_degree / state_replicas, 1)


@quantity("count")
def optimizer_state_shards(zero_stage, sharding_degree):
    """Shares into which ZeRO cuts optimizer states: from stage 1 on. Source: arXiv 1910.02054, section 5."""
    return np.where(zero_stage >= 1, sharding_degree, 1)


@quantity("count")
def expert_optimizer_state_shards(zero_stage, expert_sharding_degree):
    """Shares into which ZeRO cuts optimizer states of routed experts: from stage 1 on. Source: arXiv 1910.02054, section 5."""
    return np.where(zero_stage >= 1, expert_sharding_degree, 1)


@quantity("count")
def gradient_shards(zero_stage, sharding_degree):
    """Shares into which ZeRO cuts gradients: from stage 2 on. Source: arXiv 1910.02054, section 5."""
    return np.where(zero_stage >= 2, sharding_degree, 1)


@quantity("count")
def expert_gradient_shards(zero_stage, expert_sharding_degree):
    """Shares into which ZeRO cuts gradients of routed experts: from stage 2 on. Source: arXiv 1910.02054, section 5."""
    return np.where(zero_stage >= 2, expert_sharding_degree, 1)


@quantity("count")
def weight_shards(zero_stage, sharding_degree):
    """Shares into which ZeRO cuts weights: from stage 3 on. Source: arXiv 1910.02054, section 5."""
    return np.where(zero_stage >= 3, sharding_degree, 1)


@quantity("count")
def expert_weight_shards(zero_stage, expert_sharding_degree):
    """Shares into which ZeRO cuts weights of routed experts: from stage 3 on. Source: arXiv 1910.02054, section 5."""
    return np.where(zero_stage >= 3, expert_sharding_degree, 1)


@quantity("boolean", constrains="sharding_degree")
def sharding_groups_divide_the_replicas(sharding_degree, state_replicas):
    """The replicas are a whole number of sharding groups. Source: arXiv 2304.11277, section 3.2.2."""
    return np.mod(state_replicas, sharding_degree) == 0


@quantity("count")
def sharding_messages(zero_stage, largest_stage_layers):
    """Messages in which a stage's weights are gathered: one for each layer where they are sharded. Source: arXiv 2304.11277."""
    return np.where(zero_stage >= 3, largest_stage_layers, 1)


@records()
def sharding_collectives(
    shared_parameters_per_accelerator, gradient_precision, weight_precision, zero_stage, sharding_messages,
    sharding_degree, intra_node_replicas, inter_node_replicas, intra_node_shards, inter_node_shards,
):  # fmt: skip
    """Gradients reduced to all replicas, or scattered over the shards and reduced over their copies; weights gathered.

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277.
    """
    gradients = shared_parameters_per_accelerator * gradient_precision / sharding_messages
    weights = shared_parameters_per_accelerator * weight_precision / sharding_messages
    whole, sharded = sharding_messages * (zero_stage < 1), sharding_messages * (zero_stage >= 1)
    shards = (intra_node_shards, inter_node_shards)
    copies = (intra_node_replicas / intra_node_shards, inter_node_replicas / inter_node_shards)
    return (
        Collective("gradients", "all_reduce", gradients, intra_node_replicas, inter_node_replicas, whole),
        Collective("gradients", "reduce_scatter", gradients, *shards, sharded),
        Collective("gradient_copies", "all_reduce", gradients / sharding_degree, *copies, sharded),
        Collective("weights", "all_gather", weights, *shards, sharded),
    )


@records()
def expert_sharding_collectives():
    """Collectives of the routed experts' states: none in a dense network. Source: definition."""
    return ()


@records(choice="feedforward_kind", value="mixture")
def expert_sharding_collectives__mixture(
    expert_parameters_per_accelerator, gradient_precision, weight_precision, zero_stage, sharding_messages,
    intra_node_expert_replicas, inter_node_expert_replicas,
):  # fmt: skip
    """Gradients and weights of the routed experts, over the accelerators that hold the same.

    Source: Megatron-Core, expert data parallelism. Differs: hybrid sharding is left out.
    """
    gradients = expert_parameters_per_accelerator * gradient_precision / sharding_messages
    weights = expert_parameters_per_accelerator * weight_precision / sharding_messages
    whole, sharded = sharding_messages * (zero_stage < 1), sharding_messages * (zero_stage >= 1)
    group = (intra_node_expert_replicas, inter_node_expert_replicas)
    return (
        Collective("expert_gradients", "all_reduce", gradients, *group, whole),
        Collective("expert_gradients", "reduce_scatter", gradients, *group, sharded),
        Collective("expert_weights", "all_gather", weights, *group, sharded),
    )
