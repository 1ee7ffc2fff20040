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
    product_operator,
    product_with_accumulation,
    quantizing_time,
)
from amped.measured_kernels.latent_attention import has_expansion, latent_attention_operator
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
# The passes that some rows of measured kernels serve, the operator of all rows, and for each row whether it is meant.
Part = tuple[tuple[str, ...], Operator, Any]


def _products(k: MeasuredKernels, cache: float) -> Iterator[Part]:
    """Products, which serve in all passes."""
    yield (FORWARD, INPUT, WEIGHTS), product_operator(k.columns, PRECISIONS[k.precision][0], cache), True


def _layouts(k: MeasuredKernels, _: float) -> Iterator[Part]:
    """For each layout, the products that have it, with its pass."""
    product = product_with_accumulation(k.columns)
    for layout, phase in LAYOUTS.items():
        yield (phase,), product, texts(k.columns["layout"]) == layout


def _groups(k: MeasuredKernels, _: float) -> Iterator[Part]:
    """For each stage, the grouped products that have it, with its pass."""
    forward, gradient = grouped_operators(k.columns)
    for stage, phase in STAGES.items():
        yield (phase,), gradient if phase == WEIGHTS else forward, texts(k.columns["stage"]) == stage


def _attention(
    phase: str, operator_of: Callable[[Mapping[str, Any]], Operator]
) -> Callable[[MeasuredKernels, float], Iterator[Part]]:
    """A function for the causal attentions among some rows.

    Attentions with a window are left out, because their keys are not those of their shape.

    Args:
        phase: the pass.
        operator_of: gives the operator of the rows.
    """

    def parts(k: MeasuredKernels, _: float) -> Iterator[Part]:
        columns = k.columns
        is_whole = (columns[WINDOW] == 0) | (columns[WINDOW] >= columns["tokens"]) if WINDOW in columns else True
        yield (phase,), operator_of(columns), is_whole & (texts(columns.get("mask", "causal")) == "causal")

    return parts


def _latent(k: MeasuredKernels, _: float) -> Iterator[Part]:
    """Latent attentions; those with an expansion are left out: they do more than the operator of an estimate."""
    yield (FORWARD,), latent_attention_operator(k.columns), not has_expansion(k.columns)


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
        is_asked: tells whether a name in the tables is that of the accelerator.
        cores: the accelerator's cores; they tell how long a library takes to convert factors to narrow formats.
        frequency: the cycles of a core per second, for the same.
        cache: bytes of the cache that all cores share, in which benchmarks find bytes again.
        bandwidth: bytes per second of the memory; 0 if it is not known.

    Raises:
        FileError: if a file cannot be read or is no such table.
    """
    return tuple(
        _record(k, phases, operator, rows, cores, frequency, cache if bandwidth else 0.0, bandwidth)
        for k in _read(path, _changed(path))
        if is_asked(k.accelerator) and k.precision in PRECISIONS and NAME_OF_KIND[id(k.kind)] in PARTS
        for phases, operator, is_part in PARTS[NAME_OF_KIND[id(k.kind)]](k, cache)
        if len(rows := np.flatnonzero(np.broadcast_to(is_part, len(k))))
    )


@lru_cache(maxsize=4)
def _read(path: Path, changed: tuple[tuple[Path, int], ...]) -> list[MeasuredKernels]:
    """All measured kernels of a file, or of a folder and the folders in it.

    Args:
        path: the file or the folder.
        changed: the files with the times of their last changes, so that changed files are read again.

    Raises:
        FileError: if a file cannot be read or is no table of measured kernels.
    """
    del changed
    if is_folder(path):
        results = [kernels for file in results_of(path) for kernels in read_bench_result(file)]
        return [*results, *read_kernels(path, may_be_none=bool(results))]
    if not is_file(path) or path.suffix not in SUFFIXES:
        advice = f"name a file that ends in {', '.join(SUFFIXES)}, or a folder"
        raise FileError("is no table of measured kernels", advice, str(path))
    return read_bench_result(path) if is_bench_result(path) else read_kernels(path)


def _changed(path: Path) -> tuple[tuple[Path, int], ...]:
    """The files that a path names, each with the time of its last change in ns; a file that is gone is left out."""
    files = files_below(path, *SUFFIXES) if is_folder(path) else [path]
    return tuple((file, file.stat().st_mtime_ns) for file in files if exists(file))


def _record(
    k: MeasuredKernels,
    phases: tuple[str, ...],
    operator: Operator,
    rows: NDArray[np.int_],
    cores: float,
    frequency: float,
    cache: float,
    bandwidth: float,
) -> TimedKernels:
    """The record of some rows (their places) of measured kernels; of rows with one shape, the fastest.

    The operator has the shapes of all kernels. The sizes of the accelerator are those of `timed_kernels`.
    """

    def column(value: Any) -> Array:
        """The value of each kernel."""
        return np.broadcast_to(floats(value), len(k))

    columns, shape, entry = k.columns, operator.mapped(column), PRECISIONS[k.precision][0]
    sides = np.stack([shape.m, shape.n, shape.k, shape.batch, shape.both_widths], axis=-1)
    place = _fastest(sides, k.times, rows)
    moved = prepared_bytes(columns, entry) if k.kind is KINDS["attention_forward"] else 0.0
    from_memory = moved * share_of_traffic(
        operator.bytes + moved, cache, bandwidth, cores * frequency * BYTES_PER_CYCLE
    )
    converting = quantizing_time(columns, cores, frequency) if k.kind is KINDS["products"] else 0.0
    return TimedKernels(
        k.library, operator.kind, phases, precision=PRECISION_OF_FILE.get(k.precision, k.precision),
        operator=shape.mapped(lambda values: values[place]), time=k.times[place], converting=column(converting)[place],
        prepared=column(from_memory)[place], share=CAUSAL_SHARE if operator.kind == "fused_attention" else 1.0,
    )  # fmt: skip


def _fastest(sides: NDArray[np.float64], times: NDArray[np.float64], places: NDArray[np.int_]) -> NDArray[np.int_]:
    """For each different shape, the place of its least time.

    Args:
        sides: the sizes of each kernel, a row for each kernel.
        times: the time of each kernel.
        places: the places that are looked at.
    """
    order = places[np.argsort(times[places], kind="stable")]
    _, first = np.unique(sides[order], axis=0, return_index=True)
    return order[np.sort(first)]
