"""Where each kernel coefficient of one accelerator comes from: measured, fitted, assumed, or taken from a nearest kin, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amped.base.errors import TableError, did_you_mean, quoted
from amped.calibration.step_numbers import owner
from amped.configuring.values import read_value
from amped.tables.kin import in_doubt, nearest, of_kin, own_kernels
from amped.tables.table_files import ABOUT, ACCELERATORS, KERNELS
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import catalogue

MEASURED, FITTED, ASSUMED = "measured", "fitted", "assumed"


@dataclass(frozen=True)
class Origin:
    """Where a coefficient of an accelerator comes from.

    Attributes:
        value: its value in the canonical unit.
        how: how its value came about: measured, fitted to training steps, or assumed.
        row: the row of kernel efficiencies that writes it.
        kin: the accelerator from which it is taken, and the reason; empty if it is the accelerator's own or its generation's.
    """

    name: str
    unit: str
    value: float
    how: str
    row: str
    kin: str


def origins(tables: Tables, accelerator: str) -> list[Origin]:
    """Where each kernel coefficient of an accelerator comes from, those of its own row first.

    Args:
        tables: the lookup tables.
        accelerator: the name of an accelerator.

    Raises:
        TableError: if no table has the accelerator, or if no other one has a row of kernel efficiencies.
    """
    if not tables.has(ACCELERATORS, accelerator):
        hint = did_you_mean(accelerator, tables.names(ACCELERATORS)) or "`amped list accelerators` shows them"
        raise TableError(f"there is no accelerator {quoted(accelerator)}", hint)
    row = tables.row(ACCELERATORS, accelerator)
    kernels, kin = own_kernels(tables, row), None
    if kernels is None:
        kin = nearest(tables, row)
        if kin is None:
            raise TableError(
                f"no row of {KERNELS} serves {quoted(row.name)}",
                f"add one, or a row that it can take to {ACCELERATORS}",
            )
        kernels = kin.kernels
    found = [*_origins(tables, row, kernels, kin.text if kin else "")]
    return sorted(found, key=lambda origin: (bool(origin.kin), origin.row != kernels.name))


def _origins(tables: Tables, accelerator: Row, kernels: Row, of_whole: str) -> Iterator[Origin]:
    """Where each coefficient of a row of kernel efficiencies comes from.

    Args:
        tables: the lookup tables.
        accelerator: the accelerator.
        kernels: its row of kernel efficiencies, or that of its nearest kin.
        of_whole: from whom the whole row is taken, and why; empty if it is its own.
    """
    known, doubts = catalogue(), {*in_doubt(accelerator, kernels)}
    for column, written in kernels.columns.items():
        if column in ABOUT or column not in known or written is None:
            continue
        value = float(read_value(known[column], written))
        kin = nearest(tables, accelerator, column) if column in doubts else None
        if kin is None:
            yield _origin(tables, kernels, column, value, of_whole)
        else:
            yield _origin(tables, kin.kernels, column, of_kin(kernels, kin, column), kin.text_of(column))


def _origin(tables: Tables, kernels: Row, column: str, value: float, kin: str) -> Origin:
    """Where one coefficient comes from that a row of kernel efficiencies has."""
    how = FITTED if column in kernels.fitted else ASSUMED if column in kernels.unverified else MEASURED
    return Origin(column, catalogue()[column].mark.unit, value, how, owner(tables, kernels, column).name, kin)
