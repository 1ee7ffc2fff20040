"""Measured kernels as records of the theory: the shapes of operators on one accelerator, with their measured times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import FileError
from amped.base.files import exists, files_below, is_file, is_folder
from amped.measured_kernels.attention import (
    attention_operator,
    peak_backward,
    peak_forward,
    prepared_bytes,
    training_backward,
    training_forward,
)
from amped.measured_kernels.bench_results import is_bench_result, read_bench_result, results_of
from amped.measured_kernels.kernel_files import SUFFIXES, read_kernels
from amped.measured_kernels.kinds import (
    KINDS,
    NAME_OF_KIND,
    OF_WEIGHTS,
    PRECISIONS,
    grouped_operators,
    layout_operator,
    product_operator,
    quantizing_time,
)
from amped.measured_kernels.latent_attention import expands, latent_attention_operator
from amped.measured_kernels.predictor import BYTES_PER_CYCLE, Array, floats, share_of_traffic, texts
from amped.measured_kernels.table_reading import WINDOW, MeasuredKernels
from amped.theory.nouns.records import Operator, TimedKernels

# The precisions of the tables by amped's names of them.
PRECISION_OF_FILE = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "nvfp4": "fp4"}
FORWARD, INPUT, WEIGHTS = "forward", "input_gradient", "weight_gradient"
# A product of these sides serves in all passes; a layout and a stage tell their pass.
LAYOUTS = {"TN": FORWARD, "NN": INPUT, "NT": WEIGHTS}
STAGES = {"fwd": FORWARD, "bwd_grad_act": INPUT, OF_WEIGHTS: WEIGHTS}
# A causal attention computes half of the scores.
CAUSAL_SHARE = 0.5
Part = tuple[tuple[str, ...], Operator, Any]


def _products(k: MeasuredKernels, cache: float) -> Iterator[Part]:
    yield (FORWARD, INPUT, WEIGHTS), product_operator(k.columns, PRECISIONS[k.precision][0], cache), True


def _layouts(k: MeasuredKernels, _: float) -> Iterator[Part]:
    made = layout_operator(k.columns)
    for layout, phase in LAYOUTS.items():
        yield (phase,), made, texts(k.columns["layout"]) == layout


def _groups(k: MeasuredKernels, _: float) -> Iterator[Part]:
    forward, gradient = grouped_operators(k.columns)
    for stage, phase in STAGES.items():
        yield (phase,), gradient if phase == WEIGHTS else forward, texts(k.columns["stage"]) == stage


def _attention(
    phase: str, made: Callable[[Mapping[str, Any]], Operator]
) -> Callable[[MeasuredKernels, float], Iterator[Part]]:
    """A function for a causal attention; one with a window is left out, because its keys are not those of its shape."""

    def parts(k: MeasuredKernels, _: float) -> Iterator[Part]:
        c = k.columns
        is_whole = (c[WINDOW] == 0) | (c[WINDOW] >= c["tokens"]) if WINDOW in c else True
        yield (phase,), made(c), is_whole & (texts(c.get("mask", "causal")) == "causal")

    return parts


def _latent(k: MeasuredKernels, _: float) -> Iterator[Part]:
    yield (FORWARD,), latent_attention_operator(k.columns), not expands(k.columns)


# The kinds whose kernels are operators of an estimate. A whole mixture layer, a dispatch and a collective are not.
PARTS: Mapping[str, Callable[[MeasuredKernels, float], Iterator[Part]]] = {
    "products": _products,
    "products_with_layout": _layouts,
    "grouped_products": _groups,
    "attention_forward": _attention(FORWARD, attention_operator),
    "latent_attention_forward": _latent,
    "training_attention_forward": _attention(FORWARD, training_forward),
    "training_attention_backward": _attention(INPUT, training_backward),
    "attention_forward_of_peak": _attention(FORWARD, peak_forward),
    "attention_backward_of_peak": _attention(INPUT, peak_backward),
}


def timed_kernels(
    path: Path,
    is_asked: Callable[[str], bool],
    cores: float = 1.0,
    frequency: float = float("inf"),
    cache: float = 0.0,
    bandwidth: float = 0.0,
) -> tuple[TimedKernels, ...]:
    """The measured kernels of an accelerator as records of the theory.

    Args:
        path: a table of amped's or of another tool, a result of `amped bench run`, or a folder of these.
        is_asked: whether a name in the tables is that of the accelerator.
        cores: the accelerator's cores; they tell how long a library takes to convert factors to narrow formats.
        frequency: the cycles of a core per second, for the same.
        cache: bytes of the cache that all cores share, in which benchmarks find bytes again.
        bandwidth: bytes per second of the memory; 0 if it is not known.

    Raises:
        FileError: if a file cannot be read or is no such table.
    """
    return tuple(
        _record(k, phases, made, rows, cores, frequency, cache if bandwidth else 0.0, bandwidth)
        for k in _read(path, _changed(path))
        if is_asked(k.accelerator) and k.precision in PRECISIONS and NAME_OF_KIND[id(k.kind)] in PARTS
        for phases, made, counts in PARTS[NAME_OF_KIND[id(k.kind)]](k, cache)
        if len(rows := np.flatnonzero(np.broadcast_to(counts, len(k))))
    )


@lru_cache(maxsize=4)
def _read(path: Path, changed: tuple[tuple[Path, int], ...]) -> list[MeasuredKernels]:
    """All kernels that a path names; `changed` tells when these last changed, so that they are read again."""
    del changed
    if is_folder(path):
        results = [kernels for file in results_of(path) for kernels in read_bench_result(file)]
        return [*results, *read_kernels(path, may_be_none=bool(results))]
    if not is_file(path) or path.suffix not in SUFFIXES:
        advice = f"name a file that ends in {', '.join(SUFFIXES)}, or a folder"
        raise FileError("is no table of measured kernels", advice, str(path))
    return read_bench_result(path) if is_bench_result(path) else read_kernels(path)


def _changed(path: Path) -> tuple[tuple[Path, int], ...]:
    """The files that a path names, with when each last changed; one that is gone meanwhile is left out."""
    files = files_below(path, *SUFFIXES) if is_folder(path) else [path]
    return tuple((file, file.stat().st_mtime_ns) for file in files if exists(file))


def _record(
    k: MeasuredKernels,
    phases: tuple[str, ...],
    made: Operator,
    rows: NDArray[np.int_],
    cores: float,
    frequency: float,
    cache: float,
    bandwidth: float,
) -> TimedKernels:
    """Some rows of kernels of one kind; of those that ran one shape, the fastest."""

    def column(value: Any) -> Array:
        return np.broadcast_to(floats(value), len(k))

    c, shape, entry = k.columns, made.mapped(column), PRECISIONS[k.precision][0]
    sides = np.stack([shape.m, shape.n, shape.k, shape.batch, shape.both_widths], axis=-1)
    place = _fastest(sides, k.times, rows)
    moved = prepared_bytes(c, entry) if k.kind is KINDS["attention_forward"] else 0.0
    from_memory = moved * share_of_traffic(made.bytes + moved, cache, bandwidth, cores * frequency * BYTES_PER_CYCLE)
    converting = quantizing_time(c, cores, frequency) if k.kind is KINDS["products"] else 0.0
    return TimedKernels(
        k.library, made.kind, phases, precision=PRECISION_OF_FILE.get(k.precision, k.precision),
        operator=shape.mapped(lambda values: values[place]), time=k.times[place], converting=column(converting)[place],
        prepared=column(from_memory)[place], share=CAUSAL_SHARE if made.kind == "fused_attention" else 1.0,
    )  # fmt: skip


def _fastest(sides: NDArray[np.float64], times: NDArray[np.float64], among: NDArray[np.int_]) -> NDArray[np.int_]:
    """For each different shape, the place of its least time."""
    order = among[np.argsort(times[among], kind="stable")]
    _, first = np.unique(sides[order], axis=0, return_index=True)
    return order[np.sort(first)]
