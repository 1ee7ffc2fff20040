"""Every candidate of a block as columns: what a file of all of them is written from, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from amped.exploration.search import Search

Column = NDArray[Any]
FEASIBLE, FITS = "feasible", "fits_in_memory"


class Keep(Protocol):
    """Whoever takes every candidate in, block by block, in the process that evaluates, in the order of the space."""

    def start(self, kinds: Mapping[str, type]) -> None:
        """The names of the columns, and whether each has numbers, texts or truths."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """The candidates of a block; all columns are of one length, and a name may be missing."""


def kinds_of_every(search: Search) -> dict[str, type]:
    """The columns that a search hands out: swept values, results, and whether all is kept."""
    kinds: dict[str, type] = {}
    for family in search.families:
        kinds |= {name: float for name in family.told} | {n: type(v) for n, v in family.cases[0].outer.items()}
    kinds |= {name: float for name in (*search.sweeps.beside, *(n for axes in search.axes for n in axes))}
    kinds |= {whole: float for name in kinds if (whole := _whole(name))}
    results = (name for chosen in search.plans for name in chosen.targets)
    kinds |= {n: float for n in results if n not in kinds and not search.catalogue[n].mark.constrains}
    return kinds | {FITS: bool, FEASIBLE: bool}


def every_row(
    swept: Mapping[str, Column], told: Mapping[str, Column], valid: Column, feasible: Column
) -> dict[str, Column]:
    """The columns of one block.

    Args:
        swept: the swept values of each cell; told: the results of each cell.
        valid: which cells are candidates; feasible: which keep every rule and wish, and fit.
    """
    parts = {whole: swept[name] * swept[f"inter{name[5:]}"] for name in swept if (whole := _whole(name))}
    found = {**swept, **parts, **{name: column for name, column in told.items() if name not in swept}}
    found[FEASIBLE] = feasible
    return found if valid.all() else {name: np.asarray(column)[valid] for name, column in found.items()}


def _whole(name: str) -> str:
    """The degree of which the name is the part inside the node, or nothing."""
    return name[11:] if name.startswith("intra_node_") and name.endswith("_parallel_degree") else ""
