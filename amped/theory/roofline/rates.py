"""Rates that an accelerator's kernels sustain: peaks of the datasheet times the shares in `kernel_efficiencies`."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.conditions import HYPER_CONNECTED
from amped.theory.nouns.kernel_work import SOFTMAX
from amped.theory.nouns.records import AttentionRamp, ChunkedScan, FusedAttention, Kernels, Products, Streams, Tiles
from amped.theory.roofline.kernels import kernel_time
from amped.theory.roofline.mixers import ENTRIES_PER_CYCLE, FEWEST_CORES, ITERATION_CYCLES, SCAN_KERNELS, numbers_of


@quantity("1", choice="matrix_precision", value="fp8")
def sustained_matrix_fraction__fp8(fp8_gemm_sustained_fraction, fp8_scaling_fraction):
    """The share of the fp8 peak that the largest products sustain.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    return fp8_gemm_sustained_fraction * fp8_scaling_fraction


@quantity("1")
def slowest_clock_fraction(training_clock_fraction, clock_spread_fraction, number_of_accelerators):
    """The clock of the slowest of N accelerators, for which all others wait, as a share of the full clock.

    It is σ·√(2·ln N) below the mean clock; σ is the standard deviation of the clocks. Assumes that clocks are normally
    distributed and independent, and that the accelerators communicate in every pass.

    Source: Cramér, Mathematical Methods of Statistics (1946), section 28.6 (the largest of N normal variables).
    """
    return training_clock_fraction * (1 - clock_spread_fraction * np.sqrt(2 * np.log(number_of_accelerators)))


@quantity("flop/s")
def sustained_matrix_flop_rate(matrix_peak_flop_rate, sustained_matrix_fraction, slowest_clock_fraction):
    """The rate of the largest products with a weight. Source: definition."""
    return matrix_peak_flop_rate * sustained_matrix_fraction * slowest_clock_fraction


@family(
    named=(
        "sustained_batched_flop_rate__fp8",
        "sustained_batched_flop_rate__fp4",
    ),
    FORMAT=("fp8", "fp4"),
)
@quantity("flop/s", choice="matrix_precision", value="FORMAT")
def sustained_batched_flop_rate__FORMAT(attention_peak_flop_rate, gemm_sustained_fraction, slowest_clock_fraction):
    """The rate of the largest products of activations with activations, which stay in 16 bit.

    Source: NVIDIA Transformer Engine, fp8 recipes; arXiv 2509.25149, section 4 (fp4).
    """
    return attention_peak_flop_rate * gemm_sustained_fraction * slowest_clock_fraction


@quantity("byte/s")
def achieved_memory_bandwidth(memory_bandwidth, memory_bandwidth_efficiency):
    """The memory bandwidth that large streaming kernels reach.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    return memory_bandwidth * memory_bandwidth_efficiency


@quantity("s")
def exposed_softmax_time(exposed_softmax_fraction, vector_flop_rate, flops_per_elementary_operation):
    """The time of the softmax of one score in a fused attention that does not overlap the products.

    The softmax of a score has 4 operations.

    Source: arXiv 2410.00273, section 3 (logit-attend).
    """
    return exposed_softmax_fraction * SOFTMAX.forward.flops * flops_per_elementary_operation / vector_flop_rate


@quantity("s")
def address_time(flops_per_address, vector_flop_rate):
    """The time in which a kernel computes the address of an entry, while its other units wait.

    A kernel that reads or writes a tensor that is not contiguous, or repeats a row or a column, divides the number of
    each entry by the lengths of the axes.

    Source: PyTorch, aten/src/ATen/cuda/detail/OffsetCalculator.cuh.
    """
    return flops_per_address / vector_flop_rate


@records()
def tile_losses(
    medium_tile_efficiency,
    small_tile_efficiency,
    smallest_tile_efficiency,
    wave_quantization,
    cores_sharing_tiles,
    gemm_ramp_depth,
    gemm_ramp_rows,
    cache_bandwidth_reciprocal,
    tile_latency,
    split_product_time,
    exposed_store_fraction,
    operand_delivery_reciprocal,
    throttling_time,
    tile_quantization,
):
    """The coefficients that tell how much slower products are because of their shape, as one record.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    tiles = Tiles(
        "tiles",
        medium=medium_tile_efficiency,
        small=small_tile_efficiency,
        smallest=smallest_tile_efficiency,
        quantization=wave_quantization,
        cores=cores_sharing_tiles,
        ramp_depth=gemm_ramp_depth,
        ramp_rows=gemm_ramp_rows,
        load_time=cache_bandwidth_reciprocal,
        latency=tile_latency,
        split_time=split_product_time,
        exposed_store=exposed_store_fraction,
        delivery_time=operand_delivery_reciprocal,
        throttling_time=throttling_time,
        edges=tile_quantization,
    )
    return (tiles,)


@quantity("s/byte")
def cache_bandwidth_reciprocal(cache_intensity, cores_sharing_tiles, attention_peak_flop_rate):
    """The time in which a core gets one byte from the cache that all cores share.

    The cache bandwidth of a core is assumed to grow with the core's 16-bit rate.

    Source: definition of a core's share; measured kernels show that the bandwidth grows with the rate.
    """
    return cache_intensity * cores_sharing_tiles / attention_peak_flop_rate


@quantity("s/byte", when_given=("thermal_design_power", "functional_units_per_core", "mac_per_cycle_per_unit"))
def operand_delivery_reciprocal__powered(
    energy_of_operand_byte,
    thermal_design_power,
    functional_units_per_core,
    mac_per_cycle_per_unit,
    slowest_clock_fraction,
):
    """The time for which the power lasts to deliver a byte to a core that uses each operand once for each operation.

        time = energy of a byte / (power·√multipliers·clock).

    A core with `multipliers` multiplies √multipliers entries of one factor by √multipliers entries of the other one in
    a cycle: the larger its matrix units are, the more operations use an entry that was delivered, and the less energy
    an operation takes. A training run is slower than a benchmark of kernels by its `clock`, because memory, links
    and heat take a part of the power.

    Source: Kung, Computer 15(1), 1982 (systolic arrays use an operand many times); Dally et al., IEEE Micro 41(6), 2021
    (the larger an instruction of matrices, the less of its energy is overhead). Differs: one energy stands for all that
    an accelerator draws.
    """
    multipliers = functional_units_per_core * mac_per_cycle_per_unit
    return energy_of_operand_byte / (thermal_design_power * np.sqrt(multipliers) * slowest_clock_fraction)


@records()
def product_rates(
    flops_per_multiply_accumulate,
    sustained_matrix_flop_rate,
    grouped_gemm_efficiency,
    grouped_weight_gradient_fraction,
    grouped_gemm_overhead_time,
    sustained_batched_flop_rate,
    tile_losses,
    cached_operand_bytes,
    exposed_operand_fraction,
    matrix_operand_precision,
    activation_precision,
):
    """All coefficients on which the time of a matrix product depends, besides its shape, as one record.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    matrix = flops_per_multiply_accumulate / sustained_matrix_flop_rate
    grouped = flops_per_multiply_accumulate / (sustained_matrix_flop_rate * grouped_gemm_efficiency)
    products = Products(
        "products",
        matrix_time=matrix,
        grouped_time=grouped,
        grouped_gradient_time=grouped / grouped_weight_gradient_fraction,
        batched_time=flops_per_multiply_accumulate / sustained_batched_flop_rate,
        tiles=tile_losses[0],
        cached=cached_operand_bytes,
        exposed=exposed_operand_fraction,
        group_overhead=grouped_gemm_overhead_time,
        operand=matrix_operand_precision,
        activation=activation_precision,
    )
    return (products,)


@records()
def attention_ramps(
    attention_ramp_length,
    attention_backward_ramp_length,
    attention_edge_length,
    kernel_head_ramp,
    kernel_backward_head_ramp,
    wide_head_backward_fraction,
):
    """What short sequences, masks and narrow heads cost a fused attention in the forward and in the backward pass.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    return (
        AttentionRamp(
            "forward", length=attention_ramp_length, edge_length=attention_edge_length, width=kernel_head_ramp
        ),
        AttentionRamp(
            "backward",
            length=attention_backward_ramp_length,
            edge_length=attention_edge_length,
            width=kernel_backward_head_ramp,
            wide=wide_head_backward_fraction,
        ),
    )


@records()
def fused_attention_rates(
    fused_forward_flop_rate,
    fused_backward_flop_rate,
    attention_ramps,
    attention_dropout_fraction,
    exposed_softmax_time,
    attention_tile_rows,
    cores_sharing_tiles,
    attention_speedup,
):
    """All coefficients on which the time of a fused attention depends, besides its shape, as one record.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    forward, backward = attention_ramps
    attention = FusedAttention(
        "attention",
        forward_rate=fused_forward_flop_rate,
        backward_rate=fused_backward_flop_rate,
        forward_ramp=forward,
        backward_ramp=backward,
        dropout_fraction=attention_dropout_fraction,
        softmax_time=exposed_softmax_time,
        waiting_rows=attention_tile_rows * cores_sharing_tiles,
        speedup=attention_speedup,
    )
    return (attention,)


@records()
def stream_rates(
    achieved_memory_bandwidth,
    normalization_bandwidth_fraction,
    streaming_traffic_factor,
    optimizer_traffic_factor,
    bandwidth_ramp_bytes,
    vector_flop_rate,
    elementary_function_time,
    random_number_time,
    address_time,
):
    """All coefficients on which the time of a kernel without matrix products depends, besides its size, as one record.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    streams = Streams(
        "streams",
        bandwidth=achieved_memory_bandwidth,
        normalization=normalization_bandwidth_fraction,
        traffic_factor=streaming_traffic_factor,
        update_factor=optimizer_traffic_factor,
        ramp=bandwidth_ramp_bytes,
        vector_rate=vector_flop_rate,
        function_time=elementary_function_time,
        drawing_time=random_number_time,
        address_time=address_time,
    )
    return (streams,)


@family(
    named=(
        "chunked_scan_rates__gated_delta_net",
        "chunked_scan_rates__kimi_delta_attention",
        "chunked_scan_rates__mamba2",
        "chunked_scan_rates__lightning_attention",
        "chunked_scan_rates__mamba1",
        "chunked_scan_rates__gated_recurrence",
        "chunked_scan_rates__short_convolution",
    ),
    KIND=tuple(SCAN_KERNELS),
)
@records(choice="linear_attention_kind", value="KIND")
def chunked_scan_rates__KIND(
    cores_sharing_tiles,
    frequency,
    sustained_batched_flop_rate,
    achieved_memory_bandwidth,
    flops_per_elementary_operation,
    activation_precision,
    *,
    kind,
):
    """The coefficients on which the time of linear attention depends, besides its shape, as one record.

    Source: `SCAN_KERNELS`.
    """
    scan = ChunkedScan(
        "scan",
        number=cores_sharing_tiles,
        frequency=frequency,
        flop_rate=sustained_batched_flop_rate,
        bandwidth=achieved_memory_bandwidth,
        numbers=numbers_of(SCAN_KERNELS[kind], flops_per_elementary_operation),
        rearranged=activation_precision * ENTRIES_PER_CYCLE,
    )
    return (scan,)


@family(
    named=(
        "the_scan_has_a_law_for_these_cores__gated_delta_net",
        "the_scan_has_a_law_for_these_cores__kimi_delta_attention",
        "the_scan_has_a_law_for_these_cores__mamba2",
        "the_scan_has_a_law_for_these_cores__lightning_attention",
        "the_scan_has_a_law_for_these_cores__mamba1",
        "the_scan_has_a_law_for_these_cores__gated_recurrence",
        "the_scan_has_a_law_for_these_cores__short_convolution",
    ),
    KIND=tuple(SCAN_KERNELS),
)
@quantity("boolean", constrains="number_of_linear_attention_layers", choice="linear_attention_kind", value="KIND")
def the_scan_has_a_law_for_these_cores__KIND(number_of_linear_attention_layers, cores_sharing_tiles):
    """The law of linear attention is that of many small cores (number_of_cores), not of TPUs, Trainium or Gaudi.

    Source: `SCAN_KERNELS` (H100, B200, GB200 and L40S, with 132 cores and more).
    """
    return (number_of_linear_attention_layers == 0) | (cores_sharing_tiles >= FEWEST_CORES)


@quantity("s", **HYPER_CONNECTED)
def sinkhorn_iteration_time__hyper_connections(cores_sharing_tiles, frequency):
    """The seconds in which all cores compute one of Sinkhorn's iterations of a token. Source: `ITERATION_CYCLES`."""
    return ITERATION_CYCLES / (cores_sharing_tiles * frequency)


@quantity("boolean", constrains="residual_streams", **HYPER_CONNECTED)
def hyper_connections_have_a_law_for_these_cores(residual_streams, cores_sharing_tiles):
    """The law of hyper-connections is that of many small cores, not of TPUs, Trainium or Gaudi.

    Source: `ITERATION_CYCLES` (H100, B200 and GB200, with 132 cores and more).
    """
    return (residual_streams == 1) | (cores_sharing_tiles >= FEWEST_CORES)


@records()
def kernel_rates(
    product_rates,
    fused_attention_rates,
    chunked_scan_rates,
    stream_rates,
    kernel_overhead_time,
    kernel_launch_time,
    sinkhorn_iteration_time,
):
    """All coefficients on which the time of a kernel depends, besides its shape, as one record.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    kernels = Kernels(
        "kernels",
        products=product_rates[0],
        attention=fused_attention_rates[0],
        scan=chunked_scan_rates,
        streams=stream_rates[0],
        overhead=kernel_overhead_time,
        launch_time=kernel_launch_time,
        time=kernel_time,
        iteration_time=sinkhorn_iteration_time,
    )
    return (kernels,)


# --- attention -------------------------------------------------------------------------------------------------------


@quantity("1", when_given=("context_parallel_attention_fraction",))
def context_attention_fraction__given(context_parallel_attention_fraction, context_parallel_degree):
    """The share of the rate of attention that remains if context parallelism splits the sequences.

    Source: definition.
    """
    return np.where(context_parallel_degree > 1, context_parallel_attention_fraction, 1.0)


@quantity("flop/s")
def fused_forward_flop_rate(
    attention_peak_flop_rate,
    attention_forward_efficiency,
    attention_kernel_fraction,
    slowest_clock_fraction,
    context_attention_fraction,
):
    """The rate of the forward pass of a fused attention over long sequences.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    sustained = attention_peak_flop_rate * attention_forward_efficiency * slowest_clock_fraction
    return sustained * attention_kernel_fraction * context_attention_fraction


@quantity("flop/s")
def fused_backward_flop_rate(
    attention_peak_flop_rate,
    attention_backward_efficiency,
    attention_kernel_fraction,
    slowest_clock_fraction,
    deterministic,
    deterministic_attention_fraction,
    context_attention_fraction,
):
    """The rate of the backward pass of a fused attention over long sequences.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    sustained = attention_peak_flop_rate * attention_backward_efficiency * slowest_clock_fraction
    ordered = np.where(deterministic > 0, deterministic_attention_fraction, 1.0)
    return sustained * attention_kernel_fraction * ordered * context_attention_fraction
