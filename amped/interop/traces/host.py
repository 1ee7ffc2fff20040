"""What the host did: calls inside calls of each thread, so that each call has its operator, its pass and its own time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from amped.base.record import dataclass
from amped.interop.traces.classes import BOOKKEEPING, UNASSIGNED, class_of, classes
from amped.interop.traces.marks import marks
from amped.interop.traces.trace import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTATION, Floats, Integers, Work

# What a call stands in: the operator that counts, whether all inside is of its class, the part of the step, the shapes.
NOWHERE = (-1, False, FORWARD, -1)
Inside = tuple[int, bool, int, int]


@dataclass(frozen=True)
class Calls:
    """The calls of the host, an entry for each.

    Attributes:
        name, thread: the places of the name and of the thread.
        start, end: seconds.
        graph: 1 where autograd records the call for a backward pass, as it does again while it recomputes; else 0.
        shape: the place of the shapes of its arguments; -1 without them.
        launch: the number that a launch shares with its kernel; -1 for other calls.
        range: 1 for a range that a user or a framework names, in which code runs that is no operator; else 0.
    """

    name: Integers
    thread: Integers
    start: Floats
    end: Floats
    graph: Integers
    shape: Integers
    launch: Integers
    range: Integers


class Kind(NamedTuple):
    """What the name of a call tells: whether it has a class and sends, whether all inside is of it, and the part of the step."""

    counts: bool
    sends: bool
    holds: bool
    backward: bool
    optimizer: bool


def _kinds(names: Sequence[str]) -> list[Kind]:
    """What each name tells."""
    none = (BOOKKEEPING, UNASSIGNED)
    found = [classes()[class_of(name)] for name in names]
    backward, optimizer = marks("backward"), marks("optimizer")
    return [
        Kind(each.name not in none, each.sends, each.holds, backward(name), optimizer(name))
        for name, each in zip(names, found, strict=True)
    ]


def placed(calls: Calls, names: Sequence[str], piece: Callable[[int, float, float, Inside], None]) -> list[Inside]:
    """What each call stands in, itself included; `piece` is told each stretch of a call in which no call inside it runs."""
    inside, known = [NOWHERE] * len(calls.name), _kinds(names)
    rows = [column.tolist() for column in (calls.name, calls.start, calls.end, calls.graph, calls.shape)]
    for order in _threads(calls):
        stack: list[tuple[int, float, Inside]] = []
        at = 0.0
        for call in order:
            name, start, end, graph, shape = (row[call] for row in rows)
            while stack and stack[-1][1] <= start:
                last, until, where = stack.pop()
                piece(last, at, until, where)
                at = max(at, until)
            outer = stack[-1][2] if stack else NOWHERE
            if stack:
                piece(stack[-1][0], at, start, outer)
                end = min(end, stack[-1][1])
            at = start
            inside[call] = here = _here(outer, known[name], name, graph, shape)
            stack.append((call, end, here))
        while stack:
            last, until, where = stack.pop()
            piece(last, at, until, where)
            at = max(at, until)
    return inside


def _threads(calls: Calls) -> Iterator[list[int]]:
    """The calls of each thread in the order of their begins, the longer first."""
    order = np.lexsort((-calls.end, calls.start, calls.thread))
    ends = np.flatnonzero(np.diff(calls.thread[order])) + 1
    yield from (part.tolist() for part in np.split(order, ends) if len(part))


def _here(outer: Inside, kind: Kind, name: int, graph: int, shape: int) -> Inside:
    """What a call is, by what it stands in.

    In a backward pass autograd records nothing, so that what it records there is computed again.
    Source: pytorch, aten/src/ATen/record_function.cpp (sequence numbers in grad mode).
    """
    operator, held, part, shapes = outer
    if kind.optimizer:
        part = OPTIMIZER
    elif kind.backward and part == FORWARD:
        part = BACKWARD
    elif graph and part == BACKWARD:
        operator, held, part, shapes = -1, False, RECOMPUTATION, -1
    if kind.counts and not held:
        operator, held, shapes = name, kind.holds, shape
    return operator, held, part, shapes


def pieces(calls: Calls, names: Sequence[str]) -> Work:
    """The calls as work of a processor that is its own accelerator: each stretch, with the operator that counts.

    What runs in a range and in no operator is no work, but for messages, which backends tell as ranges.
    """
    rows: list[tuple[float, float, int, int, int, int]] = []
    sends = [kind.sends for kind in _kinds(names)]
    counts = [not is_range or sends[name] for name, is_range in zip(calls.name, calls.range, strict=True)]

    def piece(call: int, start: float, end: float, where: Inside) -> None:
        if end > start and counts[call]:
            operator, _, part, shape = where
            rows.append((start, end, int(calls.name[call]), operator, part, shape))

    placed(calls, names, piece)
    rows.sort()
    start, end, name, operator, part, shape = zip(*rows, strict=True) if rows else ((),) * 6
    return Work(
        start=np.array(start, float),
        end=np.array(end, float),
        name=np.array(name, np.int64),
        operator=np.array(operator, np.int64),
        part=np.array(part, np.int64),
        launched=np.full(len(rows), np.nan),
        shape=np.array(shape, np.int64),
    )
