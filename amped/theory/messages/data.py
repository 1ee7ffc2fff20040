"""Data parallelism: gradients that replicas add up, and model states that ZeRO shards within groups of replicas.

From ZeRO stage 2 on, gradients are reduce-scattered for each micro-batch. At stage 3, weights are gathered for each
micro-batch.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.records import Collective, Group, latest, total
from amped.theory.nouns.shardings import is_sharded


@quantity("byte")
def largest_bucket_bytes(gradient_bucket_bytes, gradient_bucket_bytes_per_replica, replica_group):
    """The bytes of a bucket: the gradients that are reduced in one message, at most. 0: one message takes all.

        max(gradient_bucket_bytes, gradient_bucket_bytes_per_replica · replicas)

    Source: Megatron-Core, distributed/distributed_data_parallel.py: max(40 M, 1 M · replicas) parameters, so that the
    shares of a ring stay large. Differs: there, buckets exist only if gradients overlap the backward pass.
    """
    (replicas,) = replica_group
    return np.maximum(gradient_bucket_bytes, gradient_bucket_bytes_per_replica * replicas.degree)


def buckets_of(volume, bucket):
    """The number of buckets that a payload fills, at least one; one if `bucket` is 0.

    It is no whole number, so that the last bucket of a larger payload is never smaller.

    Source: definition.
    """
    return np.where(bucket > 0 * bucket, np.maximum(volume / bucket, 1), 1)


@quantity("count")
def sharding_messages(
    trained_parameters_per_accelerator,
    exchanged_gradient_precision,
    largest_bucket_bytes,
    zero_stage,
    largest_stage_layers,
):
    """The number of messages in which the gradients of a stage are reduced, and its weights are gathered.

    It is one for each layer if ZeRO shards weights, else one for each bucket.

    Source: arXiv 2304.11277, section 3.2.1; arXiv 2006.15704, section 3.2 (buckets).
    """
    buckets = buckets_of(trained_parameters_per_accelerator * exchanged_gradient_precision, largest_bucket_bytes)
    return np.where(is_sharded("weight", zero_stage), largest_stage_layers, buckets)


@quantity("count", choice="sharding_unit", value="tensor")
def sharding_messages__tensor(
    trained_parameters_per_accelerator,
    exchanged_gradient_precision,
    largest_bucket_bytes,
    zero_stage,
    largest_stage_layers,
    sharding_degree,
    weight_tensors_per_layer,
):
    """The number of messages of a stage, if each replica owns whole weight tensors: at least one for each owner.

    Source: InternLM/InternEvo, solver/optimizer/hybrid_zero_optim.py (a bucket for each owner). Differs: the tensors of
    embedding and output head are left out.
    """
    owners = np.minimum(sharding_degree, largest_stage_layers * weight_tensors_per_layer)
    buckets = buckets_of(trained_parameters_per_accelerator * exchanged_gradient_precision, largest_bucket_bytes)
    messages = np.maximum(buckets, owners * is_sharded("optimizer_state", zero_stage))
    return np.where(is_sharded("weight", zero_stage), largest_stage_layers, messages)


@quantity("count")
def scattered_gradient_messages(sharding_messages, zero_stage, whole_gradient_exchange):
    """The number of messages in which the gradients of a stage are reduce-scattered; all others are all-reduced.

    Replicas that shard only optimizer states may all-reduce all gradients instead (`whole_gradient_exchange`).

    Source: arXiv 1910.02054, section 7.
    """
    all_reduced = whole_gradient_exchange * ~is_sharded("gradient", zero_stage)
    return sharding_messages * is_sharded("optimizer_state", zero_stage) * (1 - all_reduced)


def copy_messages(volume, messages, bucket):
    """The number of messages in which the copies of a shard sum its gradients: buckets, but no more than scatters.

    Args:
        volume: the bytes of the gradients of a shard.
        messages: the number of messages in which the gradients are scattered.
        bucket: the bytes of a bucket; 0 if each scattered message is summed on its own.

    Source: OpenXLA, all_reduce_combiner.cc; PyTorch, fully_shard (HSDP: an all-reduce for each scattered message).
    """
    return np.where(bucket > 0 * bucket, np.minimum(buckets_of(volume, bucket), messages), messages)


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
    largest_bucket_bytes,
):
    """The data-parallel collectives for all parameters except routed experts.

    Without ZeRO the replicas all-reduce the gradients. With ZeRO the gradients are reduce-scattered over the shards,
    and the weights are all-gathered. With hybrid sharding the copies of a shard also all-reduce its gradients.
    A gather has the volume of the whole weights, not of a shard:

        volume = bytes of the weights of a stage / messages of the stage (with ZeRO 3: its layers, else its buckets).

    Source: arXiv 1910.02054, section 7; arXiv 2304.11277, section 3.2.
    """
    gradients = trained_parameters_per_accelerator * exchanged_gradient_precision / sharding_messages
    weights = gathered_weight_bytes_per_accelerator / sharding_messages
    sharded, scattered = sharding_messages * is_sharded("optimizer_state", zero_stage), scattered_gradient_messages
    all_reduced = sharding_messages - scattered
    (replicas,), (shards,) = replica_group, shard_group
    copies = Group("copies of a shard", replicas.intra / shards.intra, replicas.inter / shards.inter)
    copied = gradients / sharding_degree * scattered
    messages = copy_messages(copied, scattered, largest_bucket_bytes)
    return (
        Collective("gradients", "all_reduce", group=replicas, volume=gradients, count=all_reduced),
        Collective("gradients", "reduce_scatter", group=shards, volume=gradients, count=scattered),
        Collective(
            "gradient_copies", "all_reduce", group=copies, volume=copied / np.maximum(messages, 1), count=messages
        ),
        Collective("weights", "all_gather", group=shards, volume=weights, count=sharded),
    )


@records(choice="sharding_unit", value="tensor")
def sharding_collectives__tensor(
    trained_parameters_per_accelerator,
    exchanged_gradient_precision,
    gathered_weight_bytes_per_accelerator,
    zero_stage,
    sharding_messages,
    scattered_gradient_messages,
    sharding_degree,
    replica_group,
    shard_group,
    largest_bucket_bytes,
):
    """The data-parallel collectives for all parameters except routed experts, if replicas own whole weight tensors.

    Gradients are reduced to the owner of their tensors, and the owner sends the updated weights to all others.

    Source: InternLM/InternEvo, solver/optimizer/hybrid_zero_optim.py (_partition_param_list, _broadcast_params).
    """
    even = sharding_collectives(
        trained_parameters_per_accelerator,
        exchanged_gradient_precision,
        gathered_weight_bytes_per_accelerator,
        zero_stage,
        sharding_messages,
        scattered_gradient_messages,
        sharding_degree,
        replica_group,
        shard_group,
        largest_bucket_bytes,
    )
    to_owners = {"reduce_scatter": "reduce", "all_gather": "broadcast"}
    return tuple(collective.having(kind=to_owners.get(collective.kind, collective.kind)) for collective in even)


@records()
def expert_sharding_collectives(
    expert_class_parameters,
    exchanged_gradient_precision,
    parameter_classes,
    zero_stage,
    largest_stage_layers,
    whole_gradient_exchange,
    largest_bucket_bytes,
    expert_replica_group,
):
    """The data-parallel collectives for the routed experts, among the accelerators that hold equal experts.

    They have buckets of their own.

    Source: Megatron-Core, expert data parallelism. Differs: hybrid sharding, and experts that replicas own as a whole,
    are left out.
    """
    experts = [
        pair for pair in zip(parameter_classes, expert_class_parameters[0].counts, strict=True) if pair[0].routed
    ]
    gathered = total(n * (c.precision * np.maximum(c.changes, is_sharded("weight", zero_stage))) for c, n in experts)
    gradients = total(c.changes * n for c, n in experts) * exchanged_gradient_precision
    buckets = buckets_of(gradients, largest_bucket_bytes)
    messages = np.where(is_sharded("weight", zero_stage), largest_stage_layers, buckets)
    all_reduced = whole_gradient_exchange * ~is_sharded("gradient", zero_stage)
    sharded = messages * is_sharded("optimizer_state", zero_stage)
    scattered, gradients = sharded * (1 - all_reduced), gradients / messages
    weights, all_reduced = gathered / messages, messages - scattered
    (replicas,) = expert_replica_group
    return (
        Collective("expert_gradients", "all_reduce", group=replicas, volume=gradients, count=all_reduced),
        Collective("expert_gradients", "reduce_scatter", group=replicas, volume=gradients, count=scattered),
        Collective("expert_weights", "all_gather", group=replicas, volume=weights, count=sharded),
    )
