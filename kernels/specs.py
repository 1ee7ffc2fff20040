"""The kernels that are measured: their names, their dimensions, and their work and traffic as counted by hand.

Bytes count each operand once, as it must move at least. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels.formats import FORMATS, MEASURED
from amped.kernels.refusals import refuse_unknown
from amped.theory.nouns.kernel_work import (
    ACTIVATION,
    ADAM,
    ADDITION,
    COPY,
    CROSS_ENTROPY,
    DROPOUT,
    EMBEDDING,
    FUSED_BACKWARD_PRODUCTS,
    MOVE,
    NORM,
    READ,
    SOFTMAX,
    SWIGLU,
    WRITE,
    Traffic,
    Work,
    fused,
)  # fmt: skip

Parameters = Mapping[str, Any]
# A measured kernel, as a file has it.
Record = Mapping[str, Any]
NONE = Traffic()
# The side of the product and the bytes of the copy that are timed repeatedly, to see drifting clocks and neighbors.
SENTINELS = {"cpu": (256, 16 << 20), "cuda": (4096, 1 << 30)}


@dataclass(frozen=True)
class Family:
    """One kind of kernel.

    Attributes:
        kind: the kind of the operator that amped's model has for it: contraction, batched_contraction,
            grouped_contraction, fused_attention, normalization, element_wise, collective or launch.
        parameters: its dimensions with their defaults; None if one must be given.
        work: gives the work of a call from its dimensions and the bytes of an entry.
    """

    kind: str
    parameters: Parameters
    work: Callable[[Parameters, float], Traffic]


def entries(p: Parameters) -> float:
    """The number of entries of a matrix (rows times columns), or the number of parameters that are updated."""
    return float(p["rows"] * p["columns"] if "rows" in p else p["parameters"])


def product_work(p: Parameters, w: float) -> Traffic:
    """The work of `batch` products of m × k with k × n; both operands and the result move once.

    `w` is the number of bytes of an entry.
    """
    m, n, k, batch = (float(p[name]) for name in ("m", "n", "k", "batch"))
    return Traffic(flops=2 * batch * m * n * k, read=w * batch * (m * k + k * n), written=w * batch * m * n)


def masked(p: Parameters) -> bool:
    """Whether an attention has a causal mask; a single query attends to all keys."""
    return bool(p["causal"]) and p["queries"] > 1


def attention_work(p: Parameters, w: float) -> Traffic:
    """The work of scores and weighted values, half of it if there is a causal mask.

    Queries, keys, values and output move once; in the backward pass, their gradients move, too. `w` is the number of
    bytes of an entry.
    """
    rows, keys = float(p["batch"] * p["heads"] * p["queries"]), p["batch"] * p["key_value_heads"] * p["keys"]
    flops = 4.0 * rows * p["keys"] * p["head_dimension"] * (0.5 if masked(p) else 1.0)
    tensor, pairs = w * rows * p["head_dimension"], 2 * w * keys * p["head_dimension"]
    forward = Traffic(flops, read=tensor + pairs, written=tensor)
    if p["direction"] == "forward":
        return forward
    return (forward * 2)._replace(flops=flops * FUSED_BACKWARD_PRODUCTS)


def _product(kind: str, **more: Any) -> Family:
    """A family of products; `more` are further dimensions with their defaults."""
    return Family(kind, {"m": None, "n": None, "k": None, "batch": 1, "layout": "TN", **more}, product_work)


def _rowwise(entry: Traffic, in_any_format: Traffic = NONE, kind: str = "element_wise", **more: Any) -> Family:
    """A family of kernels that work on a matrix of `rows` × `columns`.

    `entry` is the work for an entry of one byte, `in_any_format` the further work for an entry that does not depend on
    its bytes. `more` are further dimensions with their defaults.
    """
    parameters = {"rows": None, "columns": None, **more}
    return Family(kind, parameters, lambda p, w: entry.of(entries(p), w) + in_any_format * entries(p))


def _both_passes(name: str, work: Work, **more: Any) -> dict[str, Family]:
    """The families of a kernel's forward and backward pass, by name."""
    return {name: _rowwise(work.forward, **more), f"{name}_backward": _rowwise(work.backward, **more)}


def _collective(share: Callable[[float], float]) -> Family:
    """A family of collectives: each of `ranks` processes holds `bytes`, and a share of them crosses each link.

    `share` gives the share for a number of processes.
    """
    parameters = {"bytes": None, "ranks": None}
    return Family("collective", parameters, lambda p, w: Traffic(read=share(p["ranks"]) * p["bytes"]))


def _ring(n: float) -> float:
    """The share of a payload that crosses each link of a ring of n processes."""
    return (n - 1) / n


FAMILIES: Mapping[str, Family] = {
    "launch": Family("launch", {"mode": "eager"}, lambda p, w: NONE),
    "copy": _rowwise(COPY),
    "read": _rowwise(READ),
    "write": _rowwise(WRITE),
    "add": _rowwise(ADDITION),
    "gemm": _product("contraction"),
    "batched_gemm": _product("batched_contraction"),
    "grouped_gemm": _product("grouped_contraction", uneven=False),
    "fp8_gemm": _product("contraction"),
    "fp8_cast": _rowwise(NONE, Traffic(flops=1, read=2, written=1)),
    "attention": Family(
        "fused_attention",
        {"batch": None, "heads": None, "key_value_heads": 0, "queries": None, "keys": 0, "head_dimension": 128,
         "causal": True, "dropout": 0.0, "direction": "forward", "backend": "default"},
        attention_work,
    ),
    **_both_passes("softmax", SOFTMAX, kind="normalization"),
    **_both_passes("layer_norm", NORM, kind="normalization"),
    **_both_passes("rms_norm", NORM, kind="normalization"),
    **_both_passes("gelu", ACTIVATION),
    "swiglu": _rowwise(SWIGLU),
    "dropout": _rowwise(DROPOUT.forward, Traffic(written=1)),
    "bias_gelu_dropout": _rowwise(fused(MOVE, ACTIVATION.forward, DROPOUT.forward)),
    **_both_passes("embedding", EMBEDDING, vocabulary=32000),
    **_both_passes("cross_entropy", CROSS_ENTROPY, kind="normalization"),
    "adamw": Family("element_wise", {"parameters": None, "implementation": "foreach"},
                    lambda p, w: ADAM.of(entries(p), w)),
    "all_reduce": _collective(lambda n: 2 * _ring(n)),
    "all_gather": _collective(_ring),
    "reduce_scatter": _collective(_ring),
    "all_to_all": _collective(_ring),
    "broadcast": _collective(lambda n: 1.0),
    "send_receive": _collective(lambda n: 1.0),
}  # fmt: skip
COLLECTIVES = tuple(name for name, f in FAMILIES.items() if f.kind == "collective")
# Other names of dimensions, as papers and the command line have them.
ALIASES = {"b": "batch", "h": "heads", "d": "head_dimension", "p": "head_dimension", "s": "queries", "sq": "queries",
           "sk": "keys", "e": "batch", "v": "vocabulary", "r": "rows", "c": "columns"}  # fmt: skip


@dataclass(frozen=True)
class KernelSpec:
    """One kernel of one size in one format."""

    kernel: str
    params: Parameters = field(hash=False)
    dtype: str

    @property
    def work(self) -> Traffic:
        """The work of a call."""
        return record_work(vars(self))

    @property
    def flop(self) -> float:
        """The floating-point operations of a call."""
        return float(self.work.flops)

    @property
    def bytes(self) -> float:
        """The bytes that a call must move."""
        return float(self.work.read + self.work.written)

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that no other kernel, size or format has."""
        return key_of(vars(self))

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.kernel} {sizes} {self.dtype}"


def record_work(record: Record) -> Traffic:
    """The least work of a call of a record's kernel: each operand moves once."""
    return FAMILIES[record["kernel"]].work(record["params"], FORMATS[record["dtype"]].bytes)


# Tensors that pass through memory because torch has no single kernel, on every device and on processors. Source: what
# torch 2.13 dispatches; a sparse loss only reads its rows, and drawing random numbers only writes.
PASSES = {"swiglu": 5, "cross_entropy_backward": 4}
ON_PROCESSORS = {"rms_norm": 7, "rms_norm_backward": 23, "dropout": 6, "bias_gelu_dropout": 10}


def work_of(record: Record, device: str) -> Traffic:
    """The work of a record's call on a device, with the traffic of all kernels that torch runs for the call."""
    minimum = record_work(record)
    passes = (PASSES | (ON_PROCESSORS if device == "cpu" else {})).get(record["kernel"])
    if passes is None:
        return minimum
    return minimum._replace(read=passes * FORMATS[record["dtype"]].bytes * entries(record["params"]) - minimum.written)


def key_of(record: Record) -> tuple[Any, ...]:
    """A key of a record's kernel that no other kernel, size or format has."""
    return (record["kernel"], record["dtype"], *sorted((n, str(v)) for n, v in record["params"].items()))


def spec(kernel: str, dtype: str, **sizes: Any) -> KernelSpec:
    """The kernel with this name, format and dimensions; dimensions that are not given have their defaults.

    Raises:
        ConfigError: for an unknown kernel, format or dimension, and for a missing dimension.
    """
    refuse_unknown(kernel, FAMILIES, f"there is no kernel {kernel!r}")
    refuse_unknown(dtype, MEASURED, f"{dtype!r} is no format that is measured")
    defaults = FAMILIES[kernel].parameters
    for name in sizes:
        refuse_unknown(name, defaults, f"{kernel} has no dimension {name!r}")
    params = {name: sizes.get(name, default) for name, default in defaults.items()}
    missing = [name for name, value in params.items() if value is None]
    if missing:
        raise ConfigError(f"{kernel} needs {', '.join(missing)}", f'for example --size "{missing[0]}=1024, …"')
    if kernel == "attention":
        params["keys"] = params["keys"] or params["queries"]
        params["key_value_heads"] = params["key_value_heads"] or params["heads"]
    return KernelSpec(kernel, params, dtype)


def sizes_of(written: str, kernel: str) -> dict[str, Any]:
    """The dimensions in a text `H=16, B=96`, by name or by the letter that papers use.

    Raises:
        ConfigError: for a text that is not NAME=NUMBER, and for a dimension that is not positive.
    """
    defaults = FAMILIES[kernel].parameters if kernel in FAMILIES else {}
    sizes: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, equals, value = (text.strip() for text in part.partition("="))
        if not equals or not value:
            raise ConfigError(f"--size {part!r} is not NAME=VALUE", 'for example --size "m=4096, n=4096, k=4096"')
        if name not in defaults:
            name = ALIASES.get(name.lower(), name.lower())
        sizes[name] = _value(name, value, defaults.get(name))
    return sizes


def _value(name: str, written: str, default: Any) -> Any:
    """The value in a text: of the type of the default (text, boolean, share), else a positive whole number.

    Raises:
        ConfigError: if the text is not such a number.
    """
    if isinstance(default, str):
        return written
    if isinstance(default, bool):
        return written.lower() in ("1", "true", "yes", "y")
    try:
        number = float(written) if isinstance(default, float) else int(written)
    except ValueError:
        raise ConfigError(f"--size {name}={written} is no whole number", "sizes are counts") from None
    if number <= 0 and not isinstance(default, float):
        raise ConfigError(f"--size {name}={written} is not positive", "sizes are counts")
    return number


def sentinel(device: str) -> tuple[KernelSpec, KernelSpec]:
    """The product and the copy that are measured repeatedly on a device; they are always the same."""
    side, size = SENTINELS[device]
    dtype = "float32" if device == "cpu" else "bfloat16"
    return spec("gemm", dtype, m=side, n=side, k=side), spec("copy", dtype, rows=size // 4096, columns=1024)
