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
from amped.calibration.kernel_fit import FAMILIES, KernelFamily, KernelFit, fitted_each
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.predictor import Predictor
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

    Raises:
        ConfigError: if no two accelerators have enough kernels, or if scipy is not installed.
    """
    tables = user_tables(lookup_tables)
    fits = fitted_each(kernels, tables, lookup_tables, tell)
    found = [e for family in FAMILIES for e in _Family(family, kernels, fits, tables, lookup_tables).errors()]
    if not found:
        raise ConfigError("there are no two accelerators with enough kernels to leave one out",
                          "kernels of several accelerators are needed, or leave out --leave-out")  # fmt: skip
    return found


class _Family:
    """One family of kernels, with what each accelerator's own kernels tell about its coefficients."""

    def __init__(
        self, family: KernelFamily, kernels: Sequence[MeasuredKernels], fits: Sequence[KernelFit], tables: Tables,
        lookup_tables: LookupTables,
    ) -> None:  # fmt: skip
        self.family, self.tables, self.lookup_tables = family, tables, lookup_tables
        self.fits = {fit.accelerators[0]: fit for fit in fits if fit.family == family.kind}
        self.kernels = [
            k
            for k in kernels
            if k.kind is KINDS[family.kind] and k.precision in family.sustained and k.accelerator in self.fits
        ]

    def errors(self) -> Iterator[KernelErrors]:
        """The errors of each library of each accelerator that has kin."""
        for own in self.kernels:
            if kin := self.kin(own.accelerator):
                told = predicted(own, self.machine(own, self.coefficients(kin, own.precision)))
                every = np.ones(len(own), dtype=np.bool_)
                yield compared(own, self.family.kind, self.library(own, kin), told, every)

    def kin(self, accelerator: str) -> list[str]:
        """The other measured accelerators of a generation; if there are none, all the others."""
        others = [name for name in self.fits if name != accelerator]
        own = self.generation(accelerator)
        return [name for name in others if self.generation(name) == own] or others

    def generation(self, accelerator: str) -> str:
        """The first word of the architecture in the accelerator's datasheet."""
        told = self.tables.row(ACCELERATORS, accelerator).columns.get("architecture")
        return str(told).split()[0] if told else accelerator

    def coefficients(self, kin: Sequence[str], precision: str) -> dict[str, float]:
        """The geometric means of the coefficients of kin, each generation once; without those that no kin has.

        The share of the peak is that of the precision, else that of 16 bits.
        """
        names = dict.fromkeys(name for k in kin for name in self.fits[k].values)
        found = {name: self._mean(name, kin) for name in names}
        wide, own = self.family.sustained["bfloat16"], self.family.sustained[precision]
        return {**({own: found[wide]} if wide in found else {}), **found}

    def _mean(self, name: str, kin: Sequence[str]) -> float:
        of_generation: dict[str, list[float]] = {}
        for each in kin:
            if name in self.fits[each].values:
                of_generation.setdefault(self.generation(each), []).append(self.fits[each].values[name])
        if any(value <= 0 for values in of_generation.values() for value in values):
            return float(np.mean([np.mean(values) for values in of_generation.values()]))
        return float(np.exp(np.mean([np.mean(np.log(values)) for values in of_generation.values()])))

    def library(self, own: MeasuredKernels, kin: Sequence[str]) -> Library:
        """The scale and the fixed time of a library on the kin that have it; else on all others that have it."""
        name = bare(own.library)
        same = [
            k
            for k in self.kernels
            if (bare(k.library), k.precision) == (name, own.precision) and k.accelerator != own.accelerator
        ]
        near = [k for k in same if k.accelerator in kin] or same
        if not near:
            return LAW_ALONE
        told = [predicted(k, self.machine(k, self.fits[k.accelerator].values)) for k in near]
        both = (np.concatenate([each.law for each in told]), np.concatenate([each.host for each in told]))
        return library(Predicted(*both), np.concatenate([k.times for k in near]))

    def machine(self, own: MeasuredKernels, coefficients: Mapping[str, float]) -> Predictor:
        """What predicts kernels with these coefficients, and with the peaks of the datasheet."""
        return machine(own.accelerator, own.precision, self.tables, self.lookup_tables, coefficients)


def bare(name: str) -> str:
    """The name of a library without its version."""
    return " ".join(word for word in name.split() if not VERSION.match(word))
