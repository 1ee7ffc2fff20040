"""Kinds of measured kernels: what the rows of a table mean, and how the book of equations predicts them.

A kernel becomes the operators that an estimate has for it. Their time comes from the equations and coefficients of
estimates, at the clock of short runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from amped.base.errors import ConfigError
from amped.measured_kernels import mixers, streaming
from amped.measured_kernels.attention import (
    ENCODER,
    attention_time,
    encoder_time,
    peak_attention_flops,
    peak_backward,
    peak_forward,
    training_backward,
    training_forward,
)
from amped.measured_kernels.experts import experts_time
from amped.measured_kernels.latent_attention import latent_attention_time
from amped.measured_kernels.predictor import (
    BYTES_16_BIT,
    BYTES_FP32,
    Array,
    Columns,
    Predictor,
    floats,
    operator_time,
    texts,
    tool_name,
)
from amped.theory.links import dispatchers
from amped.theory.nouns.kernel_work import FUSED_BACKWARD_PRODUCTS, Traffic, operator
from amped.theory.nouns.records import Collective, Group, Operator

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
# The stage of a grouped product that gives the gradients of weights.
OF_WEIGHTS = "bwd_grad_w"


@dataclass(frozen=True)
class KernelKind:
    """One kind of kernel: its columns in a table, and how its time is read and predicted.

    Attributes:
        shape: the columns that say what was run.
        library: the columns that say what ran it.
        measured: the columns with its time.
        seconds: gives the measured time of each row, in seconds.
        time: gives the predicted time of each row, in seconds.
        host: gives the factor on the time in which the host launches a row: 1 for a row without additional operations.
        precision: the precision of a table that has no column for it.
        shares_numbers: whether its law has numbers of kernels that are the same on all accelerators, and no others.
        is_compared: tells which rows are compared; of collectives, only those that measure more than the latency.
    """

    shape: tuple[str, ...]
    time: Callable[[Columns, Predictor], Any]
    library: tuple[str, ...] = ("software", "kernel")
    measured: tuple[str, ...] = ("time_us",)
    seconds: Callable[[Columns], Any] = lambda columns: columns["time_us"] * MICRO
    host: Callable[[Columns, Predictor], Any] = lambda *_: 1.0
    precision: str = "bfloat16"
    shares_numbers: bool = False
    is_compared: Callable[[Columns], Any] = lambda columns: np.ones(len(columns["accelerator"]), dtype=np.bool_)


# --- products --------------------------------------------------------------------------------------------------------


def product_operator(columns: Columns, entry: float, cache: float = 0.0) -> Operator:
    """A product C = A·B, with C in 16 bits, or as wide as A and B if these are wider.

    The accelerator's memory moves only the bytes that the benchmark does not find in the shared cache from the last
    run.

    Args:
        columns: the rows of a table of products.
        entry: bytes of an entry of A and B.
        cache: bytes of the shared cache.
    """
    m, n, k = (floats(columns[name]) for name in "mnk")
    work = Traffic(2 * m * n * k, (m * k + k * n) * entry, m * n * max(entry, BYTES_16_BIT))
    bytes_found = found_again(columns, work, k * n * entry, cache) * (work.read + work.written)
    return operator("contraction", "contraction", "forward", (m, n, k, 1.0), work).having(held=bytes_found)


# How many copies of the weight a benchmark uses in turn, from the weight's bytes and those of the shared cache; all copies
# multiply the same A. Source: ai-dynamo/aiconfigurator, collector/trtllm/collect_gemm.py at 0009590 and
# collector/vllm/collect_gemm.py at 00e9bde.
COPIES: Mapping[str, Callable[[Array, float, str], Any]] = {
    "TRTLLM": lambda weight, cache, _: np.clip(np.ceil(cache / weight), 1.0, 5.0),
    "VLLM": lambda _, __, precision: 1.0 if precision in ("fp8_block", "nvfp4") else 6.0,
}


def found_again(columns: Columns, work: Traffic, weight: Array, cache: float) -> Any:
    """The share of a product's bytes that its benchmark finds in the shared cache, because it runs again and again.

    All are found if A, C and the copies of the weight fit in the cache, and none if they need twice as much room. A
    benchmark whose copies are not known finds none.

    Args:
        columns: the rows of a table of products.
        work: the operations and the bytes of each product.
        weight: bytes of each weight B.
        cache: bytes of the shared cache.
    """
    copies = COPIES.get(tool_name(columns)) if cache else None
    if copies is None:
        return 0.0
    needed = work.read + work.written + (copies(weight, cache, str(columns["precision"][0])) - 1.0) * weight
    return np.clip(2.0 * cache / needed - 1.0, 0.0, 1.0)


def product_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a product, with the time to convert A to a narrow format."""
    kernel = operator_time(product_operator(columns, machine.entry, machine.cache), machine)
    return kernel + quantizing_time(columns, machine.rates.products.tiles.cores, machine.frequency)


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


def quantizing_time(columns: Columns, cores: Any, frequency: float) -> Any:
    """The time in which a library converts A to a narrow format; zero in 16 bits, or for a library without a fit."""
    quantizer = QUANTIZERS.get((tool_name(columns), str(columns["precision"][0])))
    if quantizer is None:
        return 0.0
    m, k = floats(columns["m"]), floats(columns["k"])
    cycles = m * (k * quantizer.of_entry + quantizer.of_row) / cores + k * quantizer.of_depth
    return cycles / frequency


# Software, precision and generation of which the rows of A must be a multiple of this number. If they are not, PyTorch's
# operations pad and pack their scales, instead of one kernel, and the host takes longer by this factor to launch all.
# Fitted to four fifths of the products of all three Blackwells at once.
# Source: deepseek-ai/DeepGEMM, csrc/jit_kernels/impls/smxx_layout.hpp (get_mn_major_tma_aligned_packed_ue8m0_tensor).
PACKS_IN_FOURS, ROWS_PACKED, PACKING = {("VLLM", "fp8_block", "Blackwell")}, 4, 1.34


def host_factor(columns: Columns, machine: Predictor) -> Any:
    """The factor on the time in which the host launches a product: above 1 if the rows of A need padding."""
    is_padding = (tool_name(columns), str(columns["precision"][0]), machine.generation) in PACKS_IN_FOURS
    return np.where(is_padding & (columns["m"] % ROWS_PACKED != 0), PACKING, 1.0)


# Tools whose host launches the kernels of a layer with an indexer one by one, and the share of its time that is Python, not
# launches; fitted to four fifths of these layers on B200, with a host of x86, and on GB200 at once.
EAGER_TOOLS, SHARE_OF_PYTHON = ("VLLM", "SGLang"), 0.5


def host_factor_of_layer(columns: Columns, machine: Predictor) -> Any:
    """The factor on the time in which the host launches a layer: above 1 on a host that is slow in Python."""
    share = SHARE_OF_PYTHON if tool_name(columns) in EAGER_TOOLS else 0.0
    return 1.0 + (machine.host_time_factor - 1.0) * share


def product_with_accumulation(columns: Columns) -> Operator:
    """A product of 16-bit operands (kind `products_with_layout`).

    The result is written in 16 bits or in fp32. With `accumulate` it is added to an fp32 result, which is read too. The
    layout changes no bytes: it only tells the pass.
    """
    m, n, k = (floats(columns[name]) for name in "mnk")
    is_added, is_fp32 = texts(columns["accumulate"]) == "True", texts(columns["out_dtype"]) == "fp32"
    read = (m * k + k * n) * BYTES_16_BIT + is_added * m * n * BYTES_FP32
    work = Traffic(2 * m * n * k, read, m * n * (BYTES_16_BIT + is_fp32 * (BYTES_FP32 - BYTES_16_BIT)))
    return operator("contraction", "contraction", "forward", (m, n, k, 1.0), work)


def time_of_operator(operator_of: Callable[[Columns], Operator]) -> Callable[[Columns, Predictor], Any]:
    """A function for the time of kernels that are one operator, without other work of the library."""
    return lambda columns, machine: operator_time(operator_of(columns), machine)


def grouped_operators(columns: Columns) -> tuple[Operator, Operator]:
    """A product with another weight for each group of rows, as two operators.

    The first is that of the forward pass (and of the gradient of inputs), the second that of the gradient of weights.
    """
    rows, n, k, groups = (floats(columns[name]) for name in ("M", "N", "K", "ng"))
    flops = 2 * groups * rows * n * k
    work = Traffic(flops, (rows * k + k * n) * groups * BYTES_16_BIT, rows * n * groups * BYTES_16_BIT)
    gradient = Traffic(flops, (rows * k + rows * n) * groups * BYTES_16_BIT, k * n * groups * BYTES_FP32)
    product = partial(operator, "grouped_contraction", "grouped_contraction")
    return product("forward", (rows, n, k, groups), work), product("weight_gradient", (k, n, rows, groups), gradient)


def grouped_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a product with another weight for each group of rows, in one of its three passes."""
    forward, gradient = (operator_time(grouped, machine) for grouped in grouped_operators(columns))
    return np.where(texts(columns["stage"]) == OF_WEIGHTS, gradient, forward)


def time_from_share_of_peak(flops: Callable[[Columns], Any]) -> Callable[[Columns], Any]:
    """A function for the measured time of kernels whose table says which share of the peak they reach.

    Args:
        flops: gives the operations of each kernel.
    """
    return lambda columns: flops(columns) / (columns["fraction_of_peak"] * columns["peak_tflops"] * TERA)


# --- collectives -----------------------------------------------------------------------------------------------------

COLLECTIVES = {"alltoall": "all_to_all"}
# Bytes of an element by the names of nccl-tests. Source: NVIDIA/nccl-tests, src/common.cu.
BYTES = {
    "half": 2.0, "int8": 1.0, "uint8": 1.0, "bfloat16": 2.0, "float": 4.0, "int32": 4.0, "uint32": 4.0, "double": 8.0, "int64": 8.0,
    "uint64": 8.0, "fp8_e4m3": 1.0, "f8e4m3": 1.0, "fp8_e5m2": 1.0, "f8e5m2": 1.0,
}  # fmt: skip
# A payload with fewer bytes measures only the latency.
SMALLEST_PAYLOAD = 2.0**20


# A benchmark's collective writes another buffer than it reads, so that an accelerator also moves its own share of the
# payload, with the same cores. This is the time of a byte of it, as a share of the time of a byte that crosses a link: as
# much in an all-to-all, where an accelerator sends to itself as to others, and half as much in a ring, where the share
# only passes through memory. Estimates leave it out: collectives of training work in place.
# Source: measured collectives of 2, 4 and 8 accelerators, whose times grow as (n - 1)/n + share/n; NVIDIA/nccl-tests,
# doc/PERFORMANCE.md (in place and out of place).
OWN_SHARE = {"all_to_all": 1.0, "all_gather": 0.5, "reduce_scatter": 0.5, "all_reduce": 0.5}


def _payload_bytes(columns: Columns) -> Array:
    """The bytes of the whole payload of each collective."""
    return np.array([BYTES[element] for element in texts(columns["element"])]) * floats(columns["elements"])


def collective_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a collective inside a node; the column `elements` counts those of the whole payload.

    Raises:
        ConfigError: if no system with this accelerator is known.
    """
    if machine.network is None:
        raise ConfigError("no system is built with this accelerator", "its links are not known")
    payloads = _payload_bytes(columns)
    names = np.array([COLLECTIVES.get(name, name) for name in texts(columns["collective"]).tolist()])
    times = np.zeros(len(payloads))
    for name in dict.fromkeys(names.tolist()):
        is_named = names == name
        group = Group("node", floats(columns["accelerators"])[is_named], np.ones(is_named.sum()))
        copied = OWN_SHARE.get(name, 0.0) * payloads[is_named] / group.degree / machine.network.inside.bandwidth
        times[is_named] = machine.network.time(Collective("it", name, payloads[is_named], group, 1.0)) + copied
    return times


# --- exchanges of tokens between experts -----------------------------------------------------------------------------

# The kernels by the first word of the column `kernel`: all of DeepEP's, and those of a rack.
EXCHANGES = {"deepep": dispatchers.DEEPEP, "rack": dispatchers.IN_RACK}


def exchange_time(columns: Columns, machine: Predictor) -> Any:
    """The time of an exchange of tokens between experts that are spread evenly over ranks, in one direction.

    Raises:
        ConfigError: if no system with this accelerator is known.
    """
    if machine.network is None:
        raise ConfigError("no system is built with this accelerator", "its links are not known")
    ranks, nodes, visits, tokens = (floats(columns[n]) for n in ("ranks", "nodes", "experts_per_token", "tokens"))
    copies, crossing = (
        places * -np.expm1(visits * np.log1p(-1 / places)) for places in (ranks, np.maximum(nodes, 1.01))
    )
    volume = tokens * copies * floats(columns["dimensionality"]) * floats(columns["entry_bytes"])
    group = Group("experts", ranks / nodes, nodes)
    sent = Collective("exchange", "all_to_all", volume, group, 1.0, crossing=crossing / copies, forwarded=1.0)
    kernels, times = EXCHANGES[str(columns["kernel"][0]).partition(" ")[0]], np.zeros(len(tokens))
    for name, kernel in kernels.items():
        time = dispatchers.exchange_time(  # type: ignore[no-untyped-call]
            kernel, sent, tokens, copies, floats(columns["cores"]), MICRO, 1.0, machine.network
        )
        times = np.where(texts(columns["exchange"]) == name, time, times)
    return times


PRODUCT = ("m", "n", "k")
TRAINING = ("batch", "tokens", "heads", "key_value_heads", "key_width", "value_width", "mask", "window")
OF_PEAK: dict[str, Any] = {"library": (), "measured": ("fraction_of_peak", "peak_tflops")}
# What ran a layer of sparse attention: also the format of its keys.
SHARED: dict[str, Any] = {"shares_numbers": True}
OF_LAYER = {**SHARED, "library": ("software", "kernel", "cache")}
ATTENTION_OF_PEAK = ("batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim")
KINDS = {
    "products": KernelKind(PRODUCT, product_time, measured=("software", "precision", "time_us"), host=host_factor),
    "products_with_layout": KernelKind((*PRODUCT, "layout", "accumulate", "out_dtype"), time_of_operator(product_with_accumulation),
                                       **OF_PEAK, seconds=time_from_share_of_peak(
                                           lambda columns: 2.0 * columns["m"] * columns["n"] * columns["k"])),
    "grouped_products": KernelKind(("ng", "M", "N", "K", "stage"), grouped_time, **OF_PEAK, seconds=time_from_share_of_peak(
                                       lambda columns: 2.0 * columns["ng"] * columns["M"] * columns["N"] * columns["K"])),
    "attention_forward": KernelKind(("batch", "tokens", "heads", "key_value_heads", "head_dimension", "window"), attention_time),
    "training_attention_forward": KernelKind(TRAINING, time_of_operator(training_forward)),
    "training_attention_backward": KernelKind(TRAINING, time_of_operator(training_backward)),
    "attention_forward_of_peak": KernelKind(ATTENTION_OF_PEAK, time_of_operator(peak_forward), **OF_PEAK,
                                            seconds=time_from_share_of_peak(peak_attention_flops(2.0))),
    "attention_backward_of_peak": KernelKind(ATTENTION_OF_PEAK, time_of_operator(peak_backward), **OF_PEAK,
                                             seconds=time_from_share_of_peak(
                                                   peak_attention_flops(2.0 * FUSED_BACKWARD_PRODUCTS))),
    "latent_attention_forward": KernelKind(("batch", "tokens", "heads"), latent_attention_time),
    "experts_forward": KernelKind(
        ("tokens", "dimensionality", "expert_feedforward_dimension", "experts_per_token", "number_of_experts", "tensor_degree",
         "expert_degree", "distribution"), experts_time),
    "expert_exchanges": KernelKind(
        ("exchange", "ranks", "nodes", "tokens", "dimensionality", "experts_per_token", "number_of_experts", "cores", "entry_bytes"),
        exchange_time, library=("software", "kernel", "exchange")),
    "causal_convolutions": KernelKind(("batch", "tokens", "channels", "taps"), mixers.convolution_time, **SHARED),
    "gated_delta_scans": KernelKind(mixers.SCAN, mixers.gated_delta_time, **SHARED),
    "kimi_delta_scans": KernelKind(mixers.SCAN, mixers.kimi_delta_time, **SHARED),
    "indexed_attention_layers": KernelKind(mixers.INDEXED, mixers.indexed_layer_time, host=host_factor_of_layer, **OF_LAYER),
    "compressed_sparse_attention_layers": KernelKind(mixers.COMPRESSED, mixers.compressed_layer_time, **OF_LAYER),
    "heavily_compressed_attention_layers": KernelKind(mixers.COMPRESSED, mixers.compressed_layer_time, **OF_LAYER),
    "block_sparse_attention_layers": KernelKind(mixers.BLOCKS, mixers.block_sparse_layer_time, **OF_LAYER),
    "hyper_connections": KernelKind((*mixers.CONNECTION, "side"), mixers.connection_time, **SHARED),
    "norms": KernelKind(streaming.NORM, streaming.norm_time, library=("software", "stage"), **SHARED),
    "encoder_attention_forward": KernelKind(ENCODER, encoder_time),
    "casts": KernelKind(("m", "k", "work"), streaming.cast_time, library=("software", "kernel", "work"), **SHARED),
    "collectives": KernelKind(("collective", "accelerators", "elements"), collective_time, library=("collective", "nccl"),
                              measured=("element", "time_us"), is_compared=lambda columns: _payload_bytes(columns) > SMALLEST_PAYLOAD),
}  # fmt: skip
# The names of kinds, by identity: a kind holds functions, and is no key.
NAME_OF_KIND = {id(kind): name for name, kind in KINDS.items()}
