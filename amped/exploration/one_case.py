"""One combination of the rows, choices, and numbers of the machine that an exploration goes through."""

from __future__ import annotations

from collections.abc import Mapping

from amped.base.record import dataclass
from amped.configuring.sources import Sources
from amped.configuring.values import Value


@dataclass(frozen=True)
class Case:
    """One combination of the outer loop.

    Attributes:
        outer: the rows, choices and numbers of the machine of this combination, by name.
        sources: all values and choices that are neither searched nor swept.
        accelerators, domain: the number of accelerators of the machine, and of one fast domain.
        token_degrees: for each parallelism that splits sequences, the degrees that are tried.
        batches: the global batch sizes.
        experts: routed experts of a layer; 1 in a dense network.
        searched: the names of the degrees in `SETTLES` that are searched, because this network or strategy needs them and
            nobody gives them.
    """

    outer: Mapping[str, Value]
    sources: Sources
    accelerators: int
    domain: int
    token_degrees: Mapping[str, tuple[int, ...]]
    batches: tuple[int, ...]
    experts: int
    searched: tuple[str, ...]
