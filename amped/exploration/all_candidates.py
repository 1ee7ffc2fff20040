"""Every candidate of a block as columns: what a file of all of them is written from, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

Column = NDArray[Any]
FEASIBLE, FITS = "feasible", "fits_in_memory"


class Keep(Protocol):
    """Whoever takes every candidate in, block by block, in the process that evaluates, in the order of the space."""

    def start(self, kinds: Mapping[str, type]) -> None:
        """The names of the columns, and whether each has numbers, texts or truths."""

    def take(self, columns: Mapping[str, Column]) -> None:
        """The candidates of a block; all columns are of one length, and a name may be missing."""
