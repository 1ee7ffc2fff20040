"""The bottleneck stage of the pipeline, its work in a step, and the sends between stages."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.conditions import LISTED
from amped.theory.nouns.layer_kinds import KINDS
from amped.theory.nouns.records import time_of, total
from amped.theory.nouns.resources import beside
from amped.theory.nouns.stage_records import Bottleneck, LayerShares, PassTimes, had, modules_as_layers, on


@records(**LISTED)
def kind_times__of_layout(layer_times):
    """The times of a micro-batch in one layer of each kind, and in a module of multi-token prediction.

    The kinds of layers are in the order of the layout. The module takes as long as a layer of the last kind.

    Source: arXiv 2412.19437, section 2.2.
    """
    *_, last = layer_times
    return (*layer_times, last.having(name="prediction"))


@records()
def pass_times(
    kind_times,
    embedding_forward_time,
    embedding_backward_time,
    vocabulary_parallel_communication_time,
    output_head_forward_time,
    output_head_input_gradient_time,
    output_head_weight_gradient_time,
    predictions_in_output_head,
):
    """The times of a micro-batch in each pass: forward, input gradients, and weight gradients.

    Each pass has its times in the layers, in the embedding and in the output head. The time of recomputation is counted
    with the input gradients.

    Source: arXiv 2401.10241, section 1 (B and W).
    """
    no_time, predictions, last = 0 * embedding_forward_time, predictions_in_output_head, kind_times[-1]
    output_head_gradient = output_head_input_gradient_time + vocabulary_parallel_communication_time
    embedding_forward = embedding_forward_time + vocabulary_parallel_communication_time
    ends = {
        "forward": (embedding_forward, output_head_forward_time + predictions * last.forward),
        "input_gradient": (embedding_backward_time, output_head_gradient + predictions * last.input_gradient),
        "weight_gradient": (no_time, output_head_weight_gradient_time + predictions * last.weight_gradient),
    }
    return tuple(PassTimes(name, tuple(getattr(kind, name) for kind in kind_times), *end) for name, end in ends.items())


@records()
def whole_pass_times(pass_times, layer_times, embedding_time, output_head_time):
    """The times of a micro-batch in the forward pass, and in all passes together. Source: definition."""
    return (pass_times[0], PassTimes("all", (layer_times[0].whole,), embedding_time, output_head_time))


@records(**LISTED)
def whole_pass_times__of_layout(pass_times):
    """The times of a micro-batch in the forward pass, and in all passes together, with layers of several kinds.

    Source: definition.
    """
    kinds = tuple(total(times) for times in zip(*(times.kinds for times in pass_times), strict=True))
    ends = total(times.embedding for times in pass_times), total(times.output_head for times in pass_times)
    return (pass_times[0], PassTimes("all", kinds, *ends))


@records()
def bottleneck_stage(pipeline_stages, whole_pass_times):
    """The stage that takes longest for a micro-batch.

    If several stages take equally long, it is the last stage of the pipeline, else the first stage, else one of the
    stages between.

    Source: arXiv 2104.04473, section 2.2.
    """
    stages = (*pipeline_stages[1:-1], pipeline_stages[0], pipeline_stages[-1])
    slowest, *others = (
        (*s.kinds, had(s.has_embedding, 1.0), had(s.has_output_head, 1.0), whole_pass_times[1].of(s)) for s in stages
    )
    for stage in others:
        slower = stage[-1] >= slowest[-1]
        slowest = tuple(np.where(slower, one, other) for one, other in zip(stage, slowest, strict=True))
    *kinds, embedding, output_head, time = slowest
    return (
        Bottleneck(
            "bottleneck stage", kinds=tuple(kinds), has_embedding=embedding, has_output_head=output_head, time=time
        ),
    )


@quantity("count")
def bottleneck_stage_layer_passes(bottleneck_stage, predictions_in_output_head, number_of_microbatches_per_minibatch):
    """The forward passes through layers on the bottleneck stage in a step: layers times micro-batches.

    The modules of multi-token prediction on the stage count as layers.

    Source: definition.
    """
    (stage,) = bottleneck_stage
    layers = total(stage.kinds) + stage.has_output_head * predictions_in_output_head
    return layers * number_of_microbatches_per_minibatch


@records()
def bottleneck_layer_shares():
    """The share of the bottleneck stage's layers that are of each kind: all layers are alike. Source: definition."""
    return (LayerShares("bottleneck stage", (1.0,)),)


@family(
    named=(
        "bottleneck_layer_shares__dense_and_mixture",
        "bottleneck_layer_shares__linear_and_attention",
        "bottleneck_layer_shares__mixers_and_networks",
        "bottleneck_layer_shares__single_blocks",
    ),
    CHOICE=tuple(KINDS),
)
@records(choice="kinds_of_layers", value="CHOICE")
def bottleneck_layer_shares__CHOICE(bottleneck_stage, layer_kinds):
    """The share of the bottleneck stage's layers that are of each kind.

    The layers of multi-token prediction modules count as layers of the last kind.

    Source: definition.
    """
    counts = modules_as_layers(bottleneck_stage[0].kinds, len(layer_kinds))
    layers = np.maximum(total(counts), 1)
    return (LayerShares("bottleneck stage", tuple(count / layers for count in counts)),)


@quantity("count")
def bottleneck_stage_embedding_passes(bottleneck_stage, number_of_microbatches_per_minibatch):
    """The number of micro-batches in a step that pass through the embedding; 0 if the bottleneck stage has none.

    Source: definition.
    """
    return bottleneck_stage[0].has_embedding * number_of_microbatches_per_minibatch


@quantity("count")
def bottleneck_stage_output_head_passes(bottleneck_stage, number_of_microbatches_per_minibatch):
    """The number of micro-batches in a step that pass through the output head; 0 if the bottleneck stage has none.

    Source: definition.
    """
    return bottleneck_stage[0].has_output_head * number_of_microbatches_per_minibatch


# --- hand-overs ------------------------------------------------------------------------------------------------------


@quantity("s")
def stage_send_time(pipeline_durations):
    """The time to send a micro-batch to the next stage. Source: arXiv 2104.04473, section 3.2."""
    return time_of(pipeline_durations)


@quantity("s")
def free_stage_forward_time(bottleneck_stage, layer_windows, embedding_forward_time, output_head_forward_time):
    """The time of a micro-batch's forward pass on the bottleneck stage in which the links are free of other messages.

    The times of the embedding and of the output head count as free, because these send messages only once.

    Source: definition.
    """
    return free_forward_time(bottleneck_stage[0], layer_windows, embedding_forward_time, output_head_forward_time)


def free_forward_time(stage, layer_windows, embedding, output_head):
    """The time of a micro-batch's forward pass on a stage in which the links are free of other messages.

    Args:
        stage: the stage.
        layer_windows: the passes of a layer of each kind.
        embedding: the forward seconds of the embedding.
        output_head: the forward seconds of the output head.

    Source: definition.
    """
    ends = had(stage.has_embedding, embedding) + had(stage.has_output_head, output_head)
    layers = modules_as_layers(stage.kinds, len(layer_windows))
    return on(layers, [windows.free_forward for windows in layer_windows]) + ends


@quantity("s")
def overlapped_stage_send_time(
    stage_send_time, handovers_per_microbatch, free_stage_forward_time, overlap_pipeline_communication
):
    """The part of the time of a send between stages that runs beside computation, while the links are free.

    Source: Megatron-Core, --overlap-p2p-communication.
    """
    window = free_stage_forward_time / np.maximum(handovers_per_microbatch, 1)
    return beside(stage_send_time, window, overlap_pipeline_communication)


@quantity("s")
def blocking_stage_send_time(stage_send_time, overlapped_stage_send_time):
    """The part of the time of a send between stages in which the stage cannot compute.

    Source: Megatron-Core, --overlap-p2p-communication.
    """
    return stage_send_time - overlapped_stage_send_time


@quantity("count")
def handovers_per_microbatch(chunks_per_stage, pipeline_parallel_degree):
    """The number of messages that one stage sends or receives for a micro-batch, divided by two.

    With one chunk of layers on a stage, each neighbor of the stage counts once: the stage sends to it in one direction
    and receives in the other. With several chunks it counts once for each chunk, and the first and the last stage are
    neighbors too.

    Source: arXiv 2104.04473, section 2.2.2. Differs: with one chunk and more than two stages, the first and the last
    stage have one neighbor, but two are counted.
    """
    sides = np.where(
        chunks_per_stage > 1, 2 * (pipeline_parallel_degree > 1), np.minimum(pipeline_parallel_degree - 1, 2)
    )
    return sides * chunks_per_stage


@quantity("s")
def pipeline_communication_time(stage_send_time, number_of_microbatches_per_minibatch, handovers_per_microbatch):
    """The time in which one stage sends to other stages in a step. Source: arXiv 2104.04473, section 3.2."""
    return handovers_per_microbatch * number_of_microbatches_per_minibatch * stage_send_time
