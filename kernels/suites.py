"""Lists of kernels to measure, the most important ones first, so that a short budget still gives a calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any

from amped.kernels.refusals import refuse_unknown
from amped.kernels.specs import FAMILIES, KernelSpec, Parameters, spec
from amped.theory.nouns.records import Operator

SUITES = ("quick", "full", "model")
DIRECTIONS = ("forward", "backward")
ROWWISE = ("layer_norm", "layer_norm_backward", "softmax", "softmax_backward", "rms_norm", "rms_norm_backward", "gelu",
           "gelu_backward", "swiglu", "dropout", "bias_gelu_dropout")  # fmt: skip
MIB = 1 << 20
# The columns of the matrices that streaming kernels use.
WIDE = 1024
LARGEST_COPY = 8 << 30
# The rows of the largest tensors of the quick suite, which have 24 MiB. A C library gets tensors of 32 MiB from the
# system anew in each call, and the speed of that depends on what other programs do.
LARGEST_ROWS = 3072


def suite(name: str, device: str, dtype: str, memory: float) -> list[KernelSpec]:
    """The kernels of a suite in the order in which they are measured.

    Raises:
        ConfigError: for an unknown suite.
    """
    refuse_unknown(name, SUITES, f"there is no suite {name!r}")
    made = quick(dtype) if name == "quick" else full(device, dtype, memory)
    return list(dict.fromkeys(made))


def quick(dtype: str) -> Iterator[KernelSpec]:
    """The kernels that a processor measures in half a minute."""
    yield spec("launch", dtype)
    yield from _streamed(("copy",), dtype, [MIB // 4 << 2 * i for i in range(6)])
    yield from _streamed(("read", "write", "add"), dtype, [64 * MIB])
    yield from _transformer(dtype, (768,), (384,), 3072, 8192)
    cubes, depths, rows = (128, 256, 512, 1024), (64, 128, 256, 1024, 2048), (1, 16, 64)
    yield from _gemms(
        dtype,
        [(n, n, n) for n in cubes],
        [(512, 512, k) for k in depths],
        [(m, 2048, 2048) for m in rows],
        [(129, 257, 513), (100, 1000, 1000), (255, 768, 770)],
    )
    for direction, (batch, s) in product(DIRECTIONS, ((4, 128), (2, 256), (1, 512), (1, 1024))):
        yield spec("attention", dtype, batch=batch, heads=12, queries=s, head_dimension=64, direction=direction)
    yield from _rows(ROWWISE, dtype, (512, 768), (2048, 1024))
    large = ("layer_norm", "layer_norm_backward", "softmax", "softmax_backward", "gelu")
    yield from _rows(large, dtype, (LARGEST_ROWS, 2048))
    yield from _gemms(dtype, [(384, 384, 64), (384, 64, 384)], kernel="batched_gemm", batch=24)
    yield spec("grouped_gemm", dtype, batch=8, m=96, n=1024, k=768)
    yield from _rows(("embedding", "embedding_backward"), dtype, (2048, 768))
    yield from _rows(("cross_entropy", "cross_entropy_backward"), dtype, (128, 32000))
    yield from (spec("adamw", dtype, parameters=n, implementation="foreach") for n in (10**6, 4 * 10**6))


def full(device: str, dtype: str, memory: float) -> Iterator[KernelSpec]:
    """The kernels that a GPU measures in five minutes."""
    yield from (spec("launch", dtype, mode=mode) for mode in ("eager", "graph"))
    largest = min(LARGEST_COPY, memory / 4)
    sizes = [s for s in (MIB // 4 << 2 * i for i in range(8)) if s <= largest] + [int(largest)]
    yield from _streamed(("copy", "read", "write", "add"), dtype, sizes[-3:])
    yield from _streamed(("copy",), dtype, sizes)
    yield from _transformer(dtype, (1024, 2048, 4096, 5120, 8192), (8192, 2048, 512, 16384), None, 32000)
    for direction in DIRECTIONS:
        yield from _long_attention(device, dtype, direction)
    yield from _rows(ROWWISE, dtype, (4096, 1024), (8192, 4096), (16384, 8192))
    yield from _large_products(dtype)
    for vocabulary in (32000, 128000):
        yield from _rows(("cross_entropy", "cross_entropy_backward"), dtype, (4096, vocabulary))
        yield from _rows(("embedding", "embedding_backward"), dtype, (8192, 4096), vocabulary=vocabulary)
    ways = ("foreach", "fused", "single") if device == "cuda" else ("foreach", "single")
    for n, way in product((10**6, 10**7, 10**8), ways):
        yield spec("adamw", dtype, parameters=n, implementation=way)


def _large_products(dtype: str) -> Iterator[KernelSpec]:
    """Products with one growing side, with sizes just beside round ones, flat ones, those of attention and experts."""
    wide, few = 4096, ((4096, 4096), (12288, 4096), (16384, 4096), (4096, 16384))
    off = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, -1, -1), (8, 8, 8))
    yield from _gemms(
        dtype,
        [(n, n, n) for n in (256, 512, 1024, 2048, 4096, 8192, 16384)],
        [(wide, wide, 32 << i) for i in range(10)],
        [(128 * i, wide, wide) for i in range(1, 21)],
        [(128 * i + d, wide, wide) for i in (4, 8) for d in (-64, 0, 64)],
        [(1 << i, *sides) for i in range(8) for sides in few],
        [(wide + d, wide + e, wide + f) for d, e, f in off],
    )
    for batch, s, d in ((64, 512, 64), (128, 2048, 128), (32, 4096, 128)):
        yield from _gemms(dtype, [(s, s, d), (s, d, s)], kernel="batched_gemm", batch=batch)
    for (experts, m), uneven in product(((8, 2048), (64, 256)), (False, True)):
        yield spec("grouped_gemm", dtype, batch=experts, m=m, n=4096, k=2048, uneven=uneven)


def fp8() -> Iterator[KernelSpec]:
    """Products in fp8 and the casts before them, for GPUs that multiply fp8."""
    for h, t in product((4096, 8192), (2048, 8192)):
        sides = ((3 * h, h), (h, h), (4 * h, h), (h, 4 * h))
        yield from _gemms("float8_e4m3fn", [(t, n, k) for n, k in sides], kernel="fp8_gemm")
        yield spec("fp8_cast", "bfloat16", rows=t, columns=h)


def collectives(ranks: int, device: str) -> Iterator[KernelSpec]:
    """Collectives of growing size between processes."""
    more = ("reduce_scatter", "all_to_all") if device == "cuda" else ()
    names = ("all_reduce", "all_gather", "broadcast", "send_receive", *more)
    for exponent, name in product(range(10, (22 if device == "cpu" else 30) + 1, 4), names):
        yield spec(name, "float32", bytes=1 << exponent, ranks=ranks)


def of_operators(operators: Iterable[Operator], dtype: str, attention: Parameters, gated: bool) -> list[KernelSpec]:
    """The kernels of a layer's operators, as they are measured here; operators without a kernel here are left out.

    `attention` gives batch, heads, key_value_heads, queries, keys, head_dimension and causal of the attention.
    """
    found = [made for o in operators for made in _of_operator(o, dtype, attention, gated)]
    return list(dict.fromkeys(found))


_LAYOUT_OF = {"forward": "TN", "input_gradient": "NN", "weight_gradient": "NT"}
_KINDS = {
    "contraction": "gemm",
    "output_head_contraction": "gemm",
    "batched_contraction": "batched_gemm",
    "grouped_contraction": "grouped_gemm",
}
_STREAMING_KINDS = {
    "attention_norm": "layer_norm", "feedforward_norm": "layer_norm", "cross_entropy": "cross_entropy", "softmax": "softmax",
    "activation_function": "gelu", "attention_residual": "add", "feedforward_residual": "add", "attention_dropout": "dropout",
    "rotary_positions": "copy", "head_permutation": "copy",
}  # fmt: skip


def _of_operator(o: Operator, dtype: str, attention: Parameters, gated: bool) -> Iterator[KernelSpec]:
    if not o.count:
        return
    m, n, k, batch = (max(1, round(v)) for v in (o.m, o.n, o.k, o.batch))
    if o.kind in _KINDS:
        yield spec(_KINDS[o.kind], dtype, m=m, n=n, k=k, batch=batch, layout=_LAYOUT_OF[o.phase])
    elif o.kind == "fused_attention":
        direction = "forward" if o.phase == "forward" else "backward"
        yield spec("attention", dtype, **attention, direction=direction)
    else:
        name = _streaming_kernel(o, gated)
        if name is not None:
            yield spec(name, dtype, rows=m, columns=n)


def _streaming_kernel(o: Operator, gated: bool) -> str | None:
    name = _STREAMING_KINDS.get(o.name)
    if o.name == "activation_function" and gated:
        return "swiglu" if o.phase == "forward" else None
    return f"{name}_backward" if o.phase != "forward" and f"{name}_backward" in FAMILIES else name


def _gemms(dtype: str, *shapes: Iterable[tuple[int, ...]], kernel: str = "gemm", **more: Any) -> Iterator[KernelSpec]:
    """Products of m × k with k × n."""
    yield from (spec(kernel, dtype, m=m, n=n, k=k, **more) for m, n, k in chain(*shapes))


def _rows(names: Sequence[str], dtype: str, *shapes: tuple[int, int], **more: Any) -> Iterator[KernelSpec]:
    """Kernels that work on rows of columns."""
    yield from (spec(name, dtype, rows=r, columns=c, **more) for r, c in shapes for name in names)


def _streamed(names: Sequence[str], dtype: str, sizes: Iterable[int]) -> Iterator[KernelSpec]:
    """Kernels over tensors with these numbers of bytes."""
    row = WIDE * (4 if dtype == "float32" else 2)
    return _rows(names, dtype, *((size // row, WIDE) for size in sizes))


def _transformer(
    dtype: str, hidden: Sequence[int], tokens: Sequence[int], inner: int | None, vocabulary: int
) -> Iterator[KernelSpec]:
    """The products of a layer (forward, and gradients of inputs and weights) and of the output head."""
    for t in tokens:
        for h in hidden:
            f = inner or 4 * h
            for n, k in ((3 * h, h), (h, h), (f, h), (h, f)):
                for layout, shape in (("TN", (t, n, k)), ("NN", (t, k, n)), ("NT", (n, k, t))):
                    yield from _gemms(dtype, [shape], layout=layout)
        yield from _gemms(dtype, [(t, vocabulary, hidden[0])])


def _long_attention(device: str, dtype: str, direction: str) -> Iterator[KernelSpec]:
    """Attention of different lengths with equally many tokens; then backends, few key heads, dropout, and one query."""

    def attention(heads: int = 32, head_dimension: int = 128, **sizes: Any) -> KernelSpec:
        return spec("attention", dtype, heads=heads, head_dimension=head_dimension, direction=direction, **sizes)

    for s, d, causal in product((512, 1024, 2048, 4096, 8192, 16384), (128, 64), (True, False)):
        yield attention(batch=max(1, 16384 // s), queries=s, head_dimension=d, causal=causal)
    backends = ("cudnn", "flash", "efficient", "math") if device == "cuda" else ("flash", "math")
    ways: list[Parameters] = [*({"backend": name} for name in backends), {"key_value_heads": 4}, {"dropout": 0.1}]
    yield from (attention(batch=4, queries=2048, **more) for more in ways)
    if direction == "forward":
        yield attention(batch=16, queries=1, keys=4096)
