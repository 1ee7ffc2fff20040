"""One combination of what an exploration does one after the other: rows, choices, and numbers of the machine."""

from __future__ import annotations

from collections.abc import Mapping

from amped.base.record import dataclass
from amped.configuring.sources import Sources
from amped.configuring.values import Value


@dataclass(frozen=True)
class Case:
    """One combination of the outer loop.

    Attributes:
        outer: the rows, choices and numbers of the machine that the case is made of, by name.
        sources: all values that are neither searched nor swept.
        accelerators, domain: the number of accelerators, and the size of the fast domain, that mappings fill.
        token_degrees: for each parallelism that splits sequences, the degrees that are tried.
        batches: the global batch sizes.
        experts: routed experts of a layer; 1 in a dense network.
        searched: the names that this network or strategy needs and that nobody gives.
    """

    outer: Mapping[str, Value]
    sources: Sources
    accelerators: int
    domain: int
    token_degrees: Mapping[str, tuple[int, ...]]
    batches: tuple[int, ...]
    experts: int
    searched: tuple[str, ...]
