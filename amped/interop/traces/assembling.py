"""A trace, put together from what a device ran and what the host called, whichever profiler wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from amped.base.errors import FileError, Problem
from amped.base.record import dataclass
from amped.interop.traces.host import Calls, pieces, placed
from amped.interop.traces.marks import marks
from amped.interop.traces.stepping import found_steps
from amped.interop.traces.trace import Floats, Integers, Trace, Work

UNNAMED = "an accelerator"


@dataclass(frozen=True)
class Ran:
    """What a device ran, an entry for each kernel or copy: its name, its seconds, and the number that it shares with its launch."""

    name: Integers
    start: Floats
    end: Floats
    launch: Integers


def assembled(
    path: Path,
    source: str,
    *,
    rank: int,
    ranks: int,
    device: str,
    names: Sequence[str],
    shapes: Sequence[str],
    calls: Calls,
    ran: Ran,
    memory: tuple[Floats, Floats],
) -> Trace:
    """A trace; without kernels, operators are what ran.

    Raises:
        FileError: if nothing ran, or if no step is marked.
    """
    has_device = len(ran.name) > 0
    work = _work(ran, calls, names) if has_device else pieces(calls, names)
    if not len(work.start):
        nothing = "it has neither kernels nor operators"
        raise FileError(Problem(nothing, advice="record the device or the processor (activities)"), file=str(path))
    return Trace(
        file=str(path),
        source=source,
        rank=rank,
        ranks=ranks,
        device=(device or UNNAMED) if has_device else "",
        names=names,
        shapes=shapes,
        work=work,
        waits=_ranges(calls, names, "waits", of_launches=True),
        loading=_ranges(calls, names, "loading", of_launches=False),
        steps=found_steps(calls, names, work, has_device, path),
        memory=memory,
    )


def _work(ran: Ran, calls: Calls, names: Sequence[str]) -> Work:
    """The kernels and copies of a device, each with the operator that launched it."""
    order = np.argsort(ran.start, kind="stable")
    inside = np.array(placed(calls, names, lambda *_: None), np.int64).reshape(-1, 4)
    launches = np.flatnonzero(calls.launch >= 0)
    launches = launches[np.argsort(calls.launch[launches], kind="stable")]
    at = _found(calls.launch[launches], ran.launch[order])
    call = np.append(launches, -1)[at]
    where = np.vstack([inside, [-1, 0, 0, -1]])[call]
    return Work(
        start=ran.start[order],
        end=ran.end[order],
        name=ran.name[order],
        operator=where[:, 0],
        part=where[:, 2],
        launched=np.append(calls.end, np.nan)[call],
        shape=where[:, 3],
    )


def _found(ordered: Integers, wanted: Integers) -> Integers:
    """The places of numbers in an ordered list; -1 for those that are not in it."""
    place = np.searchsorted(ordered, wanted)
    is_in = (place < len(ordered)) & (wanted >= 0)
    is_in[is_in] = ordered[place[is_in]] == wanted[is_in]
    return np.where(is_in, place, -1)


def _ranges(calls: Calls, names: Sequence[str], mark: str, of_launches: bool) -> tuple[Floats, Floats]:
    """The begins and ends of the calls with a mark, of the runtime or of all others."""
    has = np.array([marks(mark)(name) for name in names], bool)
    which = has[calls.name] & ((calls.launch >= 0) == of_launches)
    return calls.start[which], calls.end[which]
