"""A machine of round numbers without losses: what a world worked by hand runs on.

Every efficiency is 1; there is no ramp, no overhead and no latency. So a time is a count divided by a rate, and on a machine
whose rate is one a second and whose other rates are unlimited the time is the count itself.
"""

import amped
from tests.helpers.formulas import sectioned

WITHOUT_LIMIT = 1e30
LOSSLESS: dict[str, object] = {
    **dict.fromkeys((
        "gemm_sustained_fraction", "training_clock_fraction", "medium_tile_efficiency", "small_tile_efficiency",
        "smallest_tile_efficiency", "grouped_gemm_efficiency", "memory_bandwidth_efficiency",
        "normalization_bandwidth_fraction", "attention_forward_efficiency", "attention_backward_efficiency",
        "inter_accelerator_efficiency", "inter_node_efficiency", "tree_bandwidth_fraction", "in_switch_efficiency",
        "host_link_efficiency", "host_optimizer_efficiency",
    ), 1),
    **dict.fromkeys((
        "gemm_ramp_depth", "gemm_ramp_rows", "wave_quantization", "bandwidth_ramp_bytes", "kernel_overhead_time",
        "kernel_launch_time", "attention_ramp_length", "attention_backward_ramp_length", "attention_edge_length",
        "attention_head_ramp", "attention_backward_head_ramp", "exposed_softmax_fraction",
        "overlap_slowdown_fraction", "inter_accelerator_ramp_bytes", "inter_node_ramp_bytes", "collective_overhead_time",
        "elementary_function_time", "random_number_time", "exposed_operand_fraction", "inter_accelerator_latency",
        "inter_node_latency", "reserved_memory_bytes", "gradient_bucket_bytes", "gradient_bucket_bytes_per_replica",
    ), 0),
    "number_of_accelerators_per_node": 2, "memory_capacity": "1 MB", "tokens_to_train": "1 M",
    "vector_flop_rate": WITHOUT_LIMIT, "inter_accelerator_bandwidth": WITHOUT_LIMIT,
    "bandwidth_per_network_card": WITHOUT_LIMIT, "matrix_precision": "fp16", "fp16_peak_flop_rate": WITHOUT_LIMIT,
    "memory_bandwidth": WITHOUT_LIMIT,
}  # fmt: skip
# A multiply-accumulate is 2 flop: one a second, and memory without limit.
ONE_PRODUCT_A_SECOND: dict[str, object] = {"fp16_peak_flop_rate": 2}
ONE_BYTE_A_SECOND: dict[str, object] = {"memory_bandwidth": 1}


def trained(*worlds: dict[str, object], **given: object) -> amped.Estimate:
    """The estimate of a world on the lossless machine; later values take the place of earlier ones."""
    values = dict(LOSSLESS)
    for world in (*worlds, given):
        values |= world
    return amped.estimate(sectioned(values))
