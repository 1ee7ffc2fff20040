"""Time to communicate, by the closed form of AMPeD: ring collectives, first inside the node, then across nodes.

What lies across nodes carries the share that the ring inside the node left to each accelerator, so its volume is
divided by the degree inside. Nothing overlaps with computation.
"""

from amped.quantity import parameter, quantity, records
from amped.records import Collective, total


@parameter("count")
def forward_and_backward_passes():
    """Passes through a layer in a step that communicate: forward and backward. Source: AMPeD, training time."""
    return 2


@quantity("count")
def communicating_passes(forward_and_backward_passes, recomputed_layer_fraction):
    """Passes that communicate between the shares of a layer, the repeated forward pass too, averaged over the layers.

    Source: arXiv 2104.04473, section 3.5. The attention core, computed again by itself, has no communication.
    """
    return forward_and_backward_passes + recomputed_layer_fraction


@quantity("byte")
def microbatch_bytes(microbatch_tokens, dimensionality, activation_precision):
    """Size of a micro-batch's activations between two layers. Source: definition."""
    return microbatch_tokens * dimensionality * activation_precision


@records()
def tensor_collectives(
    microbatch_bytes, intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows, sequence_parallel,
    attentions_per_layer, feedforward_exchanges_per_layer,
):  # fmt: skip
    """Two all-reduces a layer forward; with sequence parallelism, their two halves around each block.

    Source: arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.2.2. Backward has as many.
    """
    shape = (microbatch_bytes, intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows)
    whole, halves, networks = 1 - sequence_parallel, 1.0 * sequence_parallel, feedforward_exchanges_per_layer
    return (
        Collective("attention_input", "all_gather", *shape, attentions_per_layer * halves),
        Collective("attention_output", "reduce_scatter", *shape, attentions_per_layer * halves),
        Collective("attention_output", "all_reduce", *shape, attentions_per_layer * whole),
        Collective("feedforward_input", "all_gather", *shape, networks * halves),
        Collective("feedforward_down", "reduce_scatter", *shape, networks * halves),
        Collective("feedforward_down", "all_reduce", *shape, networks * whole),
    )


# Times that the payload goes round: gathered, scattered, or both.
ROUNDS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "broadcast": 1, "reduce": 1}


@quantity("s", choice="performance_model", value="amped")
def intra_node_tensor_communication_time__amped(
    tensor_collectives, inter_accelerator_bandwidth, inter_accelerator_efficiency, inter_accelerator_latency,
    layer_calls, communicating_passes,
):  # fmt: skip
    """Time of tensor parallelism inside the node: ring all-reduces.

    Source: AMPeD, tensor-parallel communication inside nodes.
    """
    rate = inter_accelerator_bandwidth * inter_accelerator_efficiency
    once = total(
        c.count
        * ROUNDS[c.kind]
        * ((c.intra - 1) / c.intra * c.volume / rate + (c.intra - 1) * inter_accelerator_latency)
        for c in tensor_collectives
    )
    return once * layer_calls * communicating_passes


@quantity("s", choice="performance_model", value="amped")
def inter_node_tensor_communication_time__amped(
    tensor_collectives, inter_node_bandwidth_per_accelerator, inter_node_efficiency, inter_node_latency, layer_calls,
    communicating_passes,
):  # fmt: skip
    """Time of tensor parallelism across nodes: ring all-reduces of what the node left to do.

    Source: AMPeD, tensor-parallel communication across nodes.
    """
    rate = inter_node_bandwidth_per_accelerator * inter_node_efficiency
    once = total(
        c.count
        * ROUNDS[c.kind]
        * ((c.inter - 1) / c.inter * c.volume / c.intra / rate + (c.inter - 1) * inter_node_latency)
        for c in tensor_collectives
    )
    return once * layer_calls * communicating_passes


@quantity("s", choice="performance_model", value="amped")
def exposed_tensor_communication_time__amped(
    intra_node_tensor_communication_time, inter_node_tensor_communication_time
):
    """Time of tensor parallelism: inside, then across nodes. Source: AMPeD, tensor-parallel communication."""
    return intra_node_tensor_communication_time + inter_node_tensor_communication_time


@records()
def pipeline_collectives(
    microbatch_bytes, tensor_parallel_rows, intra_node_pipeline_parallel_degree,
    inter_node_pipeline_parallel_degree,
):  # fmt: skip
    """A micro-batch handed over a boundary between stages, each tensor share sending its part.

    Source: arXiv 2104.04473, section 4.1.
    """
    volume = microbatch_bytes / tensor_parallel_rows
    group = (intra_node_pipeline_parallel_degree, inter_node_pipeline_parallel_degree)
    return (Collective("stage_boundary", "send_receive", volume, *group, 1.0),)


@records()
def boundary_collectives(
    microbatch_bytes, intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows, pipeline_parallel_degree,
    sequence_split_degree, tensor_parallel_rows,
):  # fmt: skip
    """The parts of a handed-over micro-batch gathered again, unless each accelerator goes on with its own.

    Source: arXiv 2104.04473, section 4.1 (scatter/gather).
    """
    group = (intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows)
    calls = 1.0 * (sequence_split_degree < tensor_parallel_rows) * (pipeline_parallel_degree > 1)
    return (Collective("boundary_gather", "all_gather", microbatch_bytes, *group, calls),)


@quantity("s", choice="performance_model", value="amped")
def exposed_pipeline_communication_time__amped(
    pipeline_collectives, inter_accelerator_bandwidth, inter_accelerator_efficiency,
    inter_node_bandwidth_per_accelerator, inter_node_efficiency, number_of_microbatches_per_minibatch,
):  # fmt: skip
    """Time to hand activations and gradients over one stage boundary, across nodes if any boundary is.

    Source: AMPeD, pipeline communication. Differs: interleaving sends as often as there are chunks, which is left out.
    """
    inside = inter_accelerator_bandwidth * inter_accelerator_efficiency
    across = inter_node_bandwidth_per_accelerator * inter_node_efficiency
    once = total(
        c.count * c.volume * ((c.inter > 1) / across + (c.inter <= 1) * (c.intra > 1) / inside)
        for c in pipeline_collectives
    )
    return 2 * number_of_microbatches_per_minibatch * once


@quantity("1")
def feedforward_exchanges_per_layer(dense_fraction, MoE_fraction, shared_expert_fraction):
    """Feed-forward networks of a layer that are cut like attention: dense ones and shared experts.

    Source: Megatron-Core, MoE layers (routed tokens stay with the share of the sequence they are in).
    """
    return dense_fraction + MoE_fraction * shared_expert_fraction


@quantity("1", choice="performance_model", value="amped")
def feedforward_exchanges_per_layer__amped():
    """Feed-forward networks of a layer that are cut like attention: one. Source: AMPeD, tensor-parallel communication."""
    return 1


@quantity("byte")
def expert_visit_bytes(microbatch_bytes, experts_per_token, tensor_parallel_rows, expert_load_factor):
    """What an accelerator sends to experts for a micro-batch: each token of its share once for each visit.

    Source: arXiv 2006.16668, section 3.
    """
    return microbatch_bytes * experts_per_token / tensor_parallel_rows * expert_load_factor


@records()
def expert_collectives(
    expert_visit_bytes, distinct_visit_fraction, crossing_fraction, deduplicated_dispatch,
    intra_node_expert_parallel_degree, inter_node_expert_parallel_degree, MoE_fraction, communicating_passes,
    recomputed_layer_fraction, recomputation_stops_early,
):  # fmt: skip
    """Dispatch to and combine from the experts in each pass: four all-to-alls for a forward and backward pair.

    Nothing needs what is combined again, where recomputation stops early. Source: AMPeD, mixture-of-experts communication.
    """
    ways = (crossing_fraction, deduplicated_dispatch)
    group = (intra_node_expert_parallel_degree, inter_node_expert_parallel_degree)
    calls, sent = MoE_fraction * communicating_passes, expert_visit_bytes * distinct_visit_fraction
    unneeded = recomputed_layer_fraction * recomputation_stops_early
    return (
        Collective("expert_dispatch", "all_to_all", sent, *group, calls, *ways),
        Collective("expert_combine", "all_to_all", sent, *group, calls - MoE_fraction * unneeded, *ways),
    )


@records()
def expert_share_collectives(
    expert_visit_bytes, microbatch_bytes, expert_tensor_parallel_degree, intra_node_expert_tensor_parallel_degree,
    inter_node_expert_tensor_parallel_degree, intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows,
    sequence_parallel, MoE_fraction, communicating_passes,
):  # fmt: skip
    """Visits gathered by those that share an expert's matrices, and their results scattered.

    Without sequence parallelism the outputs are gathered too. Source: Megatron-Core, MoE token dispatcher.
    """
    calls, visits = MoE_fraction * communicating_passes, expert_visit_bytes * expert_tensor_parallel_degree
    shares = (intra_node_expert_tensor_parallel_degree, inter_node_expert_tensor_parallel_degree)
    rows = (intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows)
    return (
        Collective("expert_shares", "all_gather", visits, *shares, calls),
        Collective("expert_shares", "reduce_scatter", visits, *shares, calls),
        Collective("expert_output", "all_gather", microbatch_bytes, *rows, calls * (1 - sequence_parallel)),
    )


@quantity("s", choice="performance_model", value="amped")
def exposed_expert_communication_time__amped(
    expert_collectives, inter_accelerator_bandwidth, inter_accelerator_efficiency, inter_accelerator_latency,
    inter_node_bandwidth_per_accelerator, inter_node_efficiency, inter_node_latency, layer_calls,
):  # fmt: skip
    """Time of the all-to-alls: the share for other nodes leaves over the cards, the rest stays inside.

    Source: AMPeD, mixture-of-experts communication.
    """
    inside = inter_accelerator_bandwidth * inter_accelerator_efficiency
    across = inter_node_bandwidth_per_accelerator * inter_node_efficiency
    return layer_calls * total(
        c.count * ((c.intra - 1) / (c.intra * c.inter) * c.volume / inside + (c.intra - 1) * inter_accelerator_latency)
        + c.count * ((c.inter - 1) / c.inter * c.volume * c.crossing / across + (c.inter - 1) * inter_node_latency)
        for c in expert_collectives
    )
