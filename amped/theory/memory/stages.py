"""What each stage holds, states and activations of micro-batches in flight, and the largest micro-batch that fits."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import LISTED
from amped.theory.nouns.records import latest, least, total
from amped.theory.nouns.stage_records import Held, HeldStates, ends_of, had, on


@records()
def stage_states(stage_parameters, model_states, kept_gradient_fraction, live_gradient_bytes):
    """The bytes of weights, gradients and optimizer states that an accelerator of each stage holds, without offload.

    ZeRO shards optimizer states from stage 1 on, gradients from stage 2 on, and weights at stage 3.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD always shards all of this memory.
    """
    stages = []
    for stage in stage_parameters:
        weight, gradient, states = (state.of(stage) * (1 - state.offload) for state in model_states)
        gradient = gradient * kept_gradient_fraction + live_gradient_bytes
        every = total((weight, gradient, states))
        held = HeldStates(stage.name, weight=weight, gradient=gradient, optimizer_state=states, bytes=every)
        stages.append(held)
    return tuple(stages)


@records()
def layer_activations(kept_activations, activation_offload):
    """The activations of a micro-batch in a layer of each kind that stay on the accelerator.

    Source: arXiv 2104.07857, section 5.1.2.
    """
    return tuple(Held(kind.name, kind.bytes * (1 - activation_offload)) for kind in kept_activations)


@records(**LISTED)
def kind_activations__of_layout(layer_activations):
    """The activations of a micro-batch in one layer, for each kind of layer: dense, mixture of experts, and prediction.

    A module of multi-token prediction has as many as a layer of the last kind.

    Source: arXiv 2412.19437, section 2.2.
    """
    *_, last = layer_activations
    return (*layer_activations, last.having(name="prediction"))


@records()
def stage_activations(
    pipeline_stages,
    stage_microbatches_in_flight,
    kind_activations,
    embedding_activation_bytes,
    output_head_activation_bytes,
    longest_microbatch_factor,
):
    """The activations that an accelerator of each stage keeps, of all micro-batches in flight.

        bytes = longest·(layers·layer bytes·micro-batches + max(embedding alone, embedding beside the head + head)).

    `embedding` and `head` are the bytes of the embedding and of the output head, if the stage has them. A stage with
    both may hold the embeddings of most micro-batches at a time when no micro-batch is in the output head (arXiv
    2405.15362, section 3); that is `embedding alone`. If micro-batches differ in tokens, all in flight count as the
    longest.

    Source: arXiv 2205.05198, sections 4.2.3 and 4.3.
    """
    stages = []
    for s, held in zip(pipeline_stages, stage_microbatches_in_flight, strict=True):
        layers = on(s.kinds, (kind.bytes for kind in kind_activations)) * held.layers
        embedding = had(s.has_embedding, embedding_activation_bytes)
        head = had(s.has_output_head, output_head_activation_bytes) * held.output_head
        beside_head = embedding * held.embedding_beside_head + head
        kept = layers + np.maximum(embedding * held.embedding, beside_head)
        stages.append(Held(s.name, kept * longest_microbatch_factor))
    return tuple(stages)


@records(**LISTED)
def stage_activations__of_layout(
    pipeline_layout,
    stage_chunks_in_flight,
    kind_activations,
    stage_ends,
    embedding_activation_bytes,
    output_head_activation_bytes,
    longest_microbatch_factor,
):
    """The most activations that an accelerator of each stage keeps at the same time, counted chunk by chunk.

    The embedding is in the first chunk of a stage, the output head in the last chunk.

    Source: arXiv 2205.05198, sections 4.2.3 and 4.3.
    """
    kinds, last, stages = [kind.bytes for kind in kind_activations], len(pipeline_layout) - 1, []
    for place, (share, held) in enumerate(zip(pipeline_layout, stage_chunks_in_flight, strict=True)):
        embedding, head = ends_of(place, last, stage_ends)
        sizes = [on(chunk, kinds) for chunk in share.chunks]
        sizes[0] = sizes[0] + had(embedding, embedding_activation_bytes)
        sizes[-1] = sizes[-1] + had(head, output_head_activation_bytes)
        most = latest(on(moment, sizes) for moment in held.moments)
        stages.append(Held(share.name, most * longest_microbatch_factor))
    return tuple(stages)


@records()
def stage_passing_gradients(
    pipeline_stages, stage_parameters, parameter_classes, kind_activations, passing_gradient_bytes_per_parameter
):
    """The bytes by which the gradients that a backward pass collects exceed the activations that it frees, by stage.

        bytes = max(0, gradients of the stage's weights − activations of one micro-batch in its layers)

    While a pass goes on, its gradients take the place of the micro-batch's activations.

    Source: huggingface/nanotron, optim/gradient_accumulator.py (FP32GradientAccumulator). Differs: with several chunks
    for each stage, a pass is taken to go through all chunks.
    """
    stages = []
    for s, parameters in zip(pipeline_stages, stage_parameters, strict=True):
        trained = total(n * c.changes for n, c in zip(parameters.counts, parameter_classes, strict=True))
        freed = on(s.kinds, (kind.bytes for kind in kind_activations))
        stages.append(Held(s.name, np.maximum(trained * passing_gradient_bytes_per_parameter - freed, 0)))
    return tuple(stages)


@records()
def stage_working(
    pipeline_stages,
    stage_passing_gradients,
    layer_working_bytes,
    logits_gradient_bytes,
    output_head_activation_bytes,
    longest_microbatch_factor,
):
    """The working memory of each stage, besides the activations that it keeps for the backward pass.

        working = max(layer − kept for the loss, loss) with the output head, else layer

    `layer` is the working memory of a layer's backward pass, with the gradients that the pass has collected, and `loss`
    the working memory of the loss. When a layer runs backward, the activations that one micro-batch has kept for the
    loss are already free.

    Source: arXiv 2205.05198, section 4.3.
    """
    stages = []
    for s, gradients in zip(pipeline_stages, stage_passing_gradients, strict=True):
        head = had(s.has_output_head, output_head_activation_bytes) * longest_microbatch_factor
        layer = layer_working_bytes * longest_microbatch_factor + gradients.bytes - head
        loss = had(s.has_output_head, logits_gradient_bytes) * longest_microbatch_factor
        stages.append(Held(s.name, np.maximum(layer, loss)))
    return tuple(stages)


@quantity("count")
def largest_microbatch_size(
    available_memory_bytes,
    stage_states,
    stage_activations,
    stage_working,
    weight_buffer_bytes,
    rematerializable_bytes,
    microbatch_size,
    minibatch_size,
):
    """The largest micro-batch for which every stage has enough memory, or 0 if not even one sequence fits.

        size = min over stages (available − states − weight buffers) / (activations and working memory of a sequence).

    The number of micro-batches in flight is assumed to stay the same.

    Source: definition.
    """
    sizes = []
    for states, activations, working in zip(stage_states, stage_activations, stage_working, strict=True):
        microbatch_bytes = activations.bytes + working.bytes - rematerializable_bytes
        free_bytes = available_memory_bytes - states.bytes - weight_buffer_bytes
        sizes.append(free_bytes / (microbatch_bytes / microbatch_size))
    return np.maximum(np.minimum(np.floor(least(sizes)), minibatch_size), 0)
