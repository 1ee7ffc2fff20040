"""Pipeline schedules: the order in which each stage runs the passes of its chunks.

A stage runs the passes of its list one after another. The time of each pass follows from the passes for which it waits
(`timeline.py`). The order of each schedule is on the page of its equation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from amped.base.errors import MappingError
from amped.theory.nouns.pass_records import Order, Pipe
from amped.theory.schedules import dualpipe_v, gpipe, one_f_one_b, zero_bubble_h1, zero_bubble_v


def loops(pipe: Pipe, chunk: int, stage: int) -> int:
    """The position of a chunk in the network, if each stage gets its first chunk before any stage gets its second."""
    return chunk * pipe.stages + stage


class Schedule(NamedTuple):
    """How a schedule orders the passes of a stage, and which pipelines it can run.

    Attributes:
        order: the function that gives the passes of a stage.
        place: the function that gives the position in the network of a chunk of a stage.
        chunks: the number of chunks of layers on a stage. None if the user chooses it; micro-batches then come in
            rounds of one for each stage.
        fewest: the function that gives the least number of micro-batches for a number of stages.
        first_has_the_output_head: whether the first stage has the output head, instead of the last stage.
        holds_all: whether a stage holds all micro-batches before the first backward pass.
    """

    order: Callable[[Pipe, int], Order]
    place: Callable[[Pipe, int, int], int] = loops
    chunks: int | None = 1
    fewest: Callable[[int], int] = lambda _: 1
    first_has_the_output_head: bool = False
    holds_all: bool = False


SCHEDULES = {
    "gpipe": Schedule(gpipe.order, holds_all=True),
    "1f1b": Schedule(one_f_one_b.order, chunks=None),
    "zero_bubble_h1": Schedule(zero_bubble_h1.order),
    "zero_bubble_v": Schedule(
        zero_bubble_v.order,
        place=zero_bubble_v.turns,
        chunks=2,
        fewest=lambda stages: 2 * stages - 1,
        first_has_the_output_head=True,
    ),
    "dualpipe_v": Schedule(
        dualpipe_v.order,
        place=zero_bubble_v.turns,
        chunks=2,
        fewest=lambda stages: 2 * stages,
        first_has_the_output_head=True,
    ),
}


def homes_of(name: str, pipe: Pipe) -> dict[int, tuple[int, int]]:
    """The stage and the chunk at each position in the network, by position.

    Args:
        name: the name of the schedule.
        pipe: the numbers of stages and chunks.
    """
    place = SCHEDULES[name].place
    return {place(pipe, chunk, stage): (stage, chunk) for stage in range(pipe.stages) for chunk in range(pipe.chunks)}


@lru_cache(maxsize=4096)
def order_of(name: str, pipe: Pipe, stage: int) -> Order:
    """The passes of one stage in the order of a schedule.

    Args:
        name: the name of the schedule.
        pipe: the numbers of stages, micro-batches and chunks.
        stage: the index of the stage.
    """
    return SCHEDULES[name].order(pipe, stage)


def scheduled(name: str, pipe: Pipe) -> list[Order]:
    """The passes of each stage in the order of a schedule: a list for each stage.

    Raises:
        MappingError: for a number of chunks or micro-batches that the schedule cannot run.
    """
    schedule = SCHEDULES[name]
    fewest = schedule.fewest(pipe.stages)
    if pipe.chunks != (schedule.chunks or pipe.chunks):
        raise MappingError(f"{name} has {schedule.chunks} chunks of layers per stage, not {pipe.chunks}")
    if pipe.microbatches < fewest:
        raise MappingError(f"{name} on {pipe.stages} stages needs {fewest} micro-batches or more")
    if schedule.chunks is None and pipe.chunks > 1 and pipe.microbatches % pipe.stages:
        raise MappingError(f"interleaving needs rounds of {pipe.stages} micro-batches, not {pipe.microbatches}")
    return [order_of(name, pipe, stage) for stage in range(pipe.stages)]
