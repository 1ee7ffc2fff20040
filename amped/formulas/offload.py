"""What is offloaded to the host's memory: shares of optimizer states, gradients, weights and activations, and their bytes.

The optimizer of offloaded states runs on the host. A share is one of every layer; the weights of the two ends of the
network travel with the layers, spread evenly over those of their stage; activations of the ends stay.
"""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity

OFFLOADS = ("optimizer_offload", "activation_offload", "weight_offload")
# Layers that have a buffer on the accelerator: one at work, one on its way.
BUFFERED_LAYERS = 2


@parameter("1", category=MAPPING, at_most=1, or_boolean=True)
def optimizer_offload():
    """Share of the optimizer states that the host keeps and updates (true: all).

    Source: arXiv 2101.06840; Megatron-Core, --optimizer-offload-fraction.
    """
    return 0


@parameter("1", category=MAPPING, at_most=1, or_boolean=True)
def activation_offload():
    """Share of what layers keep for the backward pass that waits on the host (true: all).

    Source: arXiv 2104.07857, section 5.1.2; Megatron-Core, --cpu-offloading-num-layers.
    """
    return 0


@parameter("1", category=MAPPING, at_most=1, or_boolean=True)
def weight_offload():
    """Share of the weights that the host keeps and sends for every pass (true: all).

    Source: arXiv 2104.07857, section 5.1.1; DeepSpeed, offload_param.
    """
    return 0


@quantity("1", category=MAPPING, at_most=1, or_boolean=True)
def gradient_offload():
    """Share of the gradients that the host keeps and adds up: none without an offloaded optimizer. Source: definition."""
    return 0


@quantity("1", category=MAPPING, at_most=1, or_boolean=True, when_given=("optimizer_offload",))
def gradient_offload__with_the_states(optimizer_offload, zero_stage, state_replicas):
    """Share of the gradients that the host keeps and adds up: that of the states, where each accelerator has its own.

    Source: arXiv 2101.06840, section 4. Megatron-Core leaves them on the accelerator, which is gradient_offload = 0.
    """
    return np.where((zero_stage >= 2) | (state_replicas == 1), optimizer_offload, 0)


@parameter("boolean", category=MAPPING)
def overlap_offload_communication():
    """Whether copies from and to the host run beside computation, and beside the host's optimizer.

    Source: arXiv 2101.06840, section 4.1; Megatron-Core, --overlap-cpu-optimizer-d2h-h2d.
    """
    return 1


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="gradient_offload", when_given=("gradient_offload",))
def gradients_leave_with_their_states__given(gradient_offload, optimizer_offload, zero_stage, state_replicas):
    """Gradients are offloaded with the states they update, and by those who hold no others: from ZeRO 2 on, or alone.

    Source: arXiv 2101.06840, section 4.2.
    """
    alone = (zero_stage >= 2) | (state_replicas == 1)
    return (gradient_offload <= optimizer_offload) & (alone | (gradient_offload == 0))


@quantity("boolean", constrains="zero_stage", when_given=("weight_offload",))
def offloaded_weights_are_those_updated__given(weight_offload, zero_stage, state_replicas):
    """Weights are offloaded by those who update them: with ZeRO 3, with ZeRO 0, or where there is one replica.

    Source: DeepSpeed, offload_param (stage 3 alone).
    """
    return (weight_offload == 0) | (zero_stage == 0) | (zero_stage >= 3) | (state_replicas == 1)


@quantity("boolean", constrains="optimizer_offload", choice="performance_model", value="amped", when_any_given=OFFLOADS)
def the_closed_form_offloads_nothing__amped(optimizer_offload, activation_offload, weight_offload):
    """The closed form has no host: nothing is offloaded unless performance_model is operators. Source: definition."""
    return optimizer_offload + activation_offload + weight_offload == 0


# --- bytes of one layer ----------------------------------------------------------------------------------------------


@quantity("byte")
def device_activation_bytes_per_layer(kept_activation_bytes_per_layer, activation_offload):
    """Stash of a micro-batch in one layer that stays on the accelerator. Source: arXiv 2104.07857, section 5.1.2."""
    return kept_activation_bytes_per_layer * (1 - activation_offload)


@quantity("byte")
def offloaded_activation_bytes_per_layer(kept_activation_bytes_per_layer, activation_offload):
    """Stash of a micro-batch in one layer that waits on the host. Source: arXiv 2104.07857, section 5.1.2."""
    return kept_activation_bytes_per_layer * activation_offload


@quantity("byte")
def offloaded_weight_bytes_per_layer(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, weight_shards, expert_weight_shards,
    weight_precision, largest_stage_layers, weight_offload,
):  # fmt: skip
    """Weights of a layer that come from the host: an accelerator's shard, gathered from the others' beside it.

    Source: arXiv 2104.07857, section 6.1 (bandwidth-centric partitioning).
    """
    held = shared_parameters_per_accelerator / weight_shards + expert_parameters_per_accelerator / expert_weight_shards
    return held * weight_precision * weight_offload / largest_stage_layers


@quantity("byte")
def offloaded_gradient_bytes_per_layer(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, gradient_shards, expert_gradient_shards,
    gradient_precision, largest_stage_layers, gradient_offload,
):  # fmt: skip
    """Gradients of a layer that go to the host in the backward pass of each micro-batch, an accelerator's shard of them.

    Source: arXiv 2101.06840, section 4.
    """
    shared = shared_parameters_per_accelerator / gradient_shards
    held = shared + expert_parameters_per_accelerator / expert_gradient_shards
    return held * gradient_precision * gradient_offload / largest_stage_layers


@quantity("count")
def device_updated_parameters(updated_parameters, optimizer_offload):
    """Parameters that the accelerator itself updates. Source: DeepSpeed, ZeRO-Offload++ (Twin-Flow)."""
    return updated_parameters * (1 - optimizer_offload)


# --- buffers ---------------------------------------------------------------------------------------------------------


@quantity("byte")
def activation_staging_bytes():
    """Buffers of activations on their way: none where they stay. Source: definition."""
    return 0


@quantity("byte", when_given=("activation_offload",))
def activation_staging_bytes__offloaded(offloaded_activation_bytes_per_layer, largest_stage_layers):
    """Buffers of activations on their way to the host and back: of two layers. Source: arXiv 2104.07857, section 6.2."""
    return offloaded_activation_bytes_per_layer * np.minimum(BUFFERED_LAYERS, largest_stage_layers)


@quantity("byte")
def weight_buffer_bytes(gathered_weight_bytes):
    """Weights that are there for the time their layer runs: those that ZeRO gathers. Source: arXiv 1910.02054, 5.3."""
    return gathered_weight_bytes


@quantity("byte", when_any_given=OFFLOADS)
def weight_buffer_bytes__offloaded(
    gathered_weight_bytes, offloaded_weight_bytes_per_layer, offloaded_gradient_bytes_per_layer, largest_stage_layers,
    embedding_parameters, head_parameters, tensor_parallel_degree, weight_shards, weight_precision, weight_offload,
):  # fmt: skip
    """Weights that are there while their layer runs, and gradients on their way: two layers, or the larger end.

    Source: arXiv 2104.07857, section 6.2 (prefetch beside computation).
    """
    count = np.minimum(BUFFERED_LAYERS, largest_stage_layers)
    ends = np.maximum(embedding_parameters, head_parameters) / tensor_parallel_degree / weight_shards * weight_precision
    weights = np.maximum(offloaded_weight_bytes_per_layer * count, ends * weight_offload)
    return gathered_weight_bytes + weights + offloaded_gradient_bytes_per_layer * count
