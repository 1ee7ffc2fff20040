"""Data parallelism: gradients that replicas add up, and model states that ZeRO shards within groups of replicas.

From ZeRO stage 2 on, gradients are reduce-scattered for each micro-batch. At stage 3, weights are gathered for each
micro-batch.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.records import Collective, Group, latest, total
from amped.theory.nouns.shardings import is_sharded


@quantity("count")
def sharding_messages(zero_stage, largest_stage_layers):
    """The number of messages in which the weights of a stage are gathered.

    It is one for each layer if ZeRO shards weights, else one in all.

    Source: arXiv 2304.11277, section 3.2.1.
    """
    return np.where(is_sharded("weight", zero_stage), largest_stage_layers, 1)


@quantity("count")
def scattered_gradient_messages(sharding_messages, zero_stage, whole_gradient_exchange):
    """The number of messages in which the gradients of a stage are reduce-scattered; all others are all-reduced.

    Replicas that shard only optimizer states may all-reduce all gradients instead (`whole_gradient_exchange`).

    Source: arXiv 1910.02054, section 7.
    """
    all_reduced = whole_gradient_exchange * ~is_sharded("gradient", zero_stage)
    return sharding_messages * is_sharded("optimizer_state", zero_stage) * (1 - all_reduced)


@quantity("byte")
def gathered_weight_bytes_per_accelerator(stage_parameters, parameter_classes, zero_stage):
    """The bytes of the weights that one accelerator gathers, without routed experts: those that its replicas updated.

    If ZeRO shards weights, an accelerator also gathers weights that training does not change.

    Source: arXiv 1910.02054, section 7.
    """
    gathered = [
        (place, c.precision * np.maximum(c.changes, is_sharded("weight", zero_stage)))
        for place, c in enumerate(parameter_classes)
        if not c.routed
    ]
    return latest(total(parameters.counts[place] * size for place, size in gathered) for parameters in stage_parameters)


@records()
def sharding_collectives(
    trained_parameters_per_accelerator,
    exchanged_gradient_precision,
    gathered_weight_bytes_per_accelerator,
    zero_stage,
    sharding_messages,
    scattered_gradient_messages,
    sharding_degree,
    replica_group,
    shard_group,
):
    """The data-parallel collectives for all parameters except routed experts.

    Without ZeRO the replicas all-reduce the gradients. With ZeRO the gradients are reduce-scattered over the shards,
    and the weights are all-gathered. With hybrid sharding the copies of a shard also all-reduce its gradients.
    A gather has the volume of the whole weights, not of a shard:

        volume = bytes of the weights of a stage / messages of the stage (with ZeRO 3: its layers).

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277, section 3.2.
    """
    gradients = trained_parameters_per_accelerator * exchanged_gradient_precision / sharding_messages
    weights = gathered_weight_bytes_per_accelerator / sharding_messages
    sharded, scattered = sharding_messages * is_sharded("optimizer_state", zero_stage), scattered_gradient_messages
    all_reduced = sharding_messages - scattered
    (replicas,), (shards,) = replica_group, shard_group
    copies = Group("copies of a shard", replicas.intra / shards.intra, replicas.inter / shards.inter)
    return (
        Collective("gradients", "all_reduce", group=replicas, volume=gradients, count=all_reduced),
        Collective("gradients", "reduce_scatter", group=shards, volume=gradients, count=scattered),
        Collective("gradient_copies", "all_reduce", group=copies, volume=gradients / sharding_degree, count=scattered),
        Collective("weights", "all_gather", group=shards, volume=weights, count=sharded),
    )


@records()
def expert_sharding_collectives(
    expert_parameters_per_accelerator,
    exchanged_gradient_precision,
    parameter_classes,
    zero_stage,
    sharding_messages,
    scattered_gradient_messages,
    expert_replica_group,
):
    """The data-parallel collectives for the routed experts, among the accelerators that hold equal experts.

    Source: Megatron-Core, expert data parallelism. Differs: hybrid sharding is left out.
    """
    (experts,) = [c for c in parameter_classes if c.routed]
    gathered = experts.precision * np.maximum(experts.changes, is_sharded("weight", zero_stage))
    gradients = experts.changes * expert_parameters_per_accelerator * exchanged_gradient_precision / sharding_messages
    weights = expert_parameters_per_accelerator * gathered / sharding_messages
    sharded, scattered = sharding_messages * is_sharded("optimizer_state", zero_stage), scattered_gradient_messages
    all_reduced = sharding_messages - scattered
    (replicas,) = expert_replica_group
    return (
        Collective("expert_gradients", "all_reduce", group=replicas, volume=gradients, count=all_reduced),
        Collective("expert_gradients", "reduce_scatter", group=replicas, volume=gradients, count=scattered),
        Collective("expert_weights", "all_gather", group=replicas, volume=weights, count=sharded),
    )
