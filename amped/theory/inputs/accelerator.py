"""The accelerator's datasheet: clocks, units, peaks by precision, memory, power and price."""

from amped.theory.quantity import ACCELERATOR, family, parameter, quantity

PEAKS = (
    "fp32_peak_flop_rate",
    "tf32_peak_flop_rate",
    "fp16_peak_flop_rate",
    "bf16_peak_flop_rate",
    "fp8_peak_flop_rate",
)


@parameter("Hz", category=ACCELERATOR, above=0, replaces=PEAKS)
def frequency():
    """Clock at which the matrix units reach their peak. Source: the accelerator's datasheet."""


@parameter("count", category=ACCELERATOR, replaces=PEAKS)
def number_of_cores():
    """Cores with matrix units (streaming multiprocessors, compute units). Source: the accelerator's datasheet."""


@parameter("count", category=ACCELERATOR, replaces=PEAKS)
def functional_units_per_core():
    """Matrix units of one core (tensor cores, systolic arrays). Source: the accelerator's datasheet."""


@parameter("1", category=ACCELERATOR, above=0, replaces=PEAKS)
def mac_per_cycle_per_unit():
    """Multiply-accumulates of one matrix unit in a cycle, on 16-bit operands. Source: the accelerator's datasheet."""


@quantity("flop/s", category=ACCELERATOR)
def fp16_peak_flop_rate(
    flops_per_multiply_accumulate, frequency, number_of_cores, functional_units_per_core, mac_per_cycle_per_unit
):
    """Peak rate of fp16 matrix products from clock and units. Source: AMPeD, computation time."""
    units = number_of_cores * functional_units_per_core
    return flops_per_multiply_accumulate * frequency * units * mac_per_cycle_per_unit


@parameter("flop/s", category=ACCELERATOR, above=0)
def fp32_peak_flop_rate():
    """Peak rate of fp32 matrix products. Source: the accelerator's datasheet."""


@parameter("flop/s", category=ACCELERATOR, above=0)
def tf32_peak_flop_rate():
    """Peak rate of tf32 matrix products. Source: the accelerator's datasheet."""


@parameter("flop/s", category=ACCELERATOR, above=0)
def bf16_peak_flop_rate():
    """Peak rate of bf16 matrix products. Source: the accelerator's datasheet."""


@parameter("flop/s", category=ACCELERATOR, above=0)
def fp8_peak_flop_rate():
    """Peak rate of fp8 matrix products. Source: the accelerator's datasheet."""


@family(FORMAT=("fp32", "tf32", "fp16", "bf16", "fp8", "fp4"))
@quantity("flop/s", choice="matrix_precision", value="FORMAT")
def matrix_peak_flop_rate__FORMAT(FORMAT_peak_flop_rate):
    """Peak rate of matrix products in the format chosen. Source: definition."""
    return FORMAT_peak_flop_rate


@parameter("flop", category=ACCELERATOR, above=0)
def flops_per_multiply_accumulate():
    """Floating-point operations of one multiply-accumulate. Source: definition."""
    return 2


@parameter("1", category=ACCELERATOR, above=0, at_most=1)
def vector_to_matrix_fraction():
    """Vector rate as a share of the matrix rate where the vector rate is unknown.

    Source: A100 and H100 whitepapers, 1/15 to 1/16.
    """
    return 1 / 16


@quantity("flop/s", category=ACCELERATOR)
def vector_flop_rate(matrix_peak_flop_rate, vector_to_matrix_fraction):
    """Peak rate of the vector units. Source: A100 and H100 whitepapers, where the row has none."""
    return matrix_peak_flop_rate * vector_to_matrix_fraction


@parameter("flop", category=ACCELERATOR, above=0)
def flops_per_nonlinear_operation():
    """Vector flops one exponential takes the place of.

    Source: CUDA C programming guide, throughput at compute capability 8.0: 16 special functions beside 64 multiply-adds
     a cycle.
    """
    return 8


@parameter("count", category=ACCELERATOR)
def nonlinear_functional_units_per_core():
    """Units for exponentials and the like of one core. Source: the accelerator's datasheet."""


@parameter("1", category=ACCELERATOR, above=0)
def nonlinear_operations_per_cycle_per_unit():
    """Nonlinear operations of one such unit in a cycle. Source: the accelerator's datasheet."""


@parameter("byte", category=ACCELERATOR, above=0)
def memory_capacity():
    """Memory of one accelerator. Source: the accelerator's datasheet."""


@parameter("byte/s", category=ACCELERATOR, above=0)
def memory_bandwidth():
    """Bandwidth of the accelerator's own memory. Source: the accelerator's datasheet."""


@parameter("W", category=ACCELERATOR, above=0)
def thermal_design_power():
    """Power that the accelerator is built to draw and shed. Source: the accelerator's datasheet."""


@parameter("dollar/s", category=ACCELERATOR, bare="dollar/hour")
def accelerator_price():
    """Price of renting one accelerator (a bare number is dollars an hour).

    Source: on-demand price list, dated in the row.
    """


@parameter("flop/s", category=ACCELERATOR, above=0)
def fp4_peak_flop_rate():
    """Peak rate of fp4 matrix products. Source: the accelerator's datasheet."""


@quantity("flop/s", choice="matrix_precision", value="fp4")
def attention_peak_flop_rate__fp4(bf16_peak_flop_rate):
    """Peak rate of the products of attention, which stay in 16 bit. Source: arXiv 2509.25149, section 4."""
    return bf16_peak_flop_rate


@quantity("flop/s")
def attention_peak_flop_rate(matrix_peak_flop_rate):
    """Peak rate of the products of attention: that of all products. Source: definition."""
    return matrix_peak_flop_rate


@quantity("flop/s", choice="matrix_precision", value="fp8")
def attention_peak_flop_rate__fp8(bf16_peak_flop_rate):
    """Peak rate of the products of attention, which stay in 16 bit. Source: NVIDIA Transformer Engine, fp8 recipes."""
    return bf16_peak_flop_rate


@parameter("flop", category=ACCELERATOR, above=0)
def flops_per_elementary_operation():
    """Floating-point operations of one addition, product, division or exponential.

    Source: definition, as in arXiv 2007.00072.
    """
    return 1


# --- the link to the host --------------------------------------------------------------------------------------------


@parameter("byte/s", category=ACCELERATOR, above=0)
def host_link_bandwidth():
    """Bandwidth of the link between an accelerator and its host, per direction. Source: the accelerator's datasheet."""


@parameter("count", category=ACCELERATOR)
def number_of_accelerators_per_host_link():
    """Accelerators that share a link to the host: each has its own unless given. Source: definition."""
    return 1
