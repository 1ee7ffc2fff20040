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
from amped.measured_kernels.kinds import KINDS, PRECISIONS
from amped.measured_kernels.predictor import Array, Predictor
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
        mean_absolute_error_fraction, mean_signed_error_fraction: errors of the rows kept out, with both.
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
    """The errors of each library's kernels; one that cannot be predicted is returned with its reason."""
    tables = user_tables(lookup_tables)
    return [_errors(each, tables, lookup_tables) for each in kernels]


def _errors(own: MeasuredKernels, tables: Tables, lookup_tables: LookupTables) -> KernelErrors:
    name = next(name for name, kind in KINDS.items() if kind is own.kind)
    head = (own.accelerator, name, own.precision, own.library, len(own), int(own.kept_out.sum()))
    try:
        told = predicted(own, machine(own.accelerator, own.precision, tables, lookup_tables))
    except AmpedError as error:
        return KernelErrors(*head, reason=one_line(error))
    seen, kept = ~own.kept_out, own.kept_out
    if np.sum(seen) < FEWEST_SEEN or not kept.any():
        alone = float(np.mean(np.abs(told.law / own.times - 1)))
        return KernelErrors(*head, reason="too few rows to keep a fifth out", law_alone_error_fraction=alone)
    return compared(own, name, library(told.at(seen), own.times[seen]), told, kept)


def compared(own: MeasuredKernels, kind: str, of: Library, told: Predicted, asked: NDArray[np.bool_]) -> KernelErrors:
    """The errors of some kernels of a library, whose scale and fixed time are known.

    Args:
        own: the kernels.
        kind: the name of their kind.
        of: the scale and the fixed time of the library.
        told: what the law says of each kernel.
        asked: for each kernel, whether it counts; no fit may have seen those that do.
    """
    errors = of.time(told.at(asked)) / own.times[asked] - 1
    alone = told.law[asked] / own.times[asked] - 1
    scored = not any(name in own.library for name in FALLBACKS)
    head = (own.accelerator, kind, own.precision, own.library, len(own), int(asked.sum()))
    sizes = (float(np.mean(np.abs(errors))), float(np.mean(errors)), float(np.mean(np.abs(alone))))
    return KernelErrors(*head, of.scale, of.fixed, of.waits, *sizes, scored)


@dataclass(frozen=True)
class Predicted:
    """What the law says of some kernels.

    Attributes:
        law: the seconds of each kernel by the law alone.
        host: for each kernel, the factor on its library's fixed time.
    """

    law: Array
    host: Array

    def at(self, rows: NDArray[np.bool_]) -> Predicted:
        """The same of some of the kernels."""
        return Predicted(self.law[rows], self.host[rows])


def predicted(own: MeasuredKernels, of: Predictor) -> Predicted:
    """What the law says of each kernel."""
    both = (own.kind.time(own.columns, of), own.kind.host(own.columns, of))
    return Predicted(*(np.broadcast_to(np.asarray(each, dtype=np.float64), own.times.shape) for each in both))


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
        lookup_tables: the folder of the user's own tables.
        coefficients: values that replace those of the tables, in their canonical units.

    Raises:
        AmpedError: for an accelerator without a row, or a precision that it cannot multiply in.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"{quoted(precision)} is no precision of kernels", f"it is one of {', '.join(PRECISIONS)}")
    entry, settings = PRECISIONS[precision]
    asked = {"accelerator": tables.row(ACCELERATORS, accelerator).name, **settings, **SHORT_RUN, **(coefficients or {})}
    built = system_built_with(str(asked["accelerator"]), tables)
    scenario = read_scenario({}, asked | ({"system": built} if built else {}), lookup_tables)
    known = scenario.sources.given
    wanted = ("kernel_rates", "network") if built else ("kernel_rates",)
    found = run(plan(scenario.catalogue, wanted, scenario.sources), known)
    rates, *network = (found.cells[name][0][0] for name in wanted)
    columns = tables.row(ACCELERATORS, accelerator).columns
    cache = float(parse(columns["l2_cache"], "byte")) if "l2_cache" in columns else 0.0
    frequency, architecture = float(known.get("frequency", np.inf)), str(columns.get("architecture", ""))
    return Predictor(rates, entry, frequency, network[0] if network else None, cache, architecture)


@dataclass(frozen=True)
class Library:
    """How long a library takes, compared with the law: a factor, and a fixed time.

    Attributes:
        waits: whether the fixed time is the least time of a call, as the accelerator waits for the host; else it is
            added to the work.
    """

    scale: float
    fixed: float
    waits: bool = False

    def time(self, told: Predicted) -> Array:
        """The seconds that the library takes for kernels of which the law says this."""
        work, fixed = self.scale * told.law, self.fixed * told.host
        return np.maximum(work, fixed) if self.waits else work + fixed

    def error(self, told: Predicted, measured: Array) -> float:
        """The mean absolute logarithm of predicted over measured times."""
        return float(np.mean(np.abs(np.log(self.time(told) / measured))))


def library(told: Predicted, measured: Array, scale: float | None = None) -> Library:
    """Fits the fixed time and, if none is given, the scale of a library.

    The fit has the least mean absolute logarithm of predicted over measured times.

    For each of some fixed times, the scale is the median ratio of the remaining time to the law's time.
    """
    least = float((measured / told.host).min())
    found = [_beside(told, measured, share * least, scale) for share in BESIDE]
    found += [_waiting(told, measured, share * least, scale) for share in FLOORS]
    return min(found, key=lambda each: each.error(told, measured))


def _beside(told: Predicted, measured: Array, fixed: float, scale: float | None) -> Library:
    return Library(scale or float(np.exp(np.median(np.log((measured - fixed * told.host) / told.law)))), fixed)


def _waiting(told: Predicted, measured: Array, fixed: float, scale: float | None) -> Library:
    long = measured > 1.5 * fixed * told.host
    own = scale or (float(np.exp(np.median(np.log(measured[long] / told.law[long])))) if long.any() else 1.0)
    return Library(own, fixed, waits=True)


def by_kind(found: Sequence[KernelErrors]) -> Iterator[tuple[str, str, str, int, float]]:
    """Kind, precision, accelerator, number of rows kept out, and their mean error; that of all accelerators first."""
    told = [e for e in found if e.scored and e.mean_absolute_error_fraction is not None]
    for kind, precision in dict.fromkeys((e.kind, e.precision) for e in told):
        own = [e for e in told if (e.kind, e.precision) == (kind, precision)]
        for name in (EVERY, *dict.fromkeys(e.accelerator for e in own)):
            some = [e for e in own if name in (EVERY, e.accelerator)]
            rows = sum(e.kept_out for e in some)
            mean = sum(e.kept_out * (e.mean_absolute_error_fraction or 0.0) for e in some) / rows
            yield kind, precision, name, rows, mean
