"""Kernels of an accelerator that no fit has seen: predicted from its datasheet, and from kernels of its kin.

The kin of an accelerator are the measured accelerators of its generation; if there are none, all the others. Its
coefficients are the means of theirs. A library takes as long, compared with the law, as on the kin that have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from amped.base.errors import ConfigError
from amped.calibration.fitting import Tell
from amped.calibration.kernel_errors import KernelErrors, Library, Predicted, compared, library, machine, predicted
from amped.calibration.kernel_fit import FAMILIES, WIDE, KernelFamily, KernelFit, fitted_each
from amped.measured_kernels.kinds import KINDS, KernelKind
from amped.measured_kernels.table_reading import MeasuredKernels
from amped.tables.table_files import ACCELERATORS, LookupTables
from amped.tables.tables import Tables, user_tables

# A version is no part of a library's name.
VERSION = re.compile(r"^v?\d[\w.]*$")
# A library that no kin has is predicted by the law alone.
LAW_ALONE = Library(1.0, 0.0)


def kernels_left_out(
    kernels: Sequence[MeasuredKernels], lookup_tables: LookupTables = None, tell: Tell = lambda _: None
) -> list[KernelErrors]:
    """The errors of the kernels of each accelerator, predicted without any of them.

    Args:
        kernels: the measured kernels of all accelerators.
        lookup_tables: the user's own tables.
        tell: takes lines of progress.

    Raises:
        ConfigError: if no two accelerators have enough kernels, or if scipy is not installed.
    """
    tables = user_tables(lookup_tables)
    kinds = [kind for kind in KINDS.values() if kind.shares_numbers and any(k.kind is kind for k in kernels)]
    errors = [error for kind in kinds for error in _SharedNumbers(kind, kernels, tables, lookup_tables).errors()]
    if not kinds or any(family.has(k) for k in kernels for family in FAMILIES):
        fits = fitted_each(kernels, tables, lookup_tables, tell)
        errors += [e for family in FAMILIES for e in _Family(family, kernels, fits, tables, lookup_tables).errors()]
    if not errors:
        raise ConfigError("there are no two accelerators with enough kernels to leave one out",
                          "kernels of several accelerators are needed, or leave out --leave-out")  # fmt: skip
    return errors


class _Family:
    """One family of kernels, and the fit of each accelerator to its own kernels.

    Attributes:
        fits: the fitted coefficients by the name of the accelerator.
        kernels: the kernels of the family on accelerators with a fit.
    """

    def __init__(
        self, family: KernelFamily, kernels: Sequence[MeasuredKernels], fits: Sequence[KernelFit], tables: Tables,
        lookup_tables: LookupTables,
    ) -> None:  # fmt: skip
        self.family, self.tables, self.lookup_tables = family, tables, lookup_tables
        self.fits: dict[str, Mapping[str, float]]
        self.fits = {fit.accelerators[0]: fit.values for fit in fits if fit.family == family.kind}
        self.kernels = [k for k in kernels if family.has(k) and k.accelerator in self.fits]

    def errors(self) -> Iterator[KernelErrors]:
        """The errors of each library of each accelerator that has kin."""
        for k in self.kernels:
            if kin := self.kin(k.accelerator):
                prediction = self.predicted(k, self.coefficients(kin, k.precision))
                yield compared(k, self.library(k, kin), prediction, np.ones(len(k), dtype=np.bool_))

    def kin(self, accelerator: str) -> list[str]:
        """The other measured accelerators of an accelerator's generation; if there are none, all the others."""
        accelerators = [name for name in self.fits if name != accelerator]
        generation = self.generation(accelerator)
        return [name for name in accelerators if self.generation(name) == generation] or accelerators

    def generation(self, accelerator: str) -> str:
        """The first word of the architecture in an accelerator's datasheet; the accelerator's name if there is none."""
        architecture = self.tables.row(ACCELERATORS, accelerator).columns.get("architecture")
        return str(architecture).split()[0] if architecture else accelerator

    def coefficients(self, kin: Sequence[str], precision: str) -> dict[str, float]:
        """The mean of each coefficient over the kin; a coefficient that no kin has is left out.

        The share of the peak is that of the precision; if no kin has one, that of 16 bits.
        """
        names = dict.fromkeys(name for accelerator in kin for name in self.fits[accelerator])
        means = {name: self._mean(name, kin) for name in names}
        wide, share = self.family.sustained[WIDE], self.family.sustained[precision]
        return {**({share: means[wide]} if wide in means else {}), **means}

    def _mean(self, name: str, kin: Sequence[str]) -> float:
        """The mean of a coefficient, each generation once: geometric, or arithmetic if a value is not above 0."""
        of_generation: dict[str, list[float]] = {}
        for accelerator in kin:
            if (value := self.fits[accelerator].get(name)) is not None:
                of_generation.setdefault(self.generation(accelerator), []).append(value)
        generations = of_generation.values()
        if min(map(min, generations)) <= 0:
            return float(np.mean([*map(np.mean, generations)]))
        return float(np.exp(np.mean([np.mean(np.log(values)) for values in generations])))

    def library(self, k: MeasuredKernels, kin: Sequence[str]) -> Library:
        """The scale and the fixed time of a library, fitted on the kin that have it, else on all others with it.

        If no other accelerator has its kernel, its fixed time is the middle of those of the tool's other kernels.
        """
        others = [o for o in self.kernels if o.precision == k.precision and o.accelerator != k.accelerator]
        measured = [other for other in others if bare(other.library) == bare(k.library)]
        measured = [other for other in measured if other.accelerator in kin] or measured
        if measured:
            return self._fitted(measured)
        of_tool = [self._fitted([other]).fixed for other in others if tool(other.library) == tool(k.library)]
        return Library(1.0, float(np.median(of_tool)), waits=True) if of_tool else LAW_ALONE

    def _fitted(self, measured: Sequence[MeasuredKernels]) -> Library:
        """The scale and the fixed time of a library that ran some kernels."""
        predictions = [self.predicted(other, self.fits[other.accelerator]) for other in measured]
        prediction = Predicted(*(np.concatenate([getattr(p, part) for p in predictions]) for part in ("law", "host")))
        return library(prediction, np.concatenate([other.times for other in measured]))

    def predicted(self, k: MeasuredKernels, coefficients: Mapping[str, float]) -> Predicted:
        """The times of kernels by the law, with these coefficients and the peaks of the datasheet."""
        return predicted(k, machine(k.accelerator, k.precision, self.tables, self.lookup_tables, coefficients))


class _SharedNumbers(_Family):
    """Kernels of a kind whose numbers are the same on all accelerators.

    An accelerator that is left out has its own datasheet and coefficients of products; the scale and the fixed time of a
    library are those on its kin. The numbers of the kernels themselves were fitted on all accelerators.
    """

    def __init__(
        self, kind: KernelKind, kernels: Sequence[MeasuredKernels], tables: Tables, lookup_tables: LookupTables
    ) -> None:
        self.tables, self.lookup_tables = tables, lookup_tables
        self.kernels = [k for k in kernels if k.kind is kind]
        self.fits = {k.accelerator: {} for k in self.kernels}

    def coefficients(self, kin: Sequence[str], precision: str) -> dict[str, float]:
        """None: the law takes no coefficient of a kin."""
        del kin, precision
        return {}


def tool(name: str) -> str:
    """The first word of the name of a library."""
    return name.partition(" ")[0]


def bare(name: str) -> str:
    """The name of a library without its version."""
    return " ".join(word for word in name.split() if not VERSION.match(word))
