"""Data parallelism: gradients added up, and states sharded by ZeRO within groups of replicas.

From ZeRO 2 on gradients are scattered for each micro-batch, from ZeRO 3 on weights are gathered for each.
"""

import numpy as np

from amped.theory.parallelisms import shares
from amped.theory.quantity import quantity, records
from amped.theory.records import Collective, Group


@quantity("count")
def sharding_messages(zero_stage, largest_stage_layers):
    """Messages in which a stage's weights are gathered: one for each layer where they are sharded.

    Source: arXiv 2304.11277.
    """
    return np.where(shares("weight", zero_stage), largest_stage_layers, 1)


@records()
def sharding_collectives(
    non_expert_parameters_per_accelerator,
    exchanged_gradient_precision,
    weight_precision,
    zero_stage,
    sharding_messages,
    sharding_degree,
    replica_group,
    shard_group,
):
    """Gradients reduced to all replicas, or scattered over the shards and reduced over their copies; weights gathered.

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277.
    """
    gradients = non_expert_parameters_per_accelerator * exchanged_gradient_precision / sharding_messages
    weights = non_expert_parameters_per_accelerator * weight_precision / sharding_messages
    sharded = sharding_messages * shares("optimizer_state", zero_stage)
    whole = sharding_messages - sharded
    (replicas,), (shards,) = replica_group, shard_group
    copies = Group("copies of a shard", replicas.intra / shards.intra, replicas.inter / shards.inter)
    return (
        Collective("gradients", "all_reduce", group=replicas, volume=gradients, count=whole),
        Collective("gradients", "reduce_scatter", group=shards, volume=gradients, count=sharded),
        Collective("gradient_copies", "all_reduce", group=copies, volume=gradients / sharding_degree, count=sharded),
        Collective("weights", "all_gather", group=shards, volume=weights, count=sharded),
    )


@records()
def expert_sharding_collectives(
    expert_parameters_per_accelerator,
    exchanged_gradient_precision,
    weight_precision,
    zero_stage,
    sharding_messages,
    expert_replica_group,
):
    """Gradients and weights of the routed experts, over the accelerators that hold the same.

    Source: Megatron-Core, expert data parallelism. Differs: hybrid sharding is left out.
    """
    gradients = expert_parameters_per_accelerator * exchanged_gradient_precision / sharding_messages
    weights = expert_parameters_per_accelerator * weight_precision / sharding_messages
    sharded = sharding_messages * shares("optimizer_state", zero_stage)
    whole = sharding_messages - sharded
    (replicas,) = expert_replica_group
    return (
        Collective("expert_gradients", "all_reduce", group=replicas, volume=gradients, count=whole),
        Collective("expert_gradients", "reduce_scatter", group=replicas, volume=gradients, count=sharded),
        Collective("expert_weights", "all_gather", group=replicas, volume=weights, count=sharded),
    )
