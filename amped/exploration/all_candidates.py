"""Every candidate of a block as columns: what a file of all of them is written from, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
FEASIBLE, FITS = "feasible", "fits_in_memory"


class Keep(Protocol):
    """Whoever takes every candidate in, block by block, in the process that evaluates, in the order of the space."""

    def start(self, kinds: Mapping[str, type]) -> None:
        """The names of the columns, and whether each has numbers, texts or truths."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """The candidates of a block; all columns are of one length, and a name may be missing."""


class Block(Protocol):
    """The cells of one evaluation, with the masks of those that are candidates and of those that are feasible."""

    shape: tuple[int, ...]
    valid: Column
    feasible: Column

    def flat(self, name: str) -> Column:
        """A result of each cell."""


def every_row(swept: Mapping[str, Column], block: Block, names: Iterable[str]) -> dict[str, Column]:
    """The candidates of one block: the swept values of each cell, the results of those names, and whether all is kept."""
    parts = {whole: swept[name] * swept[f"inter{name[5:]}"] for name in swept if (whole := whole_of(name))}
    found = {**swept, **parts, **{name: block.flat(name) for name in names if name not in swept}}
    found |= {FITS: found[FITS] > 0, FEASIBLE: block.feasible.reshape(-1)}
    valid = np.broadcast_to(block.valid, block.shape).reshape(-1)
    return found if valid.all() else {name: column[valid] for name, column in found.items()}


def whole_of(name: str) -> str:
    """The degree of which the name is the part inside the node, or nothing."""
    return name[11:] if name.startswith("intra_node_") and name.endswith("_parallel_degree") else ""
