"""The errors of the laws of single kernels, for each accelerator, kind of kernel, precision and library.

The library that ran a kernel is an input: each library has one scale and one fixed time, fitted to four shapes of five.
The errors are those of the fifth shape, which no fit has seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import AmpedError, ConfigError, one_line, quoted
from amped.base.units import parse
from amped.configuring.scenario import read_scenario
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.measured_kernels.kinds import NAME_OF_KIND, PRECISIONS
from amped.measured_kernels.predictor import Array, Predictor, floats
from amped.measured_kernels.table_reading import MeasuredKernels
from amped.tables.table_files import ACCELERATORS, LookupTables
from amped.tables.tables import Tables, system_built_with, user_tables

# A benchmark of kernels is short, so that the clock has not fallen; and no accelerator waits for another one.
SHORT_RUN = {"training_clock_fraction": 1.0, "clock_spread_fraction": 0.0, "number_of_accelerators": 1.0}
# The fixed times that are tried, as shares of the shortest measured time. BESIDE: a time in addition to the work, from
# zero to nearly all of it. FLOORS: a least time of a call, from all of it to somewhat more.
BESIDE, FLOORS = np.concatenate([[0.0], np.linspace(0.03, 0.98, 39)]), np.linspace(1.0, 1.2, 9)
# With fewer rows, a scale and a fixed time would repeat them.
FEWEST_SEEN = 4
# The text that stands for the accelerator's name in a mean over all accelerators.
EVERY = "all"
# Kernels that replace one that a library does not have for the accelerator: they are listed, but not scored.
FALLBACKS = ("TritonFp8BlockScaledMMKernel",)


@dataclass(frozen=True)
class KernelErrors:
    """The errors of the kernels of one library.

    Attributes:
        accelerator, kind, precision, library: what was run.
        rows, kept_out: the number of measurements, and how many of them no fit has seen.
        scale, fixed_time: the factor on the law's time that the library needs, and its fixed time in seconds.
        fixed_time_is_least: whether the fixed time is the least time of a call; else it is added to the work.
        mean_absolute_error_fraction, mean_signed_error_fraction: errors of the rows kept out, with scale
            and fixed time.
        law_alone_error_fraction: mean absolute error of the rows kept out, without scale and fixed time.
        scored: whether the library counts in means; a fallback does not.
        reason: why there is no prediction, or none but that of the law alone.
    """

    accelerator: str
    kind: str
    precision: str
    library: str
    rows: int
    kept_out: int
    scale: float = 1.0
    fixed_time: float = 0.0
    fixed_time_is_least: bool = False
    mean_absolute_error_fraction: float | None = None
    mean_signed_error_fraction: float | None = None
    law_alone_error_fraction: float | None = None
    scored: bool = True
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The errors as plain data for JSON."""
        return asdict(self)


def kernel_errors(kernels: Sequence[MeasuredKernels], lookup_tables: LookupTables = None) -> list[KernelErrors]:
    """The errors of each library's kernels; for a library that cannot be predicted, the reason instead."""
    tables = user_tables(lookup_tables)
    return [_errors(k, tables, lookup_tables) for k in kernels]


def _errors(k: MeasuredKernels, tables: Tables, lookup_tables: LookupTables) -> KernelErrors:
    """The errors of one library on the shapes that no fit has seen, or the reason why there are none."""
    try:
        prediction = predicted(k, machine(k.accelerator, k.precision, tables, lookup_tables))
    except AmpedError as error:
        return _record(k, k.kept_out, reason=one_line(error))
    if np.sum(~k.kept_out) < FEWEST_SEEN or not k.kept_out.any():
        alone = float(np.mean(np.abs(prediction.law / k.times - 1)))
        return _record(k, k.kept_out, reason="too few rows to keep a fifth out", law_alone_error_fraction=alone)
    return compared(k, library(prediction.at(~k.kept_out), k.times[~k.kept_out]), prediction, k.kept_out)


def compared(k: MeasuredKernels, ran_by: Library, prediction: Predicted, rows: NDArray[np.bool_]) -> KernelErrors:
    """The errors of some kernels of a library, whose scale and fixed time are known.

    Args:
        k: the kernels.
        ran_by: the scale and the fixed time of the library.
        prediction: the times of the kernels by the law.
        rows: for each kernel, whether it counts; a kernel that counts has been seen by no fit.
    """
    errors = ran_by.time(prediction.at(rows)) / k.times[rows] - 1
    return _record(
        k, rows, scale=ran_by.scale, fixed_time=ran_by.fixed, fixed_time_is_least=ran_by.waits, scored=not is_fallback(k.library),
        mean_absolute_error_fraction=float(np.mean(np.abs(errors))), mean_signed_error_fraction=float(np.mean(errors)),
        law_alone_error_fraction=float(np.mean(np.abs(prediction.law[rows] / k.times[rows] - 1))),
    )  # fmt: skip


def _record(k: MeasuredKernels, kept_out: NDArray[np.bool_], **errors: Any) -> KernelErrors:
    """A record of the errors of some kernels, with what ran them.

    Args:
        k: the kernels.
        kept_out: for each kernel, whether no fit has seen it.
        errors: further fields of the record.
    """
    kind, number = NAME_OF_KIND[id(k.kind)], int(kept_out.sum())
    return KernelErrors(k.accelerator, kind, k.precision, k.library, rows=len(k), kept_out=number, **errors)


def is_fallback(name: str) -> bool:
    """Whether a library is only a replacement for kernels that another library does not have."""
    return any(fallback in name for fallback in FALLBACKS)


@dataclass(frozen=True)
class Predicted:
    """The times of some kernels by the law of their kind.

    Attributes:
        law: the seconds of each kernel by the law alone.
        host: for each kernel, the factor on its library's fixed time.
    """

    law: Array
    host: Array

    def at(self, rows: NDArray[np.bool_]) -> Predicted:
        """The times of those kernels for which `rows` is true."""
        return Predicted(self.law[rows], self.host[rows])


def predicted(k: MeasuredKernels, predictor: Predictor) -> Predicted:
    """The times of the kernels by the law of their kind."""
    law, host = k.kind.time(k.columns, predictor), k.kind.host(k.columns, predictor)
    return Predicted(*(np.broadcast_to(floats(column), len(k)) for column in (law, host)))


def machine(
    accelerator: str,
    precision: str,
    tables: Tables,
    lookup_tables: LookupTables = None,
    coefficients: Mapping[str, float] | None = None,
) -> Predictor:
    """The rates that predict the kernels of an accelerator, from the formulas and tables of estimates.

    Args:
        accelerator: the name in the tables of kernels.
        precision: the format of the factors, by its name in the tables of kernels.
        tables: the lookup tables.
        lookup_tables: the user's own tables as paths.
        coefficients: values that replace those of the tables, in their canonical units.

    Raises:
        AmpedError: for an accelerator without a row, or a precision in which the accelerator cannot multiply.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"{quoted(precision)} is no precision of kernels", f"it is one of {', '.join(PRECISIONS)}")
    entry, precision_settings = PRECISIONS[precision]
    row, names = tables.row(ACCELERATORS, accelerator), ["kernel_rates"]
    settings = {"accelerator": row.name, **precision_settings, **SHORT_RUN, **(coefficients or {})}
    if system := system_built_with(row.name, tables):
        settings["system"] = system
        names.append("network")
    scenario = read_scenario({}, settings, lookup_tables)
    results = run(plan(scenario.catalogue, names, scenario.sources), scenario.sources.given)
    rates, *network = (results.cells[name][0][0] for name in names)
    return Predictor(
        rates, entry, frequency=float(scenario.sources.given.get("frequency", np.inf)), network=network[0] if network else None,
        cache=float(parse(row.columns.get("l2_cache", 0.0), "byte")), architecture=str(row.columns.get("architecture", "")),
        host_time_factor=float(row.columns.get("host_time_factor", 1.0)),
    )  # fmt: skip


@dataclass(frozen=True)
class Library:
    """How long a library takes, compared with the law: a factor, and a fixed time.

    Attributes:
        scale: the factor on the law's time.
        fixed: the fixed time in seconds.
        waits: whether the fixed time is the least time of a call, as the accelerator waits for the host; else it is
            added to the work.
    """

    scale: float
    fixed: float
    waits: bool = False

    def time(self, prediction: Predicted) -> Array:
        """The seconds that the library takes for kernels, from their times by the law."""
        work, fixed = self.scale * prediction.law, self.fixed * prediction.host
        return np.maximum(work, fixed) if self.waits else work + fixed

    def error(self, prediction: Predicted, measured: Array) -> float:
        """The mean absolute logarithm of predicted over measured times."""
        return float(np.mean(np.abs(np.log(self.time(prediction) / measured))))


def library(prediction: Predicted, measured: Array, scale: float | None = None) -> Library:
    """Fits the fixed time and, if none is given, the scale of a library.

    For each of some fixed times, the scale is the median ratio of the remaining time to the law's time. The pair with
    the least mean absolute logarithm of predicted over measured times is returned.

    Args:
        prediction: the times of the library's kernels by the law.
        measured: their measured seconds.
        scale: a given scale.
    """
    law, host = prediction.law, prediction.host
    shortest = float((measured / host).min())
    libraries = [
        Library(scale or _median((measured - fixed * host) / law), fixed) for fixed in (shortest * BESIDE).tolist()
    ]
    for fixed in (shortest * FLOORS).tolist():
        is_long = measured > 1.5 * fixed * host
        libraries.append(Library(scale or _median((measured / law)[is_long]), fixed, waits=True))
    return min(libraries, key=lambda library: library.error(prediction, measured))


def _median(ratios: Array) -> float:
    """The median of ratios, where two in the middle have their geometric mean; 1 if there are none."""
    return float(np.exp(np.median(np.log(ratios)))) if len(ratios) else 1.0


def by_kind(errors_of_libraries: Sequence[KernelErrors]) -> Iterator[tuple[str, str, str, int, float]]:
    """The mean errors of kernels by their kind and precision: first of all accelerators, then of each accelerator.

    Yields:
        Kind, precision, accelerator (`EVERY` for all), number of rows kept out, and their mean absolute error.
    """
    groups: dict[tuple[str, str], dict[str, list[tuple[int, float]]]] = {}
    for record in errors_of_libraries:
        if record.scored and record.mean_absolute_error_fraction is not None:
            by_accelerator = groups.setdefault((record.kind, record.precision), {EVERY: []})
            for name in (EVERY, record.accelerator):
                by_accelerator.setdefault(name, []).append((record.kept_out, record.mean_absolute_error_fraction))
    for (kind, precision), by_accelerator in groups.items():
        for name, errors in by_accelerator.items():
            rows = sum(number for number, _ in errors)
            yield kind, precision, name, rows, sum(number * error for number, error in errors) / rows
