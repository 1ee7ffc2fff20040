"""Measured or fitted coefficients of an accelerator's kernels and links: columns of `kernel_efficiencies`."""

from amped.theory.quantity import ACCELERATOR, parameter


@parameter("1", category=ACCELERATOR, above=0, at_most=1.05)
def gemm_sustained_fraction():
    """Share of the matrix peak that the largest 16-bit products sustain, at the clocks that power allows.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1.05)
def fp8_gemm_sustained_fraction():
    """Share of the fp8 matrix peak that the largest products sustain.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def blockwise_fp8_fraction():
    """Rate of fp8 products whose operands have a scale for each block as a share of those with one for the tensor.

    Source: the row of kernel_efficiencies; 1 where the units scale blocks themselves.
    """
    return 1


@parameter("1", category=ACCELERATOR, above=0, at_most=1.05)
def tf32_gemm_sustained_fraction():
    """Share of the tf32 matrix peak that the largest products sustain.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1.05)
def fp32_gemm_sustained_fraction():
    """Share of the fp32 peak that the largest products sustain.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def training_clock_fraction():
    """Clock that power and heat leave in a training run as a share of that in a benchmark of single kernels.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR)
def gemm_ramp_depth():
    """Depth k of a product lost to filling a tile's pipeline.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def medium_tile_efficiency():
    """Rate of tiles of 128 by 128 as a share of that of 256 by 128.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def small_tile_efficiency():
    """Rate of tiles of 128 by 64 as a share of that of 256 by 128.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def smallest_tile_efficiency():
    """Rate of tiles of 64 by 64 as a share of that of 256 by 128.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, at_most=1)
def wave_quantization():
    """Share of what partly filled tiles and the last wave leave idle that is really lost.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1.05)
def grouped_gemm_efficiency():
    """Rate of one grouped product over several weights as a share of that of a product with one.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1.05)
def memory_bandwidth_efficiency():
    """Share of the memory bandwidth that large streaming kernels reach.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1.05)
def normalization_bandwidth_fraction():
    """Bandwidth of kernels that reduce rows (softmax, norms, losses) as a share of that of streaming kernels.

    Source: the row of kernel_efficiencies.
    """


@parameter("byte", category=ACCELERATOR)
def bandwidth_ramp_bytes():
    """Traffic that would take the time a kernel needs to reach that bandwidth.

    Source: the row of kernel_efficiencies.
    """


@parameter("s", category=ACCELERATOR)
def kernel_overhead_time():
    """Time between two kernels on the accelerator.

    Source: the row of kernel_efficiencies.
    """


@parameter("s", category=ACCELERATOR)
def kernel_launch_time():
    """Time of the host to launch a kernel: no pass is faster than its launches.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def attention_forward_efficiency():
    """Share of the matrix peak that a fused attention sustains forward over long sequences.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def attention_backward_efficiency():
    """Share of the matrix peak that a fused attention sustains backward over long sequences.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def flash_2_attention_fraction():
    """Rate of FlashAttention-2 as a share of that of the newest kernel.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def flash_1_attention_fraction():
    """Rate of FlashAttention-1 as a share of that of the newest kernel.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def deterministic_kernel_fraction():
    """Rate of the newest attention kernel that can be deterministic as a share of that of the newest.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR)
def attention_ramp_length():
    """Length of a sequence at which a fused attention reaches half of that.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, at_most=1)
def exposed_softmax_fraction():
    """Share of a fused attention's softmax that its products do not hide.

    Source: the row of kernel_efficiencies.
    """


@parameter("1", category=ACCELERATOR, at_most=1)
def overlap_slowdown_fraction():
    """Time that computation loses for each second of communication beside it.

    Source: the row of kernel_efficiencies.
    """


@parameter("byte", category=ACCELERATOR)
def inter_accelerator_ramp_bytes():
    """Message that would take the time a collective inside the node needs to reach its bandwidth.

    Source: the row of kernel_efficiencies.
    """


@parameter("byte", category=ACCELERATOR)
def inter_node_ramp_bytes():
    """Message that would take the time a collective across nodes needs to reach its bandwidth.

    Source: the row of kernel_efficiencies.
    """


@parameter("s", category=ACCELERATOR)
def collective_overhead_time():
    """Fixed time of a call of a collective.

    Source: the row of kernel_efficiencies.
    """


# --- what processors lose --------------------------------------------------------------------------------------------


@parameter("1", category=ACCELERATOR, at_least=0)
def gemm_ramp_rows():
    """Rows m of a product lost beside those it has: edges and packing of a processor's blocks.

    Source: definition, none where tiles and waves say what is lost; Low et al., ACM TOMS 43(2), 2016, section 4 (cache blocks).
    """
    return 0


@parameter("byte", category=ACCELERATOR, at_least=0)
def cached_operand_bytes():
    """Bytes of a product's operands and output that caches keep: no time is lost for them.

    Source: definition, none where `exposed_operand_fraction` is 0; fitted for processors, about the cache of a core.
    """
    return 0


@parameter("1", category=ACCELERATOR, at_least=0, at_most=1)
def exposed_operand_fraction():
    """Share of a product's traffic beyond the caches that its computing does not hide.

    Source: definition, none on accelerators, whose loads run ahead (CUTLASS, efficient GEMM: pipelining); 1 for a
    processor, whose threads pack a block before they multiply it (Low et al., ACM TOMS 43(2), 2016, section 4).
    """
    return 0


@parameter("s", category=ACCELERATOR, at_least=0)
def elementary_function_time():
    """Time of an exponential, root or quotient in kernels that pass over rows, beside what they add and multiply.

    Source: definition, none where special function units keep pace with memory; fitted for processors.
    """
    return 0


@parameter("s", category=ACCELERATOR, at_least=0)
def random_number_time():
    """Time to draw one random number of a dropout.

    Source: definition, none where counters are hashed beside memory (arXiv 2205.14135, appendix B); fitted for processors.
    """
    return 0
