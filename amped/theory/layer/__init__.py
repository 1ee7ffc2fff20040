"""The time of one layer for one micro-batch, and of the embedding and the output head.

This chapter takes the durations of operators and of collectives, and the switches for overlap. It gives times per
layer: computation by pass, communication for which the accelerator waits (exposed), communication that runs beside
computation (overlapped), and copies from and to the host.

    layer_time = forward + input gradients + weight gradients + recomputation + exposed communication

Each record of this chapter has a record for each kind of layer, in the order of `layer_kinds`. The page `passes` adds
up kernel times; a pass takes at least the time in which the host launches its kernels. `messages` says which messages a
pass sends, and beside which kernels they may run. `waits` lets each second of kernels hide at most one second of
messages, puts the remaining messages into the queue of kernels, and lets exchanges of experts run beside another
micro-batch. `offload` has the copies from and to the host. `times` has the sums. `theory/nouns/resources.py` tells in
one place which resources can be busy at once.
"""

PAGES = ("passes", "messages", "waits", "offload", "times")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # passes
    "kind_durations",
    "layer_computation",
    "layer_host_waits",
    "layer_kernels",
    "layer_repeats",
    "attention_core_forward_time_per_layer",
    "repeated_time_per_layer",
    "embedding_forward_time",
    "output_head_forward_time",
    "output_head_input_gradient_time",
    "output_head_weight_gradient_time",
    "embedding_backward_time",
    "tower_forward_time",
    "tower_backward_time",
    # waits
    "layer_waits",
    "layer_exposures",
    # offload
    "offload_fill_time",
    "host_link_bandwidth_per_accelerator",
    "number_of_accelerators_of_a_host",
    "offloaded_activation_bytes_per_layer",
    "offloaded_weight_bytes_per_layer",
    "offloaded_gradient_bytes_per_layer",
    "update_offload_time",
    "updating_time",
    "overlapped_update_offload_time",
    # times
    "vocabulary_parallel_communication_time",
    "layer_times",
    "layer_windows",
    "layer_time",
    "embedding_time",
    "output_head_time",
)
