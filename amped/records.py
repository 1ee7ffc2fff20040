"""Plural things: frozen records whose fields are arrays that broadcast.

A record's text fields are structure, its other fields are float64 arrays; `mapped` applies a function to the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import reduce
from operator import add
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Record:
    """A row of named arrays."""

    name: str

    def mapped(self, function: Callable[[Any], Any]) -> Self:
        """The same record with `function` applied to each array."""
        values = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(v if isinstance(v, str) else function(v) for v in values))


@dataclass(frozen=True, slots=True)
class Gemm(Record):
    """`batch` products of an m × k with a k × n matrix, called `count` times in a step on one accelerator."""

    m: Any
    n: Any
    k: Any
    batch: Any
    count: Any

    @property
    def multiply_accumulates(self) -> Any:
        """Multiply-accumulates of all calls in a step."""
        return self.m * self.n * self.k * self.batch * self.count


@dataclass(frozen=True, slots=True)
class Collective(Record):
    """A communication of `volume` bytes in a group of `intra` × `inter` accelerators, `count` times in a step.

    `volume` is the whole payload an accelerator holds before (or after) it; what crosses a link follows from `kind`.
    """

    kind: str
    volume: Any
    intra: Any
    inter: Any
    count: Any


def total(values: Iterable[Any]) -> Any:
    """The sum, added left to right so that an array gives bit for bit what its elements give alone."""
    return reduce(add, values)
