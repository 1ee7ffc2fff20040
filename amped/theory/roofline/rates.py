"""Rates that an accelerator's kernels sustain: peaks of the datasheet times the shares in `kernel_efficiencies`."""

import numpy as np

from amped.theory.quantity import MAPPING, family, quantity, records, selector
from amped.theory.records import Kernels


@quantity("1")
def sustained_matrix_fraction(gemm_sustained_fraction):
    """Share of the matrix peak that the largest products sustain, in 16-bit formats. Source: the row of kernel_efficiencies."""
    return gemm_sustained_fraction


@selector("tensors", "blocks", category=MAPPING)
def fp8_scaling():
    """What has a scale of its own in fp8: tensors, or blocks of them.

    Source: NVIDIA Transformer Engine, recipes DelayedScaling and Float8CurrentScaling (tensors), Float8BlockScaling (blocks).
    """
    return "tensors"


@quantity("1")
def fp8_scaling_fraction():
    """Rate that scales leave of fp8 products: all of it, with one for each tensor. Source: definition."""
    return 1


@quantity("1", choice="fp8_scaling", value="blocks")
def fp8_scaling_fraction__blocks(blockwise_fp8_fraction):
    """Rate that scales of blocks leave of fp8 products. Source: the row of kernel_efficiencies."""
    return blockwise_fp8_fraction


@quantity("1", choice="matrix_precision", value="fp8")
def sustained_matrix_fraction__fp8(fp8_gemm_sustained_fraction, fp8_scaling_fraction):
    """Share of the fp8 peak that the largest products sustain. Source: the row of kernel_efficiencies."""
    return fp8_gemm_sustained_fraction * fp8_scaling_fraction


@family(FORMAT=("tf32", "fp32"))
@quantity("1", choice="matrix_precision", value="FORMAT")
def sustained_matrix_fraction__FORMAT(FORMAT_gemm_sustained_fraction):
    """Share of the matrix peak that the largest products sustain, in FORMAT. Source: the row of kernel_efficiencies."""
    return FORMAT_gemm_sustained_fraction


@quantity("flop/s")
def sustained_matrix_flop_rate(matrix_peak_flop_rate, sustained_matrix_fraction, training_clock_fraction):
    """Rate of the largest products with a weight. Source: definition."""
    return matrix_peak_flop_rate * sustained_matrix_fraction * training_clock_fraction


@quantity("flop/s")
def sustained_batched_flop_rate(sustained_matrix_flop_rate):
    """Rate of the largest products of activations: that of all products. Source: definition."""
    return sustained_matrix_flop_rate


@family(FORMAT=("fp8", "fp4"))
@quantity("flop/s", choice="matrix_precision", value="FORMAT")
def sustained_batched_flop_rate__FORMAT(attention_peak_flop_rate, gemm_sustained_fraction, training_clock_fraction):
    """Rate of the largest products of activations, which stay in 16 bit.

    Source: NVIDIA Transformer Engine, fp8 recipes; arXiv 2509.25149, section 4 (fp4).
    """
    return attention_peak_flop_rate * gemm_sustained_fraction * training_clock_fraction


@quantity("byte/s")
def achieved_memory_bandwidth(memory_bandwidth, memory_bandwidth_efficiency):
    """Bandwidth that large streaming kernels reach. Source: the row of kernel_efficiencies."""
    return memory_bandwidth * memory_bandwidth_efficiency


@quantity("count")
def cores_sharing_tiles():
    """Cores over which the tiles of a product are dealt: one where nobody says. Source: definition."""
    return 1


@quantity("count", when_given=("number_of_cores",))
def cores_sharing_tiles__known(number_of_cores):
    """Cores over which the tiles of a product are dealt. Source: the accelerator's datasheet."""
    return number_of_cores


@quantity("s")
def exposed_softmax_time(exposed_softmax_fraction, vector_flop_rate, flops_per_elementary_operation):
    """Time of one score's softmax in a fused attention that products do not hide: 4 operations.

    Source: arXiv 2410.00273, section 3 (logit-attend).
    """
    return exposed_softmax_fraction * 4 * flops_per_elementary_operation / vector_flop_rate


@records()
def kernel_rates(
    flops_per_multiply_accumulate, sustained_matrix_flop_rate, grouped_gemm_efficiency, sustained_batched_flop_rate,
    fused_forward_flop_rate, fused_backward_flop_rate, attention_ramp_length, attention_head_ramp,
    attention_dropout_fraction, streaming_traffic_factor, vector_flop_rate, exposed_softmax_time,
    achieved_memory_bandwidth, normalization_bandwidth_fraction, bandwidth_ramp_bytes, gemm_ramp_depth,
    gemm_ramp_rows, cached_operand_bytes, exposed_operand_fraction, medium_tile_efficiency, small_tile_efficiency,
    smallest_tile_efficiency, wave_quantization, cores_sharing_tiles, kernel_overhead_time, kernel_launch_time,
    elementary_function_time, random_number_time,
):  # fmt: skip
    """All that the time of a kernel depends on beside its shape, as one record. Source: the row of kernel_efficiencies."""
    return (Kernels(
        name="kernel_rates",
        matrix_time=flops_per_multiply_accumulate / sustained_matrix_flop_rate,
        grouped_time=flops_per_multiply_accumulate / (sustained_matrix_flop_rate * grouped_gemm_efficiency),
        batched_time=flops_per_multiply_accumulate / sustained_batched_flop_rate,
        fused_forward_rate=fused_forward_flop_rate, fused_backward_rate=fused_backward_flop_rate,
        vector_rate=vector_flop_rate, softmax_time=exposed_softmax_time,
        bandwidth=achieved_memory_bandwidth, normalization=normalization_bandwidth_fraction,
        traffic_factor=streaming_traffic_factor, bandwidth_ramp=bandwidth_ramp_bytes, ramp_depth=gemm_ramp_depth,
        ramp_length=attention_ramp_length, ramp_width=attention_head_ramp, dropout_fraction=attention_dropout_fraction,
        medium=medium_tile_efficiency, small=small_tile_efficiency, smallest=smallest_tile_efficiency,
        quantization=wave_quantization, cores=cores_sharing_tiles,
        overhead=kernel_overhead_time, launch_time=kernel_launch_time,
        ramp_rows=gemm_ramp_rows, cached=cached_operand_bytes, exposed=exposed_operand_fraction,
        function_time=elementary_function_time, drawing_time=random_number_time,
    ),)  # fmt: skip


# --- attention -------------------------------------------------------------------------------------------------------


@quantity("1")
def context_attention_fraction():
    """Rate of attention that context parallelism leaves: all of it. Source: definition."""
    return 1


@quantity("1", when_given=("context_parallel_attention_fraction",))
def context_attention_fraction__given(context_parallel_attention_fraction, context_parallel_degree):
    """Rate of attention that context parallelism leaves, where sequences are shared out. Source: definition."""
    return np.where(context_parallel_degree > 1, context_parallel_attention_fraction, 1.0)


@quantity("flop/s")
def fused_forward_flop_rate(
    attention_peak_flop_rate,
    attention_forward_efficiency,
    attention_kernel_fraction,
    training_clock_fraction,
    context_attention_fraction,
):
    """Rate of a fused attention forward over long sequences. Source: the row of kernel_efficiencies."""
    sustained = attention_peak_flop_rate * attention_forward_efficiency * training_clock_fraction
    return sustained * attention_kernel_fraction * context_attention_fraction


@quantity("flop/s")
def fused_backward_flop_rate(
    attention_peak_flop_rate,
    attention_backward_efficiency,
    attention_kernel_fraction,
    training_clock_fraction,
    deterministic,
    deterministic_attention_fraction,
    context_attention_fraction,
):
    """Rate of a fused attention backward over long sequences. Source: the row of kernel_efficiencies."""
    sustained = attention_peak_flop_rate * attention_backward_efficiency * training_clock_fraction
    ordered = np.where(deterministic > 0, deterministic_attention_fraction, 1.0)
    return sustained * attention_kernel_fraction * ordered * context_attention_fraction


# --- fp4 -------------------------------------------------------------------------------------------------------------


@quantity("1", choice="matrix_precision", value="fp4")
def sustained_matrix_fraction__fp4(fp8_gemm_sustained_fraction):
    """Share of the fp4 peak that the largest products sustain: fp8's, as both are held by power.

    Source: definition. Differs: nobody published long products in fp4.
    """
    return fp8_gemm_sustained_fraction
