"""Lists of kernels to measure, the most important ones first, so that a short budget still gives a calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from amped.base.files import shipped_json
from amped.kernels.formats import FORMATS
from amped.kernels.refusals import refuse_unknown
from amped.kernels.specs import FAMILIES, KernelSpec, Parameters, spec
from amped.theory.nouns.records import Operator

SUITES = ("quick", "full", "model")
MIB = 1 << 20
# The columns of the matrices that streaming kernels use.
WIDE = 1024
LARGEST_COPY = 8 << 30
ROWS = shipped_json("kernels", "suites.json")
# What a processor does not have.
ONLY_ON_GPUS = {"fused", "cudnn", "efficient"}


def suite(name: str, device: str, dtype: str, memory: float) -> list[KernelSpec]:
    """The kernels of a suite in the order in which they are measured.

    Raises:
        ConfigError: for an unknown suite.
    """
    refuse_unknown(name, SUITES, f"there is no suite {name!r}")
    kernels = _listed("quick", device, dtype) if name == "quick" else full(device, dtype, memory)
    return list(dict.fromkeys(kernels))


def full(device: str, dtype: str, memory: float) -> Iterator[KernelSpec]:
    """The kernels of the full suite, which a GPU measures in five minutes. `memory` is the bytes of its memory."""
    largest = int(min(LARGEST_COPY, memory / 4))
    sizes = [size for size in (MIB // 4 << 2 * i for i in range(8)) if size <= largest] + [largest]
    yield from _combinations({"kernel": ["launch"], "mode": ["eager", "graph"]}, dtype)
    yield from _combinations({"bytes": sizes[-3:], "kernel": ["copy", "read", "write", "add"]}, dtype)
    yield from _combinations({"bytes": sizes, "kernel": ["copy"]}, dtype)
    yield from _listed("full", device, dtype)


def _listed(name: str, device: str, dtype: str) -> Iterator[KernelSpec]:
    """The kernels in the rows of a suite, without those that the device does not have."""
    for row in ROWS[name]:
        kernels = _layer(dtype, **row["layer"]) if "layer" in row else _combinations(row, dtype)
        yield from (k for k in kernels if device == "cuda" or not ONLY_ON_GPUS & {*map(str, k.params.values())})


def _combinations(row: Mapping[str, Sequence[Any]], dtype: str) -> Iterator[KernelSpec]:
    """The kernels of one row: all combinations of its values. The values of a name like `m,n,k` change together."""
    for values in product(*row.values()):
        sizes: dict[str, Any] = {}
        for name, value in zip(row, values, strict=True):
            sizes |= zip(name.split(","), value, strict=True) if "," in name else {name: value}
        if "bytes" in sizes:  # of a streaming kernel
            sizes |= {"rows": sizes.pop("bytes") // (WIDE * FORMATS[dtype].bytes), "columns": WIDE}
        yield spec(**{"dtype": dtype, **sizes})


def _layer(
    dtype: str, hidden: Sequence[int], tokens: Sequence[int], inner: int | None, vocabulary: int
) -> Iterator[KernelSpec]:
    """The products of a layer (forward, and gradients of inputs and weights) and of the output head.

    `inner` is the width of the MLP; None means four times the width of the layer.
    """
    for t in tokens:
        for h in hidden:
            f = inner or 4 * h
            for n, k in ((3 * h, h), (h, h), (f, h), (h, f)):
                yield spec("gemm", dtype, m=t, n=n, k=k, layout="TN")
                yield spec("gemm", dtype, m=t, n=k, k=n, layout="NN")
                yield spec("gemm", dtype, m=n, n=k, k=t, layout="NT")
        yield spec("gemm", dtype, m=t, n=vocabulary, k=hidden[0])


def fp8() -> list[KernelSpec]:
    """Products in fp8 and the casts before them, for GPUs that multiply fp8."""
    return list(_listed("fp8", "cuda", ""))


def collectives(ranks: int, device: str) -> Iterator[KernelSpec]:
    """Collectives of growing size between this number of processes."""
    only_on_gpus = ("reduce_scatter", "all_to_all") if device == "cuda" else ()
    names = ("all_reduce", "all_gather", "broadcast", "send_receive", *only_on_gpus)
    for exponent, name in product(range(10, (22 if device == "cpu" else 30) + 1, 4), names):
        yield spec(name, "float32", bytes=1 << exponent, ranks=ranks)


def of_operators(operators: Iterable[Operator], dtype: str, attention: Parameters, gated: bool) -> list[KernelSpec]:
    """The kernels of a layer's operators, as they are measured here; operators without a kernel here are left out.

    `attention` gives batch, heads, key_value_heads, queries, keys, head_dimension and causal of the attention.
    """
    return list(dict.fromkeys(made for o in operators for made in _of_operator(o, dtype, attention, gated)))


def _of_operator(o: Operator, dtype: str, attention: Parameters, gated: bool) -> Iterator[KernelSpec]:
    """The kernel that measures one operator; none if the operator does not run, or if no kernel measures it."""
    if not o.count:
        return
    m, n, k, batch = (max(1, round(v)) for v in (o.m, o.n, o.k, o.batch))
    if o.kind in ROWS["kernels_of_kinds"]:
        layout = ROWS["layouts_of_phases"][o.phase]
        yield spec(ROWS["kernels_of_kinds"][o.kind], dtype, m=m, n=n, k=k, batch=batch, layout=layout)
    elif o.kind == "fused_attention":
        direction = "forward" if o.phase == "forward" else "backward"
        yield spec("attention", dtype, **attention, direction=direction)
    else:
        name = _streaming_kernel(o, gated)
        if name is not None:
            yield spec(name, dtype, rows=m, columns=n)


def _streaming_kernel(o: Operator, gated: bool) -> str | None:
    """The name of the kernel that measures a row-by-row operator; None if there is no such kernel."""
    name: str | None = ROWS["kernels_of_operators"].get(o.name)
    if o.name == "activation_function" and gated:
        return "swiglu" if o.phase == "forward" else None
    return f"{name}_backward" if o.phase != "forward" and f"{name}_backward" in FAMILIES else name
