"""Fits coefficients of accelerators to measured kernels, before any training step is used.

Products determine the cost of tiles, caches and stores (for all precisions at once), and the share of the peak that
each precision sustains. The fastest library of a precision counts as what the accelerator can do; each other library
has one scale and one fixed time. One shape of five is kept out of the fit (`table_reading.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amped.base.errors import ConfigError
from amped.base.files import shipped_json
from amped.base.version import __version__
from amped.calibration.fitting import Tell, optimizer, rounded
from amped.calibration.kernel_errors import Predicted, is_fallback, library, machine, predicted
from amped.calibration.written import as_text, columns_written
from amped.configuring.scenario import read_scenario
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.predictor import Array
from amped.measured_kernels.table_reading import MeasuredKernels
from amped.tables.table_files import ACCELERATORS, KERNELS, LookupTables
from amped.tables.tables import Tables
from amped.theory.language.catalogue import catalogue

# For each coefficient: its start, and the two bounds that it must stay between.
Bounds = Mapping[str, tuple[float, float, float]]


@dataclass(frozen=True)
class KernelFamily:
    """Measured kernels whose times depend on one set of coefficients.

    Attributes:
        kind: the kind of kernel, as the tables name it.
        shapes: the coefficients that all precisions share.
        sustained: for each precision, the coefficient for the share of the peak that its fastest library reaches.
        fixed: fixed values of other coefficients, whose effect the shapes cover.
    """

    kind: str
    shapes: Bounds
    sustained: Mapping[str, str]
    fixed: Mapping[str, float]

    def has(self, k: MeasuredKernels) -> bool:
        """Whether kernels are of this kind and of a precision that the family has."""
        return k.kind is KINDS[self.kind] and k.precision in self.sustained


FAMILIES = tuple(KernelFamily(**row) for row in shipped_json("calibration", "kernel_families.json"))
SHARE = (0.7, 0.02, 1.0)
# How strongly a coefficient is drawn to its start: one that is off by the factor e costs as much as an error of 20 % in one
# row. Only coefficients that the kernels leave open feel it.
DRAWN = 0.2
# Errors beyond this count linearly: a library may choose another kernel for a few shapes.
OUTLYING = 0.1
# Kernels in 16 bits tell the costs of shapes; those that convert their factors first tell little more than their own share.
WIDE, CONVERTED = "bfloat16", 0.3
MOST_STEPS, DIFFERENCE = 25, 0.02
DESCRIPTION = (
    "Coefficients fitted by `amped calibrate --kernels`: each row extends the one that served its accelerator."
)
# With fewer rows in the fit, the kernels of a library tell nothing.
FEWEST = 30


@dataclass(frozen=True)
class KernelFit:
    """The coefficients that were fitted to measured kernels of accelerators that share them.

    Attributes:
        accelerators, family: the accelerators, and the kind of the kernels.
        values: the coefficients, by their columns in kernel_efficiencies.
        rows: the number of rows in the fit.
        error_seen, error_kept_out: the mean absolute errors of these rows, and of those kept out.
        fastest: for each precision, the fastest library, which counts as what the accelerators can do.
    """

    accelerators: tuple[str, ...]
    family: str
    values: Mapping[str, float]
    rows: int
    error_seen: float
    error_kept_out: float
    fastest: Mapping[str, str]

    @property
    def told(self) -> str:
        """The fit in words: the number and the kind of its rows, and the errors."""
        error = f"mean error {self.error_seen:.1%} of those seen, {self.error_kept_out:.1%} of those kept out"
        return f"{self.rows} {self.family}, {error}"


def share_of_peak(name: str) -> tuple[float, float, float]:
    """Start, lowest and highest value of a coefficient that is a share of the peak.

    They are those of `SHARE`; the highest is not above the bound of the parameter itself.
    """
    start, low, high = SHARE
    bound = catalogue()[name].mark.at_most
    return start, low, high if bound is None else min(high, bound)


def fitted_each(
    kernels: Sequence[MeasuredKernels], tables: Tables, lookup_tables: LookupTables = None, tell: Tell = lambda _: None
) -> list[KernelFit]:
    """The coefficients of each family of kernels for each accelerator; accelerators with too few kernels are left out.

    Args:
        kernels: the measured kernels.
        tables: the lookup tables.
        lookup_tables: the user's own tables as paths.
        tell: takes lines of progress.

    Raises:
        ConfigError: if no accelerator has enough rows, or if scipy is not installed.
    """
    fits = [
        _Task(family, of_family, tables, lookup_tables).fitted(tell)
        for name in dict.fromkeys(k.accelerator for k in kernels)
        for family in FAMILIES
        if (of_family := [k for k in kernels if k.accelerator == name and _is_in_fit(k, family)])
    ]
    if not fits:
        kinds = " and ".join(family.kind for family in FAMILIES)
        raise ConfigError("the tables tell no coefficient", f"a fit needs {FEWEST} rows of a library, of {kinds}")
    return fits


def _is_in_fit(k: MeasuredKernels, family: KernelFamily) -> bool:
    """Whether the fit of a family uses these kernels: enough of its own kind, by a library that is no fallback."""
    return family.has(k) and bool(np.sum(~k.kept_out) >= FEWEST) and not is_fallback(k.library)


@dataclass(frozen=True)
class _Task:
    """A fit: one family of kernels on accelerators that share its coefficients."""

    family: KernelFamily
    kernels: Sequence[MeasuredKernels]
    tables: Tables
    lookup_tables: LookupTables

    def fitted(self, tell: Tell) -> KernelFit:
        """The most probable coefficients: robust least squares of the logarithms of predicted over measured times."""
        accelerators, rows = tuple(dict.fromkeys(k.accelerator for k in self.kernels)), len(self.weights)
        bounds = self.bounds
        start, low, high = np.log(np.array(list(bounds.values()))).T
        fastest = self.fastest(np.exp(start))
        tell(f"{self.family.kind} on {', '.join(accelerators)}: {len(bounds)} coefficients to {rows} rows")

        def residuals(logs: Array) -> Array:
            """The errors of the rows in the fit, and the distance of each coefficient from its start."""
            return np.concatenate([self.weights * self.errors(np.exp(logs), fastest), DRAWN * (logs - start)])

        solution = optimizer().least_squares(
            residuals, start, bounds=(low, high), loss="soft_l1", f_scale=OUTLYING,
            diff_step=DIFFERENCE, max_nfev=MOST_STEPS,
        )  # fmt: skip
        values = np.exp(solution.x)
        seen, kept_out = (
            float(np.mean(np.abs(np.expm1(self.errors(values, fastest, kept_out=is_kept_out)))))
            for is_kept_out in (False, True)
        )
        fitted = dict(zip(bounds, rounded(values, 3).tolist(), strict=True))
        return KernelFit(accelerators, self.family.kind, {**self.family.fixed, **fitted}, rows=rows,
                         error_seen=seen, error_kept_out=kept_out, fastest=fastest)  # fmt: skip

    @property
    def bounds(self) -> Bounds:
        """Start and bounds of the fitted coefficients: those of shapes, and a share of the peak for each precision."""
        precisions = dict.fromkeys(k.precision for k in self.kernels)
        shares = {name: share_of_peak(name) for p, name in self.family.sustained.items() if p in precisions}
        return {**self.family.shapes, **shares}

    @property
    def weights(self) -> Array:
        """The weight of each row in the fit, one library after another."""
        return np.concatenate(
            [np.full(np.sum(~k.kept_out), 1.0 if k.precision == WIDE else CONVERTED) for k in self.kernels]
        )

    def laws(self, values: Array) -> list[Predicted]:
        """The times of each library's kernels by the law.

        Args:
            values: the values of the fitted coefficients, in the order of `bounds`.
        """
        coefficients = {**self.family.fixed, **dict(zip(self.bounds, values.tolist(), strict=True))}
        machines = {
            key: machine(*key, self.tables, self.lookup_tables, coefficients)
            for key in dict.fromkeys((k.accelerator, k.precision) for k in self.kernels)
        }
        return [predicted(k, machines[k.accelerator, k.precision]) for k in self.kernels]

    def fastest(self, values: Array) -> dict[str, str]:
        """For each precision, the library with the smallest factor on the law's time, on average over all accelerators.

        Args:
            values: the values of the fitted coefficients, in the order of `bounds`.
        """
        scales: dict[tuple[str, str], list[float]] = {}
        for k, law in zip(self.kernels, self.laws(values), strict=True):
            seen = ~k.kept_out
            scales.setdefault((k.precision, k.library), []).append(library(law.at(seen), k.times[seen]).scale)
        fastest: dict[str, str] = {}
        for _, precision, name in sorted((float(np.mean(factors)), *key) for key, factors in scales.items()):
            fastest.setdefault(precision, name)
        return fastest

    def errors(self, values: Array, fastest: Mapping[str, str], kept_out: bool = False) -> Array:
        """Logarithms of predicted over measured times, one library after another.

        Args:
            values: the values of the fitted coefficients, in the order of `bounds`.
            fastest: for each precision, the library whose factor on the law's time is 1.
            kept_out: whether the rows are those kept out; else they are those in the fit.
        """
        errors = []
        for k, law in zip(self.kernels, self.laws(values), strict=True):
            seen = ~k.kept_out
            ran_by = library(law.at(seen), k.times[seen], 1.0 if fastest.get(k.precision) == k.library else None)
            rows = k.kept_out if kept_out else seen
            errors.append(np.log(ran_by.time(law.at(rows)) / k.times[rows]))
        return np.concatenate(errors)


def as_table(fits: Sequence[KernelFit], tables: Tables, folder: Path, lookup_tables: LookupTables = None) -> str:
    """The fits as the text of a file of kernel_efficiencies.

    The file has a row for each accelerator, which extends the row that the accelerator has used until now.
    """
    rows: dict[str, dict[str, Any]] = {}
    for fit in fits:
        for name in fit.accelerators:
            accelerator = tables.row(ACCELERATORS, name).name
            base = read_scenario({}, {"accelerator": accelerator}, lookup_tables).sources.rows[KERNELS].name
            row = rows.setdefault(accelerator, {"extends": base, "aliases": [], "sources": [], "unverified": []})
            row |= columns_written(fit.values)
            row["sources"].append(f"amped calibrate --kernels, amped {__version__}: {fit.told} of {folder.name}")
    return as_text({"table": KERNELS, "description": DESCRIPTION, "rows": rows})
