"""Measured kernels as records of the theory: the shapes of operators on one accelerator, with their measured times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import FileError
from amped.base.files import exists, files_below, is_file, is_folder
from amped.measured_kernels.attention import (
    attention_operator,
    peak_operator,
    prepared_bytes,
    training_operator,
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
from amped.measured_kernels.latent_attention import latent_attention_operator, without_expansion
from amped.measured_kernels.predictor import BYTES_PER_CYCLE, share_of_traffic
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


def _products(own: MeasuredKernels, cache: float) -> Iterator[Part]:
    yield (FORWARD, INPUT, WEIGHTS), product_operator(own.columns, PRECISIONS[own.precision][0], cache), _all(own)


def _layouts(own: MeasuredKernels, _: float) -> Iterator[Part]:
    made = layout_operator(own.columns)
    for layout, phase in LAYOUTS.items():
        yield (phase,), made, _where(own, "layout", layout)


def _groups(own: MeasuredKernels, _: float) -> Iterator[Part]:
    forward, weights = grouped_operators(own.columns)
    for stage, phase in STAGES.items():
        yield (phase,), weights if phase == WEIGHTS else forward, _where(own, "stage", stage)


def _attention(
    phase: str, made: Callable[[Mapping[str, Any]], Operator]
) -> Callable[[MeasuredKernels, float], Iterator[Part]]:
    """A function for a causal attention; one with a window is left out, because its keys are not those of its shape."""

    def parts(own: MeasuredKernels, _: float) -> Iterator[Part]:
        c = own.columns
        whole = (c[WINDOW] == 0) | (c[WINDOW] >= c["tokens"]) if WINDOW in c else _all(own)
        yield (phase,), made(c), whole & (c["mask"] == "causal") if "mask" in c else whole

    return parts


def _latent(own: MeasuredKernels, _: float) -> Iterator[Part]:
    yield (FORWARD,), latent_attention_operator(own.columns), without_expansion(own.columns)


# The kinds whose kernels are operators of an estimate. A whole mixture layer, a dispatch and a collective are not.
PARTS: Mapping[str, Callable[[MeasuredKernels, float], Iterator[Part]]] = {
    "products": _products,
    "products_with_layout": _layouts,
    "grouped_products": _groups,
    "attention_forward": _attention(FORWARD, attention_operator),
    "latent_attention_forward": _latent,
    "training_attention_forward": _attention(FORWARD, partial(training_operator, phase=FORWARD)),
    "training_attention_backward": _attention(INPUT, partial(training_operator, phase=INPUT)),
    "attention_forward_of_peak": _attention(FORWARD, partial(peak_operator, phase=FORWARD)),
    "attention_backward_of_peak": _attention(INPUT, partial(peak_operator, phase=INPUT)),
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
    found = [
        _record(own, phases, made, where, cores, frequency, cache if bandwidth else 0.0, bandwidth)
        for own in _read(path, _changed(path))
        if is_asked(own.accelerator) and own.precision in PRECISIONS and NAME_OF_KIND[id(own.kind)] in PARTS
        for phases, made, where in PARTS[NAME_OF_KIND[id(own.kind)]](own, cache)
        if np.any(where)
    ]
    return tuple(found)


@lru_cache(maxsize=4)
def _read(path: Path, changed: tuple[tuple[Path, int], ...]) -> list[MeasuredKernels]:
    """All kernels that a path names; `changed` tells when these last changed, so that they are read again."""
    del changed
    if is_folder(path):
        results = [kernels for each in results_of(path) for kernels in read_bench_result(each)]
        return [*results, *read_kernels(path, may_be_none=bool(results))]
    if not is_file(path) or path.suffix not in SUFFIXES:
        endings = ", ".join(SUFFIXES)
        raise FileError(
            "is no table of measured kernels", f"name a file that ends in {endings}, or a folder", str(path)
        )
    return read_bench_result(path) if is_bench_result(path) else read_kernels(path)


def _changed(path: Path) -> tuple[tuple[Path, int], ...]:
    """The files that a path names, with when each last changed; one that is gone meanwhile is left out."""
    files = files_below(path, *SUFFIXES) if is_folder(path) else [path]
    return tuple((each, each.stat().st_mtime_ns) for each in files if exists(each))


def _record(
    own: MeasuredKernels,
    phases: tuple[str, ...],
    made: Operator,
    where: Any,
    cores: float,
    frequency: float,
    cache: float,
    bandwidth: float,
) -> TimedKernels:
    """Kernels of one kind; of those that ran one shape, the fastest."""
    count = len(own)
    whole = made.mapped(lambda value: np.broadcast_to(np.asarray(value, dtype=np.float64), count))
    sides = np.stack([whole.m, whole.n, whole.k, whole.batch, whole.both_widths], axis=-1)
    place = _fastest(sides, own.times, np.flatnonzero(where))
    converting = (
        quantizing_time(own.columns, cores, frequency) if "software" in own.columns and "m" in own.columns else 0.0
    )
    spent = np.broadcast_to(np.asarray(converting, dtype=np.float64), count)[place]
    precision = PRECISION_OF_FILE.get(own.precision, own.precision)
    moved = prepared_bytes(own.columns, PRECISIONS[own.precision][0]) if own.kind is KINDS["attention_forward"] else 0.0
    from_memory = moved * share_of_traffic(made.bytes + moved, cache, bandwidth, cores * frequency * BYTES_PER_CYCLE)
    prepared = np.broadcast_to(np.asarray(from_memory, dtype=np.float64), count)
    share = CAUSAL_SHARE if made.kind == "fused_attention" else 1.0
    at_place = whole.mapped(lambda v: v[place])
    return TimedKernels(
        own.library, made.kind, phases, precision, at_place, own.times[place], spent, prepared[place], share
    )


def _fastest(sides: NDArray[np.float64], times: NDArray[np.float64], among: NDArray[np.int_]) -> NDArray[np.int_]:
    """For each different shape, the place of its least time."""
    order = among[np.argsort(times[among], kind="stable")]
    _, first = np.unique(sides[order], axis=0, return_index=True)
    return order[np.sort(first)]


def _all(own: MeasuredKernels) -> NDArray[np.bool_]:
    return np.ones(len(own), dtype=np.bool_)


def _where(own: MeasuredKernels, column: str, text: str) -> NDArray[np.bool_]:
    return np.array([str(value) == text for value in own.columns[column]])
