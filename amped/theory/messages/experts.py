"""Expert parallelism: tokens that are sent to their experts and back, and collectives of expert tensor parallelism."""

from amped.theory.quantity import quantity, records
from amped.theory.records import Collective


@quantity("byte")
def dispatch_bytes(microbatch_bytes, experts_per_token, tensor_parallel_rows, expert_load_factor):
    """Bytes that an accelerator sends to experts for a micro-batch: each token once for each of its experts.

    Source: arXiv 2006.16668, section 3.
    """
    return microbatch_bytes * experts_per_token / tensor_parallel_rows * expert_load_factor


@records()
def expert_collectives(
    dispatch_bytes,
    deduplicated_dispatch_fraction,
    inter_node_dispatch_fraction,
    deduplicated_dispatch,
    expert_group,
    MoE_fraction,
    communication_rounds,
    recomputed_layer_fraction,
    recomputation_stops_early,
):
    """The all-to-alls to the experts (dispatch) and back (combine): four for a forward and a backward pass.

    A forward pass that runs again repeats them; the repeated combine is left out where recomputation stops early.

    Source: AMPeD, mixture-of-experts communication.
    """
    calls, sent = MoE_fraction * communication_rounds, dispatch_bytes * deduplicated_dispatch_fraction
    combined = calls - MoE_fraction * recomputed_layer_fraction * recomputation_stops_early
    computed = ("expert_tensor reduce_scatter", "expert_down_bias", "experts_down")
    messages = (("expert_dispatch", calls, ("expert_permutation",)), ("expert_combine", combined, computed))
    return tuple(
        Collective(
            name,
            "all_to_all",
            volume=sent,
            group=expert_group[0],
            count=count,
            crossing=inter_node_dispatch_fraction,
            forwarded=deduplicated_dispatch,
            after=after,
        )
        for name, count, after in messages
    )


@records()
def expert_tensor_collectives(
    dispatch_bytes,
    microbatch_bytes,
    expert_tensor_parallel_degree,
    expert_tensor_group,
    row_group,
    sequence_parallel,
    MoE_fraction,
    communication_rounds,
):
    """The all-gather of visits among the ranks that share an expert's matrices; the reduce-scatter of their results.

    Without sequence parallelism the outputs of the mixture are gathered too.

    Source: Megatron-Core, MoE token dispatcher.
    """
    calls, visits = MoE_fraction * communication_rounds, dispatch_bytes * expert_tensor_parallel_degree
    (shares,), (rows,), whole = expert_tensor_group, row_group, calls * (1 - sequence_parallel)
    sent, computed, combined = (
        ("expert_dispatch all_to_all",),
        ("expert_down_bias", "experts_down"),
        ("expert_combine all_to_all",),
    )
    return (
        Collective("expert_tensor", "all_gather", volume=visits, group=shares, count=calls, after=sent),
        Collective("expert_tensor", "reduce_scatter", volume=visits, group=shares, count=calls, after=computed),
        Collective("expert_output", "all_gather", volume=microbatch_bytes, group=rows, count=whole, after=combined),
    )
