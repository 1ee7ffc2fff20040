"""What each stage holds: states, activations of micro-batches in flight; and the largest micro-batch that fits."""

import numpy as np

from amped.theory.quantity import quantity, records
from amped.theory.records import least
from amped.theory.stage_records import Held, had


@records()
def stage_states(stage_parameters, device_states):
    """States that an accelerator of each stage holds. Source: arXiv 1910.02054, section 5."""
    (states,) = device_states
    return tuple(Held(stage.name, states.of(stage.shared, stage.expert)) for stage in stage_parameters)


@records()
def stage_activations(
    pipeline_stages,
    stage_microbatches_in_flight,
    device_activation_bytes_per_layer,
    embedding_activation_bytes,
    output_head_activation_bytes,
):
    """Activations that an accelerator of each stage keeps: of all micro-batches in flight, and of its ends.

    Source: arXiv 2205.05198, sections 4.2.3 and 4.3. A stage with both ends may hold most while it has none in the
    output head (arXiv 2405.15362, section 3).
    """
    found = []
    for s, held in zip(pipeline_stages, stage_microbatches_in_flight, strict=True):
        layers = device_activation_bytes_per_layer * s.layers * held.layers
        embedding = had(s.has_embedding, embedding_activation_bytes)
        head = had(s.has_output_head, output_head_activation_bytes) * held.output_head
        beside_head = embedding * held.embedding_beside_head + head
        found.append(Held(s.name, layers + np.maximum(embedding * held.embedding, beside_head)))
    return tuple(found)


@quantity("count")
def largest_microbatch_size(
    available_memory_bytes,
    pipeline_stages,
    stage_states,
    stage_activations,
    layer_working_bytes,
    weight_buffer_bytes,
    logits_gradient_bytes,
    microbatch_size,
    minibatch_size,
):
    """Largest micro-batch for which each stage has room, with as many in flight as now; 0: not even one sequence.

    Source: definition.
    """
    room = []
    for s, states, activations in zip(pipeline_stages, stage_states, stage_activations, strict=True):
        grows = activations.bytes + layer_working_bytes + had(s.has_output_head, logits_gradient_bytes)
        left = available_memory_bytes - states.bytes - weight_buffer_bytes
        room.append(left / (grows / microbatch_size))
    return np.maximum(np.minimum(np.floor(least(room)), minibatch_size), 0)
