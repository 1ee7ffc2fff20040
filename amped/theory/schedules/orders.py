"""Pipeline schedules: the order in which each stage runs the passes of its chunks.

A stage runs what its list says, one pass after another; when each pass runs follows from what it waits for
(`timeline.py`). The order of each schedule stands beside its equation, on its own page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amped.base.errors import MappingError
from amped.theory.pass_records import Order, Pipe
from amped.theory.schedules import gpipe, one_f_one_b, zero_bubble_h1, zero_bubble_v


def loops(pipe: Pipe, chunk: int, stage: int) -> int:
    """Place of a chunk among all: chunks follow one another from the first stage to the last, again and again."""
    return chunk * pipe.stages + stage


class Schedule(NamedTuple):
    """How a schedule orders the passes of a stage, and where in the network each of its chunks stands."""

    order: Callable[[Pipe, int], Order]
    place: Callable[[Pipe, int, int], int] = loops


SCHEDULES = {
    "gpipe": Schedule(gpipe.order),
    "1f1b": Schedule(one_f_one_b.order),
    "zero_bubble_h1": Schedule(zero_bubble_h1.order),
    "zero_bubble_v": Schedule(zero_bubble_v.order, zero_bubble_v.turns),
}


def scheduled(name: str, pipe: Pipe) -> list[Order]:
    """The passes of each stage in the order of a schedule.

    Raises:
        MappingError: for a number of chunks or micro-batches that the schedule cannot run.
    """
    chunks = {"zero_bubble_v": (2,), "1f1b": (pipe.chunks,)}.get(name, (1,))
    if pipe.chunks not in chunks:
        raise MappingError(f"{name} has {chunks[0]} chunks of layers a stage, not {pipe.chunks}")
    if name == "zero_bubble_v" and pipe.microbatches < 2 * pipe.stages - 1:
        raise MappingError(f"{name} on {pipe.stages} stages needs {2 * pipe.stages - 1} micro-batches or more")
    if pipe.chunks > 1 and name == "1f1b" and pipe.microbatches % pipe.stages:
        raise MappingError(f"interleaving needs rounds of {pipe.stages} micro-batches, not {pipe.microbatches}")
    return [SCHEDULES[name].order(pipe, stage) for stage in range(pipe.stages)]
