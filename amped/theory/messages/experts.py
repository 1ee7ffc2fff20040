"""Expert parallelism: tokens that are sent to their experts and back, and collectives of expert tensor parallelism."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.layer_kinds import IN_MIXTURE
from amped.theory.nouns.places import ARRIVED, COMBINED
from amped.theory.nouns.records import Collective

# For what the combination waits, with and without expert tensor parallelism.
COMPUTED_BY_EXPERTS = ("expert_tensor reduce_scatter", "expert_down_bias", "experts_down")


@quantity("byte")
def dispatch_bytes(
    microbatch_bytes, expert_width, dimensionality, experts_per_token, tensor_parallel_rows, expert_load_factor
):
    """The bytes that an accelerator sends to experts for a micro-batch: each token once for each of its experts.

    Source: arXiv 2006.16668, section 3.
    """
    sent_bytes = microbatch_bytes * (expert_width / dimensionality)
    return sent_bytes * experts_per_token / tensor_parallel_rows * expert_load_factor


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
    exchange = {
        "volume": payload,
        "group": expert_group[0],
        "crossing": inter_node_dispatch_fraction,
        "forwarded": deduplicated_dispatch,
        "part": IN_MIXTURE,
    }
    return (
        Collective("expert_dispatch", "all_to_all", count=calls, after=("expert_permutation",), **exchange),
        Collective("expert_combine", "all_to_all", count=combined, after=COMPUTED_BY_EXPERTS, **exchange),
    )


@quantity("byte")
def gathered_token_bytes(microbatch_bytes, expert_width, dimensionality, tensor_parallel_rows, expert_parallel_degree):
    """The bytes of the tokens of a micro-batch of all accelerators among which experts are divided.

    Source: Megatron-Core, transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher).
    """
    return microbatch_bytes * (expert_width / dimensionality) / tensor_parallel_rows * expert_parallel_degree


@quantity("byte")
def gathered_routing_bytes(routed_tokens, number_of_experts, routing_precision, expert_parallel_degree):
    """The bytes of the routing probabilities of the tokens of all accelerators among which experts are divided.

    Each token has a probability for each expert. Source: Megatron-Core, transformer/moe/token_dispatcher.py
    (MoEAllGatherTokenDispatcher). Differs: the map that says who visits whom, a byte beside it, is left out.
    """
    return routed_tokens * number_of_experts * routing_precision * expert_parallel_degree


@records(choice="dispatcher", value="allgather")
def expert_collectives__allgather(
    gathered_token_bytes,
    gathered_routing_bytes,
    expert_group,
    MoE_fraction,
    communication_rounds,
    recomputed_layer_fraction,
    recomputation_stops_early,
):
    """The all-gather that brings all tokens to all experts (dispatch), and the reduce-scatter of results (combine).

    Every accelerator receives all tokens and their probabilities, and takes those of its own experts. A backward pass
    gathers the gradients of the results, and reduces those of the tokens.

    Source: Megatron-Core, transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher).
    """
    calls, (group,) = MoE_fraction * communication_rounds, expert_group
    combined = calls - MoE_fraction * recomputed_layer_fraction * recomputation_stops_early
    sent = {"volume": gathered_token_bytes + gathered_routing_bytes, "group": group, "count": calls}
    returned = {"volume": gathered_token_bytes, "group": group, "count": combined}
    return (
        Collective("expert_dispatch", "all_gather", **sent, after=("expert_choice",), part=IN_MIXTURE),
        Collective("expert_combine", "reduce_scatter", **returned, after=COMPUTED_BY_EXPERTS, part=IN_MIXTURE),
    )


@records()
def expert_tensor_collectives(
    expert_tensor_bytes,
    microbatch_bytes,
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
    calls = MoE_fraction * communication_rounds
    (shares,), (rows,), output_calls = expert_tensor_group, row_group, calls * (1 - sequence_parallel)
    computed, combined = ("expert_down_bias", "experts_down"), COMBINED
    visit, output = (
        {"volume": expert_tensor_bytes, "group": shares, "count": calls},
        {"volume": microbatch_bytes, "group": rows},
    )
    return (
        Collective("expert_tensor", "all_gather", **visit, after=ARRIVED, part=IN_MIXTURE),
        Collective("expert_tensor", "reduce_scatter", **visit, after=computed, part=IN_MIXTURE),
        Collective("expert_output", "all_gather", **output, count=output_calls, after=combined, part=IN_MIXTURE),
    )


@quantity("byte")
def expert_tensor_bytes(dispatch_bytes, expert_tensor_parallel_degree):
    """The bytes of the visits that come to all accelerators which share the matrices of an expert.

    Source: Megatron-Core, MoE token dispatcher.
    """
    return dispatch_bytes * expert_tensor_parallel_degree


@quantity("byte", choice="dispatcher", value="allgather")
def expert_tensor_bytes__allgather(gathered_token_bytes, expert_tensor_parallel_degree):
    """The bytes of all tokens of the accelerators that share the matrices of an expert.

    Source: Megatron-Core, transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher).
    """
    return gathered_token_bytes * expert_tensor_parallel_degree
