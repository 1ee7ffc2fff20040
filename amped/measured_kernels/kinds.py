"""Kinds of measured kernels: what the rows of a table mean, and how the book of equations predicts them.

A kernel becomes the operators that an estimate has for it. Their time comes from the equations and coefficients of
estimates, at the clock of short runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import ConfigError
from amped.theory.kernel_work import FUSED_BACKWARD_PRODUCTS, Traffic, operator
from amped.theory.link_records import Network
from amped.theory.records import Collective, Group, Kernels, Operator
from amped.theory.roofline.kernels import kernel_time

Array = NDArray[np.float64]
Columns = Mapping[str, Any]
MICRO, TERA = 1e-6, 1e12
# The precisions by their names in the tables: bytes of an entry of a product's factors, and the settings of amped.
PRECISIONS: Mapping[str, tuple[float, Mapping[str, object]]] = {
    "float32": (4.0, {"matrix_precision": "fp32"}),
    "bfloat16": (2.0, {"matrix_precision": "bf16"}),
    "float16": (2.0, {"matrix_precision": "fp16"}),
    "fp8": (1.0, {"matrix_precision": "fp8"}),
    "fp8_block": (1.0, {"matrix_precision": "fp8", "fp8_scaling": "blocks"}),
    "nvfp4": (0.5, {"matrix_precision": "fp4"}),
}
WIDE, FULL = 2.0, 4.0
# The stage of a grouped product that gives the gradients of weights.
OF_WEIGHTS = "bwd_grad_w"


@dataclass(frozen=True)
class Predictor:
    """All that predicts the kernels of one accelerator in one precision.

    Attributes:
        rates: the rates of single kernels.
        entry: bytes of an entry of a product's factors.
        frequency: cycles of a core per second.
        network: the links for collectives, if a system with the accelerator is known.
    """

    rates: Kernels
    entry: float
    frequency: float
    network: Network | None = None


@dataclass(frozen=True)
class KernelKind:
    """One kind of kernel: its columns in a table, and how its time is read and predicted.

    Attributes:
        shape: the columns that say what was run.
        library: the columns that say what ran it.
        measured: the columns with its time.
        seconds: gives the measured time.
        time: gives the predicted time.
        precision: the precision of a table that has no such column.
        is_compared: tells which rows are compared; of collectives, only those that measure more than the latency.
    """

    shape: tuple[str, ...]
    time: Callable[[Columns, Predictor], Any]
    library: tuple[str, ...] = ("software", "kernel")
    measured: tuple[str, ...] = ("time_us",)
    seconds: Callable[[Columns], Any] = lambda c: c["time_us"] * MICRO
    precision: str = "bfloat16"
    is_compared: Callable[[Columns], Any] = lambda c: np.ones(len(c["accelerator"]), dtype=np.bool_)


def timed(made: Operator, machine: Predictor) -> Any:
    """The predicted time of one kernel."""
    return kernel_time(made, machine.rates)  # type: ignore[no-untyped-call]


# --- products --------------------------------------------------------------------------------------------------------


def product_operator(c: Columns, entry: float) -> Operator:
    """A product C = A·B, with C in 16 bits, or as wide as A and B if these are wider."""
    m, n, k = (_floats(c[name]) for name in "mnk")
    work = Traffic(2 * m * n * k, (m * k + k * n) * entry, m * n * max(entry, WIDE))
    return operator("contraction", "contraction", "forward", (m, n, k, 1.0), work)


def product_time(c: Columns, machine: Predictor) -> Any:
    """The time of a product."""
    tiles = machine.rates.products.tiles
    return timed(product_operator(c, machine.entry), machine) + quantizing_time(c, tiles.cores, machine.frequency)


@dataclass(frozen=True)
class Quantizer:
    """How long a library takes to convert the rows of A to a narrow format before the product, in cycles of a core.

    Attributes:
        of_entry, of_row: cycles for each entry, and for each row, whose largest entry must be found first.
        of_depth: cycles for each entry of a single row, which one block of threads reads in order.
    """

    of_entry: float
    of_row: float
    of_depth: float


# Fitted to four fifths of each library's shapes, on all accelerators at once. A block of threads reads a row, finds its
# largest entry, and writes the row. Source, from memory: vllm-project/vllm, csrc/quantization; NVIDIA/TensorRT-LLM,
# cpp/tensorrt_llm/kernels/quantization.cuh.
QUANTIZERS = {
    ("TRTLLM", "fp8"): Quantizer(0.354, 9.54, 0.163), ("VLLM", "fp8"): Quantizer(0.395, 1430.0, 1.37),
    ("TRTLLM", "fp8_block"): Quantizer(0.122, 104.0, 0.611), ("VLLM", "fp8_block"): Quantizer(0.258, 273.0, 2.58),
    ("TRTLLM", "nvfp4"): Quantizer(0.13, 196.0, 1.94), ("VLLM", "nvfp4"): Quantizer(0.0944, 123.0, 0.552),
}  # fmt: skip


def quantizing_time(c: Columns, cores: Any, frequency: float) -> Any:
    """The time in which a library converts A to a narrow format; zero in 16 bits, or for a library without a fit."""
    q = QUANTIZERS.get((str(c["software"][0]).partition(" ")[0], str(c["precision"][0])))
    if q is None:
        return 0.0
    m, k = _floats(c["m"]), _floats(c["k"])
    cycles = m * (k * q.of_entry + q.of_row) / cores + k * q.of_depth
    return cycles / frequency


def layout_operator(c: Columns) -> Operator:
    """A product whose result may be accumulated in full precision, as a weight's gradient is."""
    m, n, k = (_floats(c[name]) for name in "mnk")
    adds, full = _are(c["accumulate"], "True"), _are(c["out_dtype"], "fp32")
    read = (m * k + k * n) * WIDE + adds * m * n * FULL
    work = Traffic(2 * m * n * k, read, m * n * (WIDE + full * (FULL - WIDE)))
    return operator("contraction", "contraction", "forward", (m, n, k, 1.0), work)


def layout_time(c: Columns, machine: Predictor) -> Any:
    """The time of a product whose result may be accumulated in full precision."""
    return timed(layout_operator(c), machine)


def grouped_operators(c: Columns) -> tuple[Operator, Operator]:
    """A product with another weight for each group of rows: as in the forward pass, and as the weights' gradient."""
    rows, n, k, groups = (_floats(c[name]) for name in ("M", "N", "K", "ng"))
    flops = 2 * groups * rows * n * k
    work = Traffic(flops, (rows * k + k * n) * groups * WIDE, rows * n * groups * WIDE)
    gradient = Traffic(flops, (rows * k + rows * n) * groups * WIDE, k * n * groups * FULL)
    kind = "grouped_contraction"
    return (
        operator(kind, kind, "forward", (rows, n, k, groups), work),
        operator(kind, kind, "weight_gradient", (k, n, rows, groups), gradient),
    )


def grouped_time(c: Columns, machine: Predictor) -> Any:
    """The time of a product with another weight for each group of rows, in one of its three passes."""
    forward, weights = (timed(each, machine) for each in grouped_operators(c))
    return np.where(_are(c["stage"], OF_WEIGHTS), weights, forward)


def share_of_peak(flops: Callable[[Columns], Any]) -> Callable[[Columns], Any]:
    """The measured time of kernels whose table says which share of the peak they reach."""
    return lambda c: flops(c) / (c["fraction_of_peak"] * c["peak_tflops"] * TERA)


# --- attention -------------------------------------------------------------------------------------------------------


def attention(rows: Any, keys: Any, widths: tuple[Any, Any], pairs: Any, entries: Any, phase: str) -> Operator:
    """A fused attention; `pairs` counts the computed scores, `entries` the entries of its tensors."""
    forward = Traffic(2 * pairs * (widths[0] + widths[1]), entries * WIDE, rows * widths[1] * WIDE)
    work = forward if phase == "forward" else (forward * 2)._replace(flops=forward.flops * FUSED_BACKWARD_PRODUCTS)
    made = operator("attention", "fused_attention", phase, (rows, keys, 0.0, 1.0), work)
    return made.with_heads((widths[0] + widths[1]) / 2, 0.0)


def attention_operator(c: Columns) -> Operator:
    """A causal attention over a prompt, which may have a window."""
    batch, tokens, heads, width = (_floats(c[name]) for name in ("batch", "tokens", "heads", "head_dimension"))
    window = np.where(c["window"] > 0, np.minimum(c["window"], tokens), tokens)
    pairs = batch * heads * (tokens * window - window**2 / 2)
    rows = batch * heads * tokens
    entries = rows * width + 2 * batch * c["key_value_heads"] * tokens * width
    return attention(rows, window, (width, width), pairs, entries, "forward")


def attention_time(c: Columns, machine: Predictor) -> Any:
    """The time of a causal attention over a prompt, which may have a window."""
    return timed(attention_operator(c), machine)


def peak_attention_operator(phase: str) -> Callable[[Columns], Operator]:
    """A function for a causal attention in one of its passes."""

    def made(c: Columns) -> Operator:
        batch, tokens, heads = (_floats(c[name]) for name in ("batch", "seq_len", "head_num"))
        widths = _floats(c["qk_head_dim"]), _floats(c["v_head_dim"])
        rows, keys = batch * heads * tokens, batch * c["kv_head_num"] * tokens
        entries = rows * widths[0] + keys * (widths[0] + widths[1])
        return attention(rows, tokens, widths, rows * tokens / 2, entries, phase)

    return made


def peak_attention_time(phase: str) -> Callable[[Columns, Predictor], Any]:
    """A function for the time of a causal attention in one of its passes."""
    return lambda c, machine: timed(peak_attention_operator(phase)(c), machine)


def peak_attention_flops(products: float) -> Callable[[Columns], Any]:
    """A function for the operations of an attention pass, counted as in its table: those of all scores."""
    return lambda c: (
        products * c["batch"] * c["head_num"] * _floats(c["seq_len"]) ** 2 * (c["qk_head_dim"] + c["v_head_dim"])
    )


# The head widths of a latent attention over a prompt: of queries and keys, and of values.
# Source: arXiv 2412.19437, section 4.2 (128 and 64 with rotary positions, 128).
LATENT_WIDTHS = (192.0, 128.0)


def latent_attention_operator(c: Columns) -> Operator:
    """A causal latent attention over a prompt, with expanded keys and values."""
    rows, tokens = _floats(c["batch"] * c["heads"] * c["tokens"]), _floats(c["tokens"])
    entries = rows * (2 * LATENT_WIDTHS[0] + LATENT_WIDTHS[1])
    return attention(rows, tokens, LATENT_WIDTHS, rows * tokens / 2, entries, "forward")


def latent_attention_time(c: Columns, machine: Predictor) -> Any:
    """The time of a causal latent attention over a prompt, with expanded keys and values."""
    return timed(latent_attention_operator(c), machine)


# --- mixtures of experts ---------------------------------------------------------------------------------------------

# The largest load of an expert that the power law allows, as a share of all tokens.
# Source: ai-dynamo/aiconfigurator, collector (power-law distribution of tokens over experts).
LARGEST_LOAD = 0.8


def power_moment(power: float, exponent: float, largest: Any) -> Any:
    """Integral of x to a power over a power law's density from 1 to the largest, not normalized. Source: definition."""
    return (largest ** (power + 1 - exponent) - 1) / (power + 1 - exponent)


def fullest_share(tokens: Any, experts: Any, ranks: Any, exponent: float) -> Any:
    """The load of the fullest of some ranks over the mean load, if the loads of experts follow a power law.

    The largest of n sums lies about √(2·ln n) deviations above the mean. Source: Gumbel, Statistics of Extremes (1958).
    """
    largest = np.maximum(LARGEST_LOAD * tokens, 2.0)
    none, one, two = (power_moment(power, exponent, largest) for power in (0, 1, 2))
    spread = np.sqrt(none * two / one**2 - 1)
    return np.minimum(1 + spread * np.sqrt(2 * np.log(ranks) * ranks / experts), ranks)


def experts_time(c: Columns, machine: Predictor) -> Any:
    """The time of a mixture layer on its fullest rank: tokens sorted, two grouped products, activation, outputs added.

    The column `tokens` counts the tokens of all ranks, before routing.
    """
    tokens, width, experts, ranks = (
        _floats(c[name]) for name in ("tokens", "dimensionality", "number_of_experts", "expert_degree")
    )
    inner, local = _floats(c["expert_feedforward_dimension"]) / c["tensor_degree"], experts / ranks
    visits = tokens * c["experts_per_token"]
    skewed = np.array([text.rpartition("_")[2] if "power_law" in text else "0" for text in map(str, c["distribution"])])
    exponents = skewed.astype(np.float64)
    share = np.ones(len(tokens))
    for exponent in np.unique(exponents[exponents > 0]):
        own = exponents == exponent
        share[own] = fullest_share(tokens, experts, ranks, exponent)[own]
    rows = np.minimum(visits / ranks * share, tokens * np.minimum(c["experts_per_token"], local))
    groups = np.maximum(local * -np.expm1(-rows / local), 1.0)
    branches = np.where([name.endswith("nongated") for name in map(str, c["kernel"])], 1.0, 2.0)
    up = _grouped(rows / groups, branches * inner, width, groups, machine)
    down = _grouped(rows / groups, width, inner, groups, machine)
    passed = (tokens + 2 * rows) * width + rows * inner * (branches + 1) + (rows + tokens) * width
    return up + down + passed * WIDE / machine.rates.streams.bandwidth


def _grouped(rows: Any, n: Any, k: Any, groups: Any, machine: Predictor) -> Any:
    entries = (rows * k + k * n) * groups * machine.entry
    work = Traffic(2 * groups * rows * n * k, entries, rows * n * groups * WIDE)
    kind = "grouped_contraction"
    return timed(operator(kind, kind, "forward", (rows, n, k, groups), work), machine)


# --- collectives -----------------------------------------------------------------------------------------------------

COLLECTIVES = {"alltoall": "all_to_all"}
BYTES = {"half": 2.0, "int8": 1.0}
# A payload with fewer bytes measures only the latency.
SMALLEST_PAYLOAD = 2.0**20


def _sizes_of(c: Columns) -> Array:
    return np.array([BYTES[str(each)] for each in c["element"]]) * _floats(c["elements"])


def collective_time(c: Columns, machine: Predictor) -> Any:
    """The time of a collective inside a node; the column `elements` counts those of the whole payload."""
    if machine.network is None:
        raise ConfigError("no system is built with this accelerator", "its links are not known")
    sizes = _sizes_of(c)
    names = np.array([COLLECTIVES.get(str(each), str(each)) for each in c["collective"]])
    found = np.zeros(len(sizes))
    for name in np.unique(names):
        own = names == name
        group = Group("node", _floats(c["accelerators"])[own], np.ones(own.sum()))
        found[own] = machine.network.time(Collective("it", str(name), sizes[own], group, 1.0))
    return found


def _floats(column: Any) -> Array:
    return np.asarray(column, dtype=np.float64)


def _are(column: Any, text: str) -> Array:
    return 1.0 * np.array([str(value) == text for value in column])


PRODUCT = ("m", "n", "k")
OF_PEAK: dict[str, Any] = {"library": (), "measured": ("fraction_of_peak", "peak_tflops")}
ATTENTION_OF_PEAK = ("batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim")
KINDS = {
    "products": KernelKind(PRODUCT, product_time, measured=("software", "precision", "time_us")),
    "products_with_layout": KernelKind((*PRODUCT, "layout", "accumulate", "out_dtype"), layout_time, **OF_PEAK,
                                       seconds=share_of_peak(lambda c: 2.0 * c["m"] * c["n"] * c["k"])),
    "grouped_products": KernelKind(("ng", "M", "N", "K", "stage"), grouped_time, **OF_PEAK,
                                   seconds=share_of_peak(lambda c: 2.0 * c["ng"] * c["M"] * c["N"] * c["K"])),
    "attention_forward": KernelKind(("batch", "tokens", "heads", "key_value_heads", "head_dimension", "window"), attention_time),
    "attention_forward_of_peak": KernelKind(ATTENTION_OF_PEAK, peak_attention_time("forward"), **OF_PEAK,
                                            seconds=share_of_peak(peak_attention_flops(2.0))),
    "attention_backward_of_peak": KernelKind(ATTENTION_OF_PEAK, peak_attention_time("input_gradient"), **OF_PEAK,
                                             seconds=share_of_peak(peak_attention_flops(2.0 * FUSED_BACKWARD_PRODUCTS))),
    "latent_attention_forward": KernelKind(("batch", "tokens", "heads"), latent_attention_time),
    "experts_forward": KernelKind(
        ("tokens", "dimensionality", "expert_feedforward_dimension", "experts_per_token", "number_of_experts", "tensor_degree",
         "expert_degree", "distribution"), experts_time),
    "collectives": KernelKind(("collective", "accelerators", "elements"), collective_time, ("collective", "nccl"),
                              ("element", "time_us"), is_compared=lambda c: _sizes_of(c) > SMALLEST_PAYLOAD),
}  # fmt: skip
