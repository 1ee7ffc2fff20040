"""The parts of a step in the operator model: the work of the bottleneck stage, and what it waits for."""

import numpy as np

from amped.theory.language.quantity import family, quantity
from amped.theory.nouns.conditions import BY_OPERATORS
from amped.theory.nouns.parallelisms import IN_LAYERS
from amped.theory.nouns.records import of_phase, time_of
from amped.theory.nouns.shardings import is_sharded


@family(
    named=("compute_forward_time__operators", "compute_backward_time__operators"),
    PASS=("forward", "backward"),
    PHASE=("forward", "input_gradient"),
    WHAT=("The forward time of all micro-batches", "The time of the gradients of all activations"),
)
@quantity("s", **BY_OPERATORS)
def compute_PASS_time__operators(
    layer_computation,
    bottleneck_layer_shares,
    embedding_PASS_time,
    output_head_PHASE_time,
    bottleneck_stage_layer_passes,
    bottleneck_stage_embedding_passes,
    bottleneck_stage_output_head_passes,
    *,
    phase,
):
    """WHAT in a step, on the bottleneck stage. Source: arXiv 2410.00273, section 3."""
    ends = (
        bottleneck_stage_embedding_passes * embedding_PASS_time
        + bottleneck_stage_output_head_passes * output_head_PHASE_time
    )
    per_layer = bottleneck_layer_shares[0].mean([getattr(passes, phase) for passes in layer_computation])
    return bottleneck_stage_layer_passes * per_layer + ends


@quantity("s", **BY_OPERATORS)
def weight_update_time__operators(
    layer_computation,
    bottleneck_layer_shares,
    output_head_weight_gradient_time,
    bottleneck_stage_layer_passes,
    bottleneck_stage_output_head_passes,
):
    """The time of the gradients of all weights in a step, on the bottleneck stage.

    Source: arXiv 2410.00273, section 3.
    """
    per_layer = bottleneck_layer_shares[0].mean([passes.weight_gradient for passes in layer_computation])
    return (
        bottleneck_stage_layer_passes * per_layer
        + bottleneck_stage_output_head_passes * output_head_weight_gradient_time
    )


@quantity("s", **BY_OPERATORS)
def recomputation_time__operators(
    layer_computation, bottleneck_layer_shares, bottleneck_stage_layer_passes, rematerialized_layer_fraction
):
    """The time to recompute activations in a step, on the bottleneck stage.

    It has a share of the forward pass more if the compiler computes values of a layer once more to fit into memory.

    Source: arXiv 2205.05198, section 5.
    """
    shares = bottleneck_layer_shares[0]
    recomputed, forward = (
        shares.mean([getattr(passes, phase) for passes in layer_computation]) for phase in ("recomputation", "forward")
    )
    return bottleneck_stage_layer_passes * (recomputed + rematerialized_layer_fraction * forward)


@quantity("s", **BY_OPERATORS)
def host_wait_time__operators(layer_host_waits, bottleneck_layer_shares, bottleneck_stage_layer_passes):
    """The time in a step in which the bottleneck stage waits for the host that launches its kernels.

    It is contained in the computation time. Embedding and output head are left out.

    Source: definition.
    """
    return bottleneck_stage_layer_passes * bottleneck_layer_shares[0].mean([wait.time for wait in layer_host_waits])


@quantity("s")
def weight_slicing_time(
    zero_stage, sharding_degree, largest_stage_layers, weight_tensors_per_layer, host_time_per_gathered_slice
):
    """The time in which the host copies updated weights into place: replica by replica, and tensor by tensor.

        time = replicas·tensors·time of a slice, if ZeRO shards optimizer states and keeps weights whole.

    Assumes that the host is slower than the copies, and that nothing runs at the same time.

    Source: huggingface/nanotron at 069c21c, distributed.py (all_gather_coalesced), optim/zero.py (_all_gather_params).
    Differs: the tensors of embedding and output head are left out.
    """
    gathered = is_sharded("optimizer_state", zero_stage) & ~is_sharded("weight", zero_stage) & (sharding_degree > 1)
    slices = sharding_degree * largest_stage_layers * weight_tensors_per_layer
    return np.where(gathered, slices * host_time_per_gathered_slice, 0)


@quantity("s", **BY_OPERATORS)
def optimizer_time__operators(updating_time, host_time_per_step, weight_slicing_time, optimizer_message_durations):
    """The time of the optimizer step, with its own messages, and of the work of the host between steps.

    Nothing runs beside these messages.

    Source: arXiv 1910.02054, section 3.1.
    """
    messages = of_phase("communication", optimizer_message_durations)
    return updating_time + host_time_per_step + weight_slicing_time + messages


# --- tensor, context and expert parallelism, pipeline ----------------------------------------------------------------


@quantity("s", **BY_OPERATORS)
def exposed_tensor_communication_time__operators(
    layer_exposures,
    bottleneck_layer_shares,
    vocabulary_parallel_communication_time,
    bottleneck_stage_layer_passes,
    bottleneck_stage_embedding_passes,
    bottleneck_stage_output_head_passes,
):
    """The time in which the bottleneck stage waits for tensor-parallel communication.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    ends = (
        bottleneck_stage_embedding_passes + bottleneck_stage_output_head_passes
    ) * vocabulary_parallel_communication_time
    per_layer = bottleneck_layer_shares[0].mean([messages.of("tensor").exposed for messages in layer_exposures])
    return bottleneck_stage_layer_passes * per_layer + ends


@family(
    named=(
        "hidden_tensor_communication_time__operators",
        "hidden_context_communication_time__operators",
        "hidden_expert_communication_time__operators",
    ),
    KIND=IN_LAYERS,
)
@quantity("s", **BY_OPERATORS)
def hidden_KIND_communication_time__operators(
    layer_exposures, bottleneck_layer_shares, bottleneck_stage_layer_passes, *, kind
):
    """The time in which KIND-parallel communication runs beside computation on the bottleneck stage.

    Source: arXiv 2205.05198, section 4.2.2 (tensor); arXiv 2310.01889, section 3 (context); arXiv 2412.19437, section
    3.2.1 (expert).
    """
    per_layer = bottleneck_layer_shares[0].mean([messages.of(kind).overlapped for messages in layer_exposures])
    return bottleneck_stage_layer_passes * per_layer


@family(
    named=(
        "exposed_context_communication_time__operators",
        "exposed_expert_communication_time__operators",
    ),
    KIND=tuple(kind for kind in IN_LAYERS if kind != "tensor"),
)
@quantity("s", **BY_OPERATORS)
def exposed_KIND_communication_time__operators(
    layer_exposures, bottleneck_layer_shares, bottleneck_stage_layer_passes, *, kind
):
    """The time in which the bottleneck stage waits for KIND-parallel communication.

    Source: arXiv 2310.01889, section 3 (context); arXiv 2006.16668, section 3 (expert).
    """
    per_layer = bottleneck_layer_shares[0].mean([messages.of(kind).exposed for messages in layer_exposures])
    return bottleneck_stage_layer_passes * per_layer


@quantity("s", **BY_OPERATORS)
def hidden_pipeline_communication_time__operators(
    overlapped_stage_send_time, handovers_per_microbatch, number_of_microbatches_per_minibatch
):
    """The time in which sends between stages run beside the computation of forward passes.

    Source: Megatron-Core, --overlap-p2p-communication.
    """
    return overlapped_stage_send_time * handovers_per_microbatch * number_of_microbatches_per_minibatch


@quantity("s", **BY_OPERATORS)
def exposed_pipeline_communication_time__operators(
    pipeline_communication_time, hidden_pipeline_communication_time, overlap_slowdown_fraction
):
    """The time that a stage loses because of sends between stages: by waiting, and because hidden sends slow it down.

    Source: arXiv 2410.00273, section 3.
    """
    return pipeline_communication_time - hidden_pipeline_communication_time * (1 - overlap_slowdown_fraction)


# --- data parallelism ------------------------------------------------------------------------------------------------


@quantity("s")
def tied_embedding_communication_time(tied_embedding_durations):
    """The time in a step to sum the gradients of a tied embedding over the two stages with a copy.

    Source: arXiv 1909.08053, section 3.
    """
    return time_of(tied_embedding_durations)


@quantity("s", **BY_OPERATORS)
def hidden_data_communication_time__operators(
    overlapped_gradient_communication_time, overlapped_weight_communication_time
):
    """The time in which data-parallel communication runs beside computation. Source: arXiv 2304.11277, section 3.3."""
    return overlapped_gradient_communication_time + overlapped_weight_communication_time


@quantity("s", **BY_OPERATORS)
def exposed_data_communication_time__operators(
    gradient_communication_time,
    weight_communication_time,
    tied_embedding_communication_time,
    data_exchanges_of_other_stages_time,
    hidden_data_communication_time,
    overlap_slowdown_fraction,
    replica_wait_time,
):
    """The time that accelerators lose because of data-parallel communication: by waiting, and by slower computation.

    Communication that runs beside computation slows it down. The two copies of a tied embedding are summed after all
    other gradients, beside nothing. Replicas wait for the one whose documents have most work.

    Source: arXiv 2006.15704, section 3.2; Megatron-Core, distributed/finalize_model_grads.py.
    """
    all_messages = gradient_communication_time + weight_communication_time + tied_embedding_communication_time
    all_messages = all_messages + data_exchanges_of_other_stages_time
    return all_messages - hidden_data_communication_time * (1 - overlap_slowdown_fraction) + replica_wait_time


@quantity("s", **BY_OPERATORS)
def exposed_bucket_time__operators(
    last_gradient_bucket_time, first_weight_bucket_time, overlap_data_communication, exposed_data_communication_time
):
    """The part of exposed data-parallel communication that nothing can hide: the last gradients and the first weights.

    It is zero if data-parallel communication does not overlap at all.

    Source: arXiv 2006.15704, section 3.2.
    """
    buckets = last_gradient_bucket_time + first_weight_bucket_time
    return np.minimum(overlap_data_communication * buckets, exposed_data_communication_time)


@quantity("s", **BY_OPERATORS)
def data_slowdown_time__operators(hidden_data_communication_time, overlap_slowdown_fraction):
    """The part of exposed data-parallel communication that kernels lose: messages beside them take their processors.

    Source: definition; the row of the accelerator in the table kernel_efficiencies.
    """
    return hidden_data_communication_time * overlap_slowdown_fraction
