"""Lists of kernels to measure: what tells most of a machine first, so that a short budget still gives a calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from amped.base.errors import ConfigError, did_you_mean
from amped.kernels.specs import KernelSpec, spec
from amped.theory.records import Operator

SUITES = ("quick", "full", "model")
LAYOUTS = ("TN", "NN", "NT")
MIB = 1 << 20
# Columns of the matrices that streaming kernels pass over.
WIDE = 1024
LARGEST_COPY = 8 << 30
# Rows of the largest tensors of the quick suite, 24 MiB: those of 32 MiB a C library fetches from the system anew in each call,
# and how fast depends on what else has fetched some.
LARGEST_ROWS = 3072


def suite(name: str, device: str, dtype: str, memory: float) -> list[KernelSpec]:
    """The kernels of a suite in the order in which they are measured.

    Raises:
        ConfigError: for an unknown suite.
    """
    if name not in SUITES:
        raise ConfigError(f"there is no suite {name!r}", did_you_mean(name, SUITES) or f"there are {', '.join(SUITES)}")
    made = quick(dtype) if name == "quick" else full(device, dtype, memory)
    return list({each.key: each for each in made}.values())


def quick(dtype: str) -> Iterator[KernelSpec]:
    """What a processor measures in half a minute."""
    yield spec("launch", dtype)
    for size in (MIB // 4, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB):
        yield _streamed("copy", dtype, size)
    yield from (_streamed(name, dtype, 64 * MIB) for name in ("read", "write", "add"))
    yield from _transformer(dtype, (768,), (384,), 3072, 8192)
    yield from (_gemm(dtype, n, n, n) for n in (128, 256, 512, 1024))
    yield from (_gemm(dtype, 512, 512, k) for k in (64, 128, 256, 1024, 2048))
    yield from (_gemm(dtype, m, 2048, 2048) for m in (1, 16, 64))
    yield from (_gemm(dtype, *odd) for odd in ((129, 257, 513), (100, 1000, 1000), (255, 768, 770)))
    yield from _attention(dtype, ((4, 128), (2, 256), (1, 512), (1, 1024)), heads=12, head_dimension=64)
    yield from _rowwise(dtype, ((512, 768), (2048, 1024)))
    large = ("layer_norm", "layer_norm_backward", "softmax", "softmax_backward", "gelu")
    yield from (spec(name, dtype, rows=LARGEST_ROWS, columns=2048) for name in large)
    for shape in ((384, 384, 64), (384, 64, 384)):
        yield spec("batched_gemm", dtype, batch=24, m=shape[0], n=shape[1], k=shape[2])
    yield spec("grouped_gemm", dtype, batch=8, m=96, n=1024, k=768)
    yield spec("embedding", dtype, rows=2048, columns=768)
    yield spec("embedding_backward", dtype, rows=2048, columns=768)
    yield from (spec(name, dtype, rows=128, columns=32000) for name in ("cross_entropy", "cross_entropy_backward"))
    yield from (spec("adamw", dtype, parameters=n, implementation="foreach") for n in (10**6, 4 * 10**6))


def full(device: str, dtype: str, memory: float) -> Iterator[KernelSpec]:
    """What a GPU measures in five minutes."""
    yield from (spec("launch", dtype, mode=mode) for mode in ("eager", "graph"))
    largest = min(LARGEST_COPY, memory / 4)
    sizes = [s for s in (MIB // 4 * 4**i for i in range(8)) if s <= largest] + [int(largest)]
    yield from (_streamed(name, dtype, size) for name in ("copy", "read", "write", "add") for size in sizes[-3:])
    yield from (_streamed("copy", dtype, size) for size in sizes)
    yield from _transformer(dtype, (1024, 2048, 4096, 5120, 8192), (8192, 2048, 512, 16384), None, 32000)
    for direction in ("forward", "backward"):
        yield from _long_attention(device, dtype, direction)
    yield from _rowwise(dtype, ((4096, 1024), (8192, 4096), (16384, 8192)))
    yield from (_gemm(dtype, n, n, n) for n in (256, 512, 1024, 2048, 4096, 8192, 16384))
    yield from (_gemm(dtype, 4096, 4096, 32 << i) for i in range(10))
    yield from (_gemm(dtype, 128 * i, 4096, 4096) for i in range(1, 21))
    yield from (_gemm(dtype, 128 * i + d, 4096, 4096) for i in (4, 8) for d in (-64, 0, 64))
    for m in (1, 2, 4, 8, 16, 32, 64, 128):
        yield from (
            _gemm(dtype, m, n, k) for n, k in ((4096, 4096), (12288, 4096), (16384, 4096), (4096, 16384))
        )  # fmt: skip
    yield from (
        _gemm(dtype, 4096 + d, 4096 + e, 4096 + f)
        for d, e, f in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, -1, -1), (8, 8, 8))
    )
    for batch, s, d in ((64, 512, 64), (128, 2048, 128), (32, 4096, 128)):
        yield spec("batched_gemm", dtype, batch=batch, m=s, n=s, k=d)
        yield spec("batched_gemm", dtype, batch=batch, m=s, n=d, k=s)
    for experts, m in ((8, 2048), (64, 256)):
        yield from (spec("grouped_gemm", dtype, batch=experts, m=m, n=4096, k=2048, uneven=u) for u in (False, True))
    for vocabulary in (32000, 128000):
        names = ("cross_entropy", "cross_entropy_backward")
        yield from (spec(name, dtype, rows=4096, columns=vocabulary) for name in names)
        yield from (
            spec(name, dtype, rows=8192, columns=4096, vocabulary=vocabulary)
            for name in ("embedding", "embedding_backward")
        )
    ways = ("foreach", "fused", "single") if device == "cuda" else ("foreach", "single")
    yield from (spec("adamw", dtype, parameters=n, implementation=way) for n in (10**6, 10**7, 10**8) for way in ways)


def fp8(hidden: Sequence[int] = (4096, 8192), tokens: Sequence[int] = (2048, 8192)) -> Iterator[KernelSpec]:
    """Products in fp8, and the casts before them; for GPUs that multiply it."""
    for h in hidden:
        for t in tokens:
            yield from (
                spec("fp8_gemm", "float8_e4m3fn", m=t, n=n, k=k)
                for n, k in ((3 * h, h), (h, h), (4 * h, h), (h, 4 * h))
            )
            yield spec("fp8_cast", "bfloat16", rows=t, columns=h)


def collectives(ranks: int, device: str) -> Iterator[KernelSpec]:
    """Communications of growing size between processes."""
    largest = 22 if device == "cpu" else 30
    for exponent in range(10, largest + 1, 4):
        names = ("all_reduce", "all_gather", "broadcast", "send_receive")
        more = ("reduce_scatter", "all_to_all") if device == "cuda" else ()
        yield from (spec(name, "float32", bytes=1 << exponent, ranks=ranks) for name in (*names, *more))


def of_operators(operators: Iterable[Operator], dtype: str, attention: dict[str, Any], gated: bool) -> list[KernelSpec]:
    """The kernels of a layer that amped lists, each as it is measured here; what has no kernel here is left out.

    `attention` has the batch, heads, key_value_heads, queries, keys, head_dimension and causal of its attention.
    """
    found = [made for o in operators for made in _of_operator(o, dtype, attention, gated)]
    return list({each.key: each for each in found}.values())


_LAYOUT_OF = {"forward": "TN", "input_gradient": "NN", "weight_gradient": "NT"}
_KINDS = {
    "contraction": "gemm",
    "output_head_contraction": "gemm",
    "batched_contraction": "batched_gemm",
    "grouped_contraction": "grouped_gemm",
}


def _of_operator(o: Operator, dtype: str, attention: dict[str, Any], gated: bool) -> Iterator[KernelSpec]:
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
    backward = "" if o.phase == "forward" else "_backward"
    if o.name in ("attention_norm", "feedforward_norm"):
        return f"layer_norm{backward}"
    if o.name == "cross_entropy":
        return f"cross_entropy{backward}"
    if o.name == "softmax":
        return f"softmax{backward}"
    if o.name == "activation_function":
        return "swiglu" if gated and not backward else None if gated else f"gelu{backward}"
    if o.name.endswith("_residual"):
        return "add"
    if o.name == "attention_dropout":
        return "dropout"
    return "copy" if o.name in ("rotary_positions", "head_permutation") else None


def _gemm(dtype: str, m: int, n: int, k: int, layout: str = "TN") -> KernelSpec:
    return spec("gemm", dtype, m=m, n=n, k=k, layout=layout)


def _streamed(name: str, dtype: str, size: int) -> KernelSpec:
    """A streaming kernel over a tensor of `size` bytes."""
    width = {"float32": 4}.get(dtype, 2)
    return spec(name, dtype, rows=size // (WIDE * width), columns=WIDE)


def _transformer(
    dtype: str, hidden: Sequence[int], tokens: Sequence[int], inner: int | None, vocabulary: int
) -> Iterator[KernelSpec]:
    """Products of a layer: forward, and the gradients of inputs and weights; and the output head."""
    for t in tokens:
        for h in hidden:
            f = inner or 4 * h
            for n, k in ((3 * h, h), (h, h), (f, h), (h, f)):
                shapes = {"TN": (t, n, k), "NN": (t, k, n), "NT": (n, k, t)}
                yield from (_gemm(dtype, *shapes[layout], layout) for layout in LAYOUTS)
        yield _gemm(dtype, t, vocabulary, hidden[0])


def _attention(dtype: str, sizes: Sequence[tuple[int, int]], heads: int, head_dimension: int) -> Iterator[KernelSpec]:
    for direction in ("forward", "backward"):
        for batch, s in sizes:
            yield spec("attention", dtype, batch=batch, heads=heads, queries=s, head_dimension=head_dimension,
                       direction=direction)  # fmt: skip


def _long_attention(device: str, dtype: str, direction: str) -> Iterator[KernelSpec]:
    """Lengths at a constant number of tokens; then backends, few key heads, dropout, and one query."""
    more: dict[str, Any] = {"direction": direction}
    for s in (512, 1024, 2048, 4096, 8192, 16384):
        for d, heads in ((128, 32), (64, 32)):
            yield from (
                spec(
                    "attention",
                    dtype,
                    batch=max(1, 16384 // s),
                    heads=heads,
                    queries=s,
                    head_dimension=d,
                    causal=c,
                    **more,
                )
                for c in (True, False)
            )
    shape: dict[str, Any] = {"batch": 4, "heads": 32, "queries": 2048, "head_dimension": 128, **more}
    backends = ("cudnn", "flash", "efficient", "math") if device == "cuda" else ("flash", "math")
    yield from (spec("attention", dtype, backend=backend, **shape) for backend in backends)
    yield spec("attention", dtype, key_value_heads=4, **shape)
    yield spec("attention", dtype, dropout=0.1, **shape)
    if direction == "forward":
        yield spec("attention", dtype, batch=16, heads=32, queries=1, keys=4096, head_dimension=128)


def _rowwise(dtype: str, shapes: Sequence[tuple[int, int]]) -> Iterator[KernelSpec]:
    names = ("layer_norm", "layer_norm_backward", "softmax", "softmax_backward", "rms_norm", "rms_norm_backward", "gelu",
             "gelu_backward", "swiglu", "dropout", "bias_gelu_dropout")  # fmt: skip
    yield from (spec(name, dtype, rows=r, columns=c) for r, c in shapes for name in names)
