"""Data parallelism: gradients added up, and states sharded by ZeRO within groups of replicas.

From ZeRO 2 on gradients are scattered for each micro-batch, from ZeRO 3 on weights are gathered for each.
"""

import numpy as np

from amped.theory.quantity import quantity, records
from amped.theory.records import Collective


@quantity("count")
def sharding_messages(zero_stage, largest_stage_layers):
    """Messages in which a stage's weights are gathered: one for each layer where they are sharded. Source: arXiv 2304.11277."""
    return np.where(zero_stage >= 3, largest_stage_layers, 1)


@records()
def sharding_collectives(
    non_expert_parameters_per_accelerator,
    gradient_precision,
    weight_precision,
    zero_stage,
    sharding_messages,
    sharding_degree,
    intra_node_replicas,
    inter_node_replicas,
    intra_node_shards,
    inter_node_shards,
):
    """Gradients reduced to all replicas, or scattered over the shards and reduced over their copies; weights gathered.

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277.
    """
    gradients = non_expert_parameters_per_accelerator * gradient_precision / sharding_messages
    weights = non_expert_parameters_per_accelerator * weight_precision / sharding_messages
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
    expert_parameters_per_accelerator,
    gradient_precision,
    weight_precision,
    zero_stage,
    sharding_messages,
    intra_node_expert_replicas,
    inter_node_expert_replicas,
):
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
