"""Time to add up gradients over the replicas, and what ZeRO's third stage gathers. Closed form of AMPeD."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, records
from amped.records import Collective, total


@parameter("count", category=MAPPING, at_least=0, at_most=3)
def zero_stage():
    """What the replicas share out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too.

    Source: arXiv 1910.02054.
    """
    return 0


@parameter("1")
def sharded_weights_overhead():
    """Extra volume of sharded weights, as a share of a gradient all-reduce.

    Source: arXiv 1910.02054, section 7 (3Ψ for 2Ψ).
    """
    return 0.5


@quantity("1")
def zero_communication_factor(zero_stage, sharded_weights_overhead):
    """1 + M: data-parallel volume with sharded weights to that without.

    Source: AMPeD, training time, and arXiv 1910.02054, section 7. Differs: AMPeD multiplies tensor and expert communication by
    it, which is nothing where there is none; the weights are gathered over the data-parallel group.
    """
    return 1 + sharded_weights_overhead * (zero_stage >= 3)


@records()
def data_collectives(
    shared_parameters_per_accelerator, gradient_precision, zero_communication_factor,
    intra_node_data_parallel_degree, intra_node_context_parallel_degree, inter_node_data_parallel_degree,
    inter_node_context_parallel_degree,
):  # fmt: skip
    """One all-reduce of the worst stage's gradients over all replicas and shares of a sequence.

    Source: arXiv 2104.04473, section 3.3.
    """
    volume = shared_parameters_per_accelerator * gradient_precision
    intra = intra_node_data_parallel_degree * intra_node_context_parallel_degree
    inter = inter_node_data_parallel_degree * inter_node_context_parallel_degree
    return (Collective("gradients", "all_reduce", volume, intra, inter, zero_communication_factor),)


@records()
def expert_data_collectives(
    expert_parameters_per_accelerator, gradient_precision, zero_communication_factor, expert_state_replicas,
    places_for_expert, intra_node_expert_parallel_degree,
):  # fmt: skip
    """One all-reduce of the experts' gradients over those that hold the same experts.

    Source: Megatron-Core, expert data parallelism.
    """
    volume = expert_parameters_per_accelerator * gradient_precision
    replicas = np.maximum(expert_state_replicas, 1)
    intra = np.minimum(np.maximum(places_for_expert / intra_node_expert_parallel_degree, 1), replicas)
    return (Collective("expert_gradients", "all_reduce", volume, intra, replicas / intra, zero_communication_factor),)


@quantity("s", choice="performance_model", value="amped")
def intra_node_data_communication_time__amped(
    data_collectives, expert_data_collectives, inter_accelerator_bandwidth, inter_accelerator_efficiency
):
    """Time of the gradient all-reduce inside the node. Source: AMPeD, gradient all-reduce."""
    rate = inter_accelerator_bandwidth * inter_accelerator_efficiency
    return total(
        c.count * 2 * (c.intra - 1) / c.intra * c.volume / rate for c in data_collectives + expert_data_collectives
    )


@quantity("s", choice="performance_model", value="amped")
def inter_node_data_communication_time__amped(
    data_collectives, expert_data_collectives, inter_node_bandwidth_per_accelerator, inter_node_efficiency
):
    """Time of the gradient all-reduce across nodes. Source: AMPeD, gradient all-reduce."""
    rate = inter_node_bandwidth_per_accelerator * inter_node_efficiency
    return total(
        c.count * 2 * (c.inter - 1) / c.inter * c.volume / c.intra / rate
        for c in data_collectives + expert_data_collectives
    )


@quantity("s", choice="performance_model", value="amped")
def exposed_data_communication_time__amped(intra_node_data_communication_time, inter_node_data_communication_time):
    """Time of data parallelism: gradients inside, then across nodes, none behind the backward pass.

    Source: AMPeD, gradient all-reduce.
    """
    return intra_node_data_communication_time + inter_node_data_communication_time
