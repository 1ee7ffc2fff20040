"""Expert parallelism: tokens that travel to their experts and back, and those that share an expert's matrices."""

from amped.theory.quantity import quantity, records
from amped.theory.records import Collective


@quantity("byte")
def dispatch_bytes(microbatch_bytes, experts_per_token, tensor_parallel_rows, expert_load_factor):
    """What an accelerator sends to experts for a micro-batch: each token of its share once for each visit.

    Source: arXiv 2006.16668, section 3.
    """
    return microbatch_bytes * experts_per_token / tensor_parallel_rows * expert_load_factor


@records()
def expert_collectives(
    dispatch_bytes,
    deduplicated_dispatch_fraction,
    inter_node_dispatch_fraction,
    deduplicated_dispatch,
    intra_node_expert_parallel_degree,
    inter_node_expert_parallel_degree,
    MoE_fraction,
    communication_rounds,
    recomputed_layer_fraction,
    recomputation_stops_early,
):
    """Dispatch to and combine from the experts in each pass: four all-to-alls for a forward and backward pair.

    Nothing needs what is combined again, where recomputation stops early. Source: AMPeD, mixture-of-experts communication.
    """
    ways = (inter_node_dispatch_fraction, deduplicated_dispatch)
    group = (intra_node_expert_parallel_degree, inter_node_expert_parallel_degree)
    calls, sent = MoE_fraction * communication_rounds, dispatch_bytes * deduplicated_dispatch_fraction
    combined = calls - MoE_fraction * recomputed_layer_fraction * recomputation_stops_early
    return (
        Collective("expert_dispatch", "all_to_all", sent, *group, calls, *ways, after=("expert_permutation",)),
        Collective(
            "expert_combine",
            "all_to_all",
            sent,
            *group,
            combined,
            *ways,
            after=("expert_tensor reduce_scatter", "expert_down_bias", "experts_down"),
        ),
    )


@records()
def expert_tensor_collectives(
    dispatch_bytes,
    microbatch_bytes,
    expert_tensor_parallel_degree,
    intra_node_expert_tensor_parallel_degree,
    inter_node_expert_tensor_parallel_degree,
    intra_node_tensor_parallel_rows,
    inter_node_tensor_parallel_rows,
    sequence_parallel,
    MoE_fraction,
    communication_rounds,
):
    """Visits gathered by those that share an expert's matrices, and their results scattered.

    Without sequence parallelism the outputs are gathered too. Source: Megatron-Core, MoE token dispatcher.
    """
    calls, visits = MoE_fraction * communication_rounds, dispatch_bytes * expert_tensor_parallel_degree
    shares = (intra_node_expert_tensor_parallel_degree, inter_node_expert_tensor_parallel_degree)
    rows, outputs = (intra_node_tensor_parallel_rows, inter_node_tensor_parallel_rows), calls * (1 - sequence_parallel)
    return (
        Collective("expert_tensor", "all_gather", visits, *shares, calls, after=("expert_dispatch all_to_all",)),
        Collective(
            "expert_tensor", "reduce_scatter", visits, *shares, calls, after=("expert_down_bias", "experts_down")
        ),
        Collective(
            "expert_output", "all_gather", microbatch_bytes, *rows, outputs, after=("expert_combine all_to_all",)
        ),
    )
