"""Expert parallelism: tokens that are sent to their experts and back, and collectives of expert tensor parallelism."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.layer_kinds import IN_MIXTURE
from amped.theory.nouns.records import Collective


@quantity("byte")
def dispatch_bytes(microbatch_bytes, experts_per_token, tensor_parallel_rows, expert_load_factor):
    """The bytes that an accelerator sends to experts for a micro-batch: each token once for each of its experts.

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
    """The all-to-alls that send tokens to their experts (dispatch) and the results back (combine).

    A forward pass and a backward pass have four of them. A forward pass that is recomputed repeats its two; if
    recomputation stops early, it does not repeat the combine.

    Source: AMPeD, mixture-of-experts communication.
    """
    calls, payload = MoE_fraction * communication_rounds, dispatch_bytes * deduplicated_dispatch_fraction
    combined = calls - MoE_fraction * recomputed_layer_fraction * recomputation_stops_early
    computed = ("expert_tensor reduce_scatter", "expert_down_bias", "experts_down")
    messages = (("expert_dispatch", calls, ("expert_permutation",)), ("expert_combine", combined, computed))
    return tuple(
        Collective(
            name,
            "all_to_all",
            volume=payload,
            group=expert_group[0],
            count=count,
            crossing=inter_node_dispatch_fraction,
            forwarded=deduplicated_dispatch,
            after=after,
            part=IN_MIXTURE,
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
    """The collectives of a layer in the group that shares the matrices of an expert (`expert_tensor_group`).

    An all-gather brings the tokens of the group together, and a reduce-scatter adds up and distributes the results.
    Without sequence parallelism, an all-gather in the `row_group` also collects the outputs of the mixture. Each occurs
    once in each pass that communicates (`communication_rounds`).

    Source: Megatron-Core, MoE token dispatcher.
    """
    calls, visits = MoE_fraction * communication_rounds, dispatch_bytes * expert_tensor_parallel_degree
    (shares,), (rows,), output_calls = expert_tensor_group, row_group, calls * (1 - sequence_parallel)
    computed, combined = ("expert_down_bias", "experts_down"), ("expert_combine all_to_all",)
    visit, output = {"volume": visits, "group": shares, "count": calls}, {"volume": microbatch_bytes, "group": rows}
    return (
        Collective("expert_tensor", "all_gather", **visit, after=("expert_dispatch all_to_all",), part=IN_MIXTURE),
        Collective("expert_tensor", "reduce_scatter", **visit, after=computed, part=IN_MIXTURE),
        Collective("expert_output", "all_gather", **output, count=output_calls, after=combined, part=IN_MIXTURE),
    )
