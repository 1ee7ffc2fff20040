"""Time to add up gradients over the replicas, and to gather weights that ZeRO shards. Closed form of AMPeD.

Nothing overlaps with computation, and latency is left out: both are few large messages.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, records
from amped.records import Collective, total


@parameter("count", category=MAPPING, at_least=0, at_most=3)
def zero_stage():
    """What the replicas share out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too.

    Source: arXiv 1910.02054.
    """
    return 0


@quantity("1")
def gradient_all_reduce_share(zero_stage):
    """Share of an all-reduce that the gradients need: with sharded weights its first half, the reduce-scatter.

    Source: arXiv 1910.02054, section 7. Differs: stage 2 may scatter gradients every micro-batch; here once a step.
    """
    return np.where(zero_stage >= 3, 0.5, 1.0)


@quantity("count")
def intra_node_replicas(intra_node_data_parallel_degree, intra_node_context_parallel_degree, intra_node_weight_copies):
    """Accelerators of a node that hold the same parameters. Source: arXiv 1910.02054."""
    return intra_node_data_parallel_degree * intra_node_context_parallel_degree * intra_node_weight_copies


@quantity("count")
def inter_node_replicas(inter_node_data_parallel_degree, inter_node_context_parallel_degree, inter_node_weight_copies):
    """Nodes that hold the same parameters. Source: arXiv 1910.02054."""
    return inter_node_data_parallel_degree * inter_node_context_parallel_degree * inter_node_weight_copies


@quantity("count")
def intra_node_expert_replicas(places_for_expert, intra_node_expert_parallel_degree, expert_state_replicas):
    """Accelerators of a node that hold the same experts. Source: Megatron-Core, expert data parallelism."""
    inside = np.maximum(places_for_expert / intra_node_expert_parallel_degree, 1)
    return np.minimum(inside, np.maximum(expert_state_replicas, 1))


@quantity("count")
def inter_node_expert_replicas(expert_state_replicas, intra_node_expert_replicas):
    """Nodes that hold the same experts. Source: Megatron-Core, expert data parallelism."""
    return np.maximum(expert_state_replicas, 1) / intra_node_expert_replicas


@records()
def data_collectives(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, gradient_precision, gradient_all_reduce_share,
    intra_node_replicas, inter_node_replicas, intra_node_expert_replicas, inter_node_expert_replicas,
):  # fmt: skip
    """One all-reduce of the worst stage's gradients a step, and one of its experts'.

    Source: arXiv 2104.04473, section 3.3. Differs: a tied embedding's sum over the first and last stage, and hybrid
    sharding, are left out.
    """
    shared = shared_parameters_per_accelerator * gradient_precision
    experts = expert_parameters_per_accelerator * gradient_precision
    replicas = (intra_node_replicas, inter_node_replicas)
    expert_replicas = (intra_node_expert_replicas, inter_node_expert_replicas)
    return (
        Collective("gradients", "all_reduce", shared, *replicas, gradient_all_reduce_share),
        Collective("expert_gradients", "all_reduce", experts, *expert_replicas, gradient_all_reduce_share),
    )


@records()
def weight_collectives(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, weight_precision, zero_stage,
    intra_node_replicas, inter_node_replicas, intra_node_expert_replicas, inter_node_expert_replicas,
):  # fmt: skip
    """Sharded weights, to be gathered for each pass of each micro-batch.

    Source: arXiv 1910.02054, section 7.2.2; arXiv 2304.11277 (FSDP). Differs: AMPeD multiplies the other communication
    by 1 + M, M = 0.5, which is nothing where there is none and the same for one micro-batch as for a hundred.
    """
    calls = 1.0 * (zero_stage >= 3)
    shared = shared_parameters_per_accelerator * weight_precision
    experts = expert_parameters_per_accelerator * weight_precision
    return (
        Collective("weights", "all_gather", shared, intra_node_replicas, inter_node_replicas, calls),
        Collective(
            "expert_weights", "all_gather", experts, intra_node_expert_replicas, inter_node_expert_replicas, calls
        ),
    )


@quantity("s", choice="performance_model", value="amped")
def intra_node_gradient_communication_time__amped(
    data_collectives, inter_accelerator_bandwidth, inter_accelerator_efficiency
):
    """Time of the gradient all-reduce inside the node. Source: AMPeD, gradient all-reduce."""
    rate = inter_accelerator_bandwidth * inter_accelerator_efficiency
    return total(c.count * 2 * (c.intra - 1) / c.intra * c.volume / rate for c in data_collectives)


@quantity("s", choice="performance_model", value="amped")
def inter_node_gradient_communication_time__amped(
    data_collectives, inter_node_bandwidth_per_accelerator, inter_node_efficiency
):
    """Time of the gradient all-reduce across nodes. Source: AMPeD, gradient all-reduce."""
    rate = inter_node_bandwidth_per_accelerator * inter_node_efficiency
    return total(c.count * 2 * (c.inter - 1) / c.inter * c.volume / c.intra / rate for c in data_collectives)


@quantity("s", choice="performance_model", value="amped")
def weight_gathering_time__amped(
    weight_collectives, inter_accelerator_bandwidth, inter_accelerator_efficiency,
    inter_node_bandwidth_per_accelerator, inter_node_efficiency, number_of_microbatches_per_minibatch,
    communicating_passes,
):  # fmt: skip
    """Time to gather sharded weights, inside and then across nodes. Source: arXiv 1910.02054, section 7.2.2."""
    inside = inter_accelerator_bandwidth * inter_accelerator_efficiency
    across = inter_node_bandwidth_per_accelerator * inter_node_efficiency
    once = total(
        c.count * ((c.intra - 1) / c.intra * c.volume / inside + (c.inter - 1) / c.inter * c.volume / c.intra / across)
        for c in weight_collectives
    )
    return once * number_of_microbatches_per_minibatch * communicating_passes


@quantity("s", choice="performance_model", value="amped")
def exposed_data_communication_time__amped(
    intra_node_gradient_communication_time, inter_node_gradient_communication_time, weight_gathering_time
):
    """Time of data parallelism: gradients inside, then across nodes, and sharded weights.

    Source: AMPeD, gradient all-reduce.
    """
    gradients = intra_node_gradient_communication_time + inter_node_gradient_communication_time
    return gradients + weight_gathering_time
