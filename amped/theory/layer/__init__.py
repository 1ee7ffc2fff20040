"""The time of one layer for one micro-batch, and of the embedding and the output head.

This chapter takes the durations of operators and of collectives, and the switches for overlap. It gives times per
layer: computation by pass, communication for which the accelerator waits (exposed), communication that runs beside
computation (overlapped), and copies from and to the host.

    layer_time = forward + input gradients + weight gradients + recomputation + exposed communication

The page `passes` adds up kernel times; a pass takes at least the time in which the host launches its kernels. `overlap`
lets each second of kernels hide at most one second of messages. `waits` puts the remaining messages into the queue of
kernels, and lets exchanges of experts run beside another micro-batch. `offload` has the copies from and to the host.
`times` has the sums. `theory/nouns/resources.py` tells in one place which resources can be busy at once.
"""

PAGES = ("passes", "overlap", "waits", "offload", "times")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # overlap
    "kernel_overlapped_tensor_forward_time_per_layer",
    "kernel_overlapped_tensor_repeated_time_per_layer",
    "kernel_overlapped_tensor_gradient_time_per_layer",
    "overlapped_reduction_time_per_layer",
    "tensor_gradient_communication_time_per_layer",
    "tensor_forward_communication_time_per_layer",
    "overlapped_input_gather_time_per_layer",
    # times
    "vocabulary_parallel_communication_time",
    "layer_time",
    "embedding_time",
    "output_head_time",
    "forward_pass_time_per_layer",
    "weight_gradient_pass_time_per_layer",
    "free_forward_time_per_layer",
    "backward_window_time_per_layer",
    "free_backward_time_per_layer",
    # passes
    "forward_time_per_layer",
    "input_gradient_time_per_layer",
    "weight_gradient_time_per_layer",
    "attention_core_gradient_time_per_layer",
    "attention_core_forward_time_per_layer",
    "repeated_time_per_layer",
    "recomputation_time_per_layer",
    "embedding_forward_time",
    "output_head_forward_time",
    "output_head_input_gradient_time",
    "output_head_weight_gradient_time",
    "embedding_backward_time",
    "backward_time_per_layer",
    # waits
    "exchanged_forward_time_per_layer",
    "exposed_tensor_communication_time_per_layer",
    "exposed_context_communication_time_per_layer",
    "exposed_expert_communication_time_per_layer",
    "overlapped_tensor_communication_time_per_layer",
    "overlapped_context_communication_time_per_layer",
    "overlapped_expert_communication_time_per_layer",
    # offload
    "exposed_offload_communication_time_per_layer",
    "offload_interference_time_per_layer",
    "offload_fill_time",
    "number_of_accelerators_of_a_host",
    "device_activation_bytes_per_layer",
    "offloaded_activation_bytes_per_layer",
    "offloaded_weight_bytes_per_layer",
    "offloaded_gradient_bytes_per_layer",
    "overlapped_offload_communication_time_per_layer",
    "update_offload_time",
    "updating_time",
    "overlapped_update_offload_time",
)
