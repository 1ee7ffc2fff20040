"""How long a kernel takes on one accelerator.

The chapter takes the operators, the datasheet and the efficiencies. It hands on `kernel_rates` (one record of all
rates, with the equation of a kernel's time) and the durations of the operators of a layer, of the embedding and of the
output head.

    time of a kernel = overhead + max(work / rate, traffic / bandwidth)

The page `rates` says what large kernels sustain: the peak times the measured share. The page `kernels` says what a
kernel loses by its shape and size: partly filled tiles, partly filled waves of tiles, ramps. The page `mixers` has the
kernels of linear and of sparse attention. The page `measured` takes the times of kernels that the user has measured.
"""

PAGES = ("rates", "together", "kernels", "mixers", "measured")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # rates
    "sustained_matrix_fraction",
    "sustained_batched_flop_rate",
    "cores_sharing_tiles",
    "operand_delivery_reciprocal",
    "slowest_clock_fraction",
    "sustained_matrix_flop_rate",
    "achieved_memory_bandwidth",
    "kernel_rates",
    "fused_forward_flop_rate",
    "fused_backward_flop_rate",
    # kernels
    "layer_durations",
    "embedding_durations",
    "output_head_durations",
    "tower_durations",
    # measured
    "timed_kernels",
)
