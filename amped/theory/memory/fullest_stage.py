"""The stage that needs most memory, what one of its accelerators holds, and whether that fits."""

import numpy as np

from amped.theory.language.quantity import family, quantity
from amped.theory.nouns.conditions import REMATERIALIZED
from amped.theory.nouns.records import total


@quantity("count")
def fullest_stage_index(stage_states, stage_activations, stage_working):
    """The index of the stage that needs most memory.

    If several stages need equally much, it is the last stage of the pipeline, or else the first of these stages.

    Source: arXiv 2205.05198, section 4.3.
    """
    needed = [
        activations.bytes + working.bytes + states.bytes
        for states, activations, working in zip(stage_states, stage_activations, stage_working, strict=True)
    ]
    most_bytes, fullest = needed[0], np.zeros(1)
    for index, bytes_of_stage in enumerate(needed[1:-1], 1):
        fullest = np.where(bytes_of_stage > most_bytes, index, fullest)
        most_bytes = np.maximum(most_bytes, bytes_of_stage)
    return np.where(needed[-1] >= most_bytes, len(needed) - 1, fullest)


def value_of_stage(index, values):
    """The value of the stage with the given index, row by row.

    Args:
        index: the index of the stage, an array.
        values: the value of each stage.

    Source: definition.
    """
    chosen, *others = values
    for place, value in enumerate(others, 1):
        chosen = np.where(index == place, value, chosen)
    return chosen


@quantity("count")
def fullest_stage_parameters(fullest_stage_index, stage_parameters, parameter_classes):
    """The parameters on an accelerator of the fullest stage, without routed experts, before ZeRO shards them.

    Source: definition.
    """
    return value_of_stage(
        fullest_stage_index, [parameters.shared(parameter_classes) for parameters in stage_parameters]
    )


@family(
    named=(
        "weight_bytes",
        "gradient_bytes",
        "optimizer_state_bytes",
    ),
    STATE=("weight", "gradient", "optimizer_state"),
    STAGE=("3", "2", "1"),
)
@quantity("byte")
def STATE_bytes(fullest_stage_index, stage_states, *, state):
    """The memory of the STATE of all parameters on the fullest stage. ZeRO shards this memory from stage STAGE on.

    Source: arXiv 1910.02054, section 5. Differs: AMPeD always shards this memory.
    """
    return value_of_stage(fullest_stage_index, [getattr(held, state) for held in stage_states])


@quantity("byte")
def activation_bytes(fullest_stage_index, stage_activations):
    """The bytes of activations that the fullest stage keeps for the backward pass.

    Source: arXiv 2205.05198, section 4.2.3.
    """
    return value_of_stage(fullest_stage_index, [held.bytes for held in stage_activations])


@quantity("byte", **REMATERIALIZED)
def rematerialized_bytes__rematerialization(
    fullest_stage_index,
    stage_states,
    stage_activations,
    stage_working,
    weight_buffer_bytes,
    available_memory_bytes,
    rematerializable_bytes,
):
    """The working memory of the fullest stage that a compiler saves so that the program fits, as far as it can.

    Source: OpenXLA, hlo_rematerialization.cc. Differs: the compiler saves a billionth more here than it must, so that
    rounding does not decide whether the program fits.
    """
    stages = (stage_states, stage_activations, stage_working)
    needed = total(value_of_stage(fullest_stage_index, [held.bytes for held in part]) for part in stages)
    lacking = np.maximum(needed + weight_buffer_bytes - available_memory_bytes, 0)
    return np.minimum(lacking * (1 + 1e-9), rematerializable_bytes)


@quantity("1", **REMATERIALIZED)
def rematerialized_layer_fraction__rematerialization(
    rematerialized_bytes, rematerializable_bytes, available_memory_bytes
):
    """The share of a layer's forward pass that a compiler computes once more to save working memory.

    Values are assumed to cost as much time for each byte as the layer does on average.

    Source: OpenXLA, hlo_rematerialization.cc.
    """
    # Where nothing can be saved, nothing is: any size above zero divides it.
    return rematerialized_bytes / np.where(rematerializable_bytes > 0, rematerializable_bytes, available_memory_bytes)


@quantity("byte")
def temporary_bytes(stage_working, weight_buffer_bytes, rematerialized_bytes, fullest_stage_index):
    """The working memory of the fullest stage: a recomputed layer, gradients, buffers, gathered weights and logits.

    What a compiler saves by computing values once more is left out.

    Source: arXiv 2205.05198, sections 4.3 and 5.
    """
    working = value_of_stage(fullest_stage_index, [working.bytes for working in stage_working])
    return working + weight_buffer_bytes - rematerialized_bytes


@quantity("byte")
def memory_per_accelerator_bytes(
    weight_bytes, gradient_bytes, optimizer_state_bytes, activation_bytes, temporary_bytes
):
    """The memory that the fullest accelerator needs. Source: definition."""
    return weight_bytes + gradient_bytes + optimizer_state_bytes + activation_bytes + temporary_bytes


@quantity("byte")
def available_memory_bytes(memory_capacity, reserved_memory_bytes, allocator_reserve_fraction):
    """The memory of an accelerator that is left for tensors: without the gaps between them that the allocator keeps.

    Source: PyTorch, CUDA caching allocator (what is reserved, and not what is allocated, has to fit).
    """
    return (memory_capacity - reserved_memory_bytes) / (1 + allocator_reserve_fraction)


@quantity("boolean")
def fits_in_memory(memory_per_accelerator_bytes, available_memory_bytes, fits_in_host_memory):
    """Whether everything fits: into the memory of the fullest accelerator, and what is offloaded into its host.

    Source: definition.
    """
    return (memory_per_accelerator_bytes <= available_memory_bytes) & (fits_in_host_memory > 0)


@quantity("byte")
def memory_with_headroom_bytes(memory_per_accelerator_bytes, memory_headroom_fraction, memory_headroom_bytes):
    """The memory that the fullest accelerator needs, and the headroom beside it. Source: definition."""
    return memory_per_accelerator_bytes * (1 + memory_headroom_fraction) + memory_headroom_bytes


@quantity("boolean")
def keeps_memory_headroom(memory_with_headroom_bytes, available_memory_bytes):
    """Whether the headroom is left on the fullest accelerator. Without headroom, whether what is needed fits.

    Source: definition.
    """
    return memory_with_headroom_bytes <= available_memory_bytes


@quantity("byte")
def allocator_reserved_bytes(memory_per_accelerator_bytes, allocator_reserve_fraction):
    """The memory that the allocator has reserved at the peak. Source: PyTorch, torch.cuda.max_memory_reserved."""
    return memory_per_accelerator_bytes * (1 + allocator_reserve_fraction)
