"""Pipeline schedules: the order in which each stage runs the passes of its chunks.

A stage runs what its list says, one pass after another; when each pass runs follows from what it waits for
(`timeline.py`). The kinds are `forward`, `input_gradient` and `weight_gradient`; `backward` is both gradients in one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amped.errors import MappingError

FORWARD, BACKWARD, INPUT, WEIGHT = "forward", "backward", "input_gradient", "weight_gradient"


class Pass(NamedTuple):
    """One pass of a micro-batch through a chunk of layers of a stage."""

    kind: str
    microbatch: int
    chunk: int


Order = list[Pass]


class Pipe(NamedTuple):
    """The size of a schedule: pipeline stages, micro-batches, chunks of layers a stage."""

    stages: int
    microbatches: int
    chunks: int = 1


def gpipe(pipe: Pipe, stage: int) -> Order:
    """All forward passes, then all backward passes. Source: arXiv 1811.06965."""
    del stage
    return [Pass(kind, m, 0) for kind in (FORWARD, BACKWARD) for m in range(pipe.microbatches)]


def one_forward_one_backward(pipe: Pipe, stage: int) -> Order:
    """Forward passes to fill the stages behind, then one backward for each forward; with chunks, interleaved.

    Source: arXiv 2104.04473, section 2.2; Megatron-Core, schedules.py (number of warm-up micro-batches).
    """
    passes = pipe.microbatches * pipe.chunks
    behind = pipe.stages - stage - 1
    warm = behind if pipe.chunks == 1 else 2 * behind + (pipe.chunks - 1) * pipe.stages
    warm = min(warm, passes)
    order = [_nth(pipe, FORWARD, n) for n in range(warm)]
    for n in range(passes - warm):
        order += [_nth(pipe, FORWARD, warm + n), _nth(pipe, BACKWARD, n)]
    return order + [_nth(pipe, BACKWARD, n) for n in range(passes - warm, passes)]


def _nth(pipe: Pipe, kind: str, number: int) -> Pass:
    """The pass at a place in the sequence: rounds of as many micro-batches as stages, each through all chunks."""
    rounds, rest = divmod(number, pipe.stages * pipe.chunks)
    chunk, inside = divmod(rest, pipe.stages)
    if pipe.chunks == 1:
        return Pass(kind, number, 0)
    return Pass(kind, rounds * pipe.stages + inside, chunk if kind == FORWARD else pipe.chunks - 1 - chunk)


def zero_bubble_h1(pipe: Pipe, stage: int) -> Order:
    """One forward, one backward, with as many weight gradients put off as stages lie before: they fill the end.

    Source: arXiv 2401.10241, section 2.1 (ZB-H1).
    """
    warm = min(pipe.stages - stage - 1, pipe.microbatches)
    order = [Pass(FORWARD, m, 0) for m in range(warm)]
    for m in range(pipe.microbatches):
        order += [Pass(FORWARD, warm + m, 0)] if warm + m < pipe.microbatches else []
        order += [Pass(INPUT, m, 0)]
        order += [Pass(WEIGHT, m - stage, 0)] if m >= stage else []
    return order + [Pass(WEIGHT, m, 0) for m in range(max(pipe.microbatches - stage, 0), pipe.microbatches)]


class _Counted:
    """A list of passes, each the next micro-batch of its kind and chunk."""

    def __init__(self) -> None:
        self.order: Order = []
        self.count = dict.fromkeys(((kind, chunk) for kind in (FORWARD, INPUT, WEIGHT) for chunk in (0, 1)), 0)

    def take(self, *passes: tuple[str, int]) -> None:
        for kind, chunk in passes:
            self.order.append(Pass(kind, self.count[kind, chunk], chunk))
            self.count[kind, chunk] += 1


# What a stage of a V does in turn: forward through a chunk, and both gradients of one.
DOWN, UP = (FORWARD, 0), (FORWARD, 1)
BACK_DOWN, BACK_UP = ((INPUT, 0), (WEIGHT, 0)), ((INPUT, 1), (WEIGHT, 1))


def zero_bubble_v(pipe: Pipe, stage: int) -> Order:
    """Two chunks a stage, the second on the way back from the last stage to the first; weight gradients fill the end.

    Needs at least 2·p − 1 micro-batches. Source: arXiv 2405.15362, section 3 (V-ZB); the order of
    torch.distributed.pipelining, ScheduleZBVZeroBubble.
    """
    taken, count = (made := _Counted()).take, made.count
    behind = pipe.stages - stage
    taken(*[DOWN] * (2 * behind - 1), *[UP, DOWN] * stage, *[UP, *BACK_UP] * behind)
    while count[UP] < count[DOWN] or count[DOWN] < pipe.microbatches:
        taken(*[DOWN] * (count[DOWN] < pipe.microbatches), *BACK_DOWN, UP, *BACK_UP)
    taken(*[(INPUT, 0), (INPUT, 1)] * stage, *BACK_DOWN * behind)
    for chunk in (1, 0):
        taken(*[(WEIGHT, chunk)] * (count[INPUT, chunk] - count[WEIGHT, chunk]))
    return made.order


def loops(pipe: Pipe, chunk: int, stage: int) -> int:
    """Place of a chunk among all: chunks follow one another from the first stage to the last, again and again."""
    return chunk * pipe.stages + stage


def turns(pipe: Pipe, chunk: int, stage: int) -> int:
    """Place of a chunk among all of a V: down to the last stage, and from there back."""
    return stage if chunk == 0 else 2 * pipe.stages - 1 - stage


class Schedule(NamedTuple):
    """How a schedule orders the passes of a stage, and where in the network each of its chunks stands."""

    order: Callable[[Pipe, int], Order]
    place: Callable[[Pipe, int, int], int] = loops


SCHEDULES = {
    "gpipe": Schedule(gpipe),
    "1f1b": Schedule(one_forward_one_backward),
    "zero_bubble_h1": Schedule(zero_bubble_h1),
    "zero_bubble_v": Schedule(zero_bubble_v, turns),
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
