"""The passes of a pipeline computed one after another: how long a step takes, and what each stage holds meanwhile.

Where stages or the chunks of a stage are unequal, no formula says when each waits for which. Therefore this file
follows the passes in the order of the schedule: each begins when its stage is free and its input has arrived. After
some rounds each further micro-batch adds as much time as the one before, so that many micro-batches need no more
computation than few. The file `timeline.py` simulates these orders as events, and tests compare both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np

from amped.theory.nouns.pass_records import BACKWARD, FORWARD, INPUT, WEIGHT, Pass, Pipe
from amped.theory.nouns.stage_records import PassTimes, Share
from amped.theory.schedules.orders import SCHEDULES, homes_of, order_of, scheduled

# What a stage does beside its passes to run a pair: it waits for the second input, and hands on the first result.
WAIT, HAND_ON = BESIDE = "wait", "hand_on"
# Seconds by kind of pass, stage and chunk.
WorkOf = Mapping[str, Sequence[Sequence[Any]]]
# Rounds of p micro-batches for p stages that are followed pass by pass; further rounds take as long as the last.
MOST_ROUNDS = 6


class Step(NamedTuple):
    """A pass in a list of passes.

    Attributes:
        stage, kind, chunk: the stage that runs the pass, its kind, and its chunk of layers.
        after: the index of the pass that gives its input, or -1.
        sends: whether the pass sends its output to another stage.
    """

    stage: int
    kind: str
    chunk: int
    after: int
    sends: bool


def routes(schedule: str, pipe: Pipe) -> Callable[[int, str, int], tuple[tuple[int, int] | None, bool]]:
    """A function of stage, kind of pass and chunk: from where a pass receives its input, and whether it sends.

    It returns the stage and the chunk that give the input, and whether the output goes to another stage. At the ends of
    the network, and for weight gradients, nothing is received or sent.
    """
    homes = homes_of(schedule, pipe)
    places = {home: place for place, home in homes.items()}

    @cache
    def route(stage: int, kind: str, chunk: int) -> tuple[tuple[int, int] | None, bool]:
        """The stage and the chunk that give the input, or None; and whether the output goes to another stage."""
        if kind == WEIGHT:
            return None, False
        place, ahead = places[stage, chunk], 1 if kind == FORWARD else -1
        return homes.get(place - ahead), homes.get(place + ahead, (stage, chunk))[0] != stage

    return route


@lru_cache(maxsize=256)
def steps_of(schedule: str, pipe: Pipe) -> tuple[Step, ...]:
    """All passes of a step of a schedule, in an order in which each pass comes after the pass that gives its input.

    Each round over the stages takes the passes whose input is there. The last round finds no more passes.

    Args:
        schedule: the name of the schedule.
        pipe: the numbers of stages, micro-batches and chunks.
    """
    route, orders = routes(schedule, pipe), [*map(deque, scheduled(schedule, pipe))]
    steps: list[Step] = []
    index_of: dict[tuple[tuple[int, int], bool, int], int] = {}
    passes_left = -1
    while passes_left != (passes_left := sum(map(len, orders))):
        for stage, order in enumerate(orders):
            while order:
                passes = [order[n] for n in range(1 + order[0].joined)]
                parts = [_step(one_pass, stage, route, index_of) for one_pass in passes]
                if any(part is None for part in parts):
                    break
                for one_pass, place in zip(passes, _add_steps(steps, parts), strict=True):
                    order.popleft()
                    if one_pass.kind == WEIGHT:  # nothing waits for it
                        continue
                    index_of[(stage, one_pass.chunk), one_pass.kind == FORWARD, one_pass.microbatch] = place
    return tuple(steps)


def _step(one_pass: Pass, stage: int, route: Any, index_of: Mapping[Any, int]) -> Step | None:
    """The step of a pass; None if the pass that gives its input is not in the list.

    Args:
        one_pass: the pass.
        stage: the stage that runs it.
        route: the function of `routes`.
        index_of: the index of each pass in the list, by stage and chunk, by direction, and by micro-batch.
    """
    kind, microbatch, chunk, _ = one_pass
    source, sends = route(stage, kind, chunk)
    after = index_of.get((source, kind == FORWARD, microbatch)) if source else -1
    return None if after is None else Step(stage, kind, chunk, after, sends)


def _add_steps(steps: list[Step], parts: Sequence[Any]) -> list[int]:
    """Adds the step of a pass, or those of a pair, to a list. Returns the index of the result of each pass.

    The stage waits for the input of the second pass of a pair, runs both passes, hands on the result of the second
    pass, and then that of the first pass.
    """
    if len(parts) == 1:
        steps.append(parts[0])
        return [len(steps) - 1]
    first, second = parts
    steps += [
        second._replace(kind=WAIT, sends=False),
        first._replace(sends=False),
        second._replace(after=-1),
        first._replace(kind=HAND_ON, after=-1),
    ]
    return [len(steps) - 1, len(steps) - 2]


def makespan(schedule: str, pipe: Pipe, work: WorkOf, send: Any, blocked: Any) -> Any:
    """The time of a step in which each pass begins when its stage is free and its input has arrived.

    Args:
        schedule: the name of the schedule.
        pipe: the numbers of stages, micro-batches and chunks.
        work: the seconds by kind of pass, stage and chunk.
        send: the seconds of a send. Sends on one link follow one another.
        blocked: the seconds of a send in which the stage cannot compute.
    """
    blocks = bool(np.any(blocked))
    work, send, blocked, larger = as_plain_numbers(work, send, blocked)
    slow = links_with_queues(work, send)
    free: list[Any] = [0.0 * send] * pipe.stages
    arrived: dict[int, Any] = {}
    links: dict[tuple[int, bool], Any] = {}
    for place, (stage, kind, chunk, after, sends) in enumerate(steps_of(schedule, pipe)):
        start = larger(free[stage], arrived.pop(after)) if after >= 0 else free[stage]  # one pass alone takes it
        free[stage] = end = start if kind in BESIDE else start + work[kind][stage][chunk]
        if sends:
            link = (stage, kind in (FORWARD, HAND_ON))
            links[link] = arrival = (larger(end, links.get(link, end)) if link in slow else end) + send
            free[stage] = end + blocked if blocks else end
            end = arrival
        arrived[place] = end
    return reduce(larger, free)


def links_with_queues(work: WorkOf, send: Any) -> set[tuple[int, bool]]:
    """The links on which a message may have to wait, because the message before it is still on the way.

    A link is a pair: the stage that sends, and whether it sends forward. If every pass of a stage takes at least as
    long as a send, each message has arrived before the next pass ends, and no message waits.
    """
    return {
        (stage, kind == FORWARD)
        for kind, stages in work.items()
        for stage, chunks in enumerate(stages)
        if kind != WEIGHT and not all(np.all(seconds >= send) for seconds in chunks)
    }


def as_plain_numbers(work: WorkOf, send: Any, blocked: Any) -> tuple[WorkOf, Any, Any, Callable[[Any, Any], Any]]:
    """The three arguments as plain numbers, and the function that returns the larger of two of them: `max`.

    Plain numbers are faster than arrays of one element. If an array has several elements, the arguments stay arrays,
    and the function is `np.maximum`.

    Args:
        work: the seconds by kind of pass, stage and chunk.
        send: the seconds of a send.
        blocked: the seconds of a send in which the stage cannot compute.
    """
    chunks = (chunk for stages in work.values() for stage in stages for chunk in stage)
    are_single = all(isinstance(seconds, np.ndarray) and seconds.size == 1 for seconds in chunks)
    if not are_single or np.size(send) * np.size(blocked) > 1:
        return work, send, blocked, np.maximum
    work = {kind: [[seconds.item() for seconds in stage] for stage in stages] for kind, stages in work.items()}
    return work, np.asarray(send).item(), np.asarray(blocked).item(), max


def after_rounds(schedule: str, pipe: Pipe, microbatches: Any, work: WorkOf, send: Any, blocked: Any) -> Any:
    """The time of a step for each number of micro-batches in an array.

    Each different number is computed once, for all rows of the arrays that have this number.

    Args:
        schedule: the name of the schedule.
        pipe: the numbers of stages and chunks.
        microbatches: the number of micro-batches in a step, an array.
        work: the seconds by kind of pass, stage and chunk.
        send: the seconds of a send.
        blocked: the seconds of a send in which the stage cannot compute.
    """
    followed, rows = followed_microbatches(schedule, pipe, microbatches), np.shape(microbatches)[-1:]
    if np.size(microbatches) != int(np.prod(rows)) or np.size(microbatches) < 2:
        return _times_of_numbers(schedule, pipe, microbatches, followed, work, send, blocked)
    times: Any = None
    for followed_number in np.unique(followed):
        chosen = np.flatnonzero(followed.reshape(-1) == followed_number)
        choose = partial(_chosen_rows, rows=rows, chosen=chosen)
        part = {kind: [[choose(seconds) for seconds in stage] for stage in stages] for kind, stages in work.items()}
        time = _times_of_numbers(
            schedule, pipe, choose(microbatches), choose(followed), part, choose(send), choose(blocked)
        )
        if times is None:
            times = np.empty((*np.shape(time)[:-1], *rows))
        times[..., chosen] = time
    return times


def _chosen_rows(value: Any, rows: tuple[int, ...], chosen: Any) -> Any:
    """The chosen rows of an array that has a value for each of `rows`; any other value unchanged."""
    return value[..., chosen] if np.shape(value)[-1:] == rows else value


def _times_of_numbers(
    schedule: str, pipe: Pipe, microbatches: Any, followed: Any, work: WorkOf, send: Any, blocked: Any
) -> Any:
    """The time of a step for each number of micro-batches in an array.

    The first micro-batches are followed pass by pass: at most `MOST_ROUNDS` for each stage. Every further micro-batch
    adds the same time. No step is shorter than what its busiest stage alone needs.

    Args:
        schedule: the name of the schedule.
        pipe: the numbers of stages and chunks.
        microbatches: the number of micro-batches in a step, an array.
        followed: the number of micro-batches that are followed pass by pass, an array.
        work: the seconds by kind of pass, stage and chunk.
        send: the seconds of a send.
        blocked: the seconds of a send in which the stage cannot compute.
    """

    def time_with(count: float) -> Any:
        """The time of a step with this number of micro-batches."""
        return makespan(schedule, pipe._replace(microbatches=int(count)), work, send, blocked)

    most_followed, (fewest, *others) = MOST_ROUNDS * pipe.stages, np.unique(followed)
    times = last = time_with(fewest)
    for count in others:
        last = time_with(count)
        times = np.where(followed >= count, last, times)
    if np.any(microbatches > most_followed):
        growth = (last - time_with(most_followed - pipe.stages)) / pipe.stages
        further = times + np.maximum(microbatches - most_followed, 0) * growth
        times = np.where(
            microbatches > most_followed,
            np.maximum(further, _shortest_step(schedule, pipe, microbatches, work, send)),
            further,
        )
    return times


def _shortest_step(schedule: str, pipe: Pipe, microbatches: Any, work: WorkOf, send: Any) -> Any:
    """The shortest possible time of a step: that of a stage that never waits between its first and its last pass.

    The stage waits until its first input has come through the stages before it. At the end the stages before it wait
    for its last gradient, unless they have delayed weight gradients to compute.

    Args:
        schedule: the name of the schedule.
        pipe: the numbers of stages and chunks.
        microbatches: the number of micro-batches in a step, an array.
        work: the seconds by kind of pass, stage and chunk.
        send: the seconds of a send.
    """
    delayed = any(
        step.kind == WEIGHT for step in steps_of(schedule, pipe._replace(microbatches=MOST_ROUNDS * pipe.stages))
    )
    least, ends = 0.0, 0.0
    for forward, backward in zip(work[FORWARD], work[BACKWARD], strict=True):
        least = np.maximum(least, ends + microbatches * (sum(forward) + sum(backward)))
        ends = ends + forward[0] + send + (0 if delayed else backward[0] + send)
    return least


def followed_microbatches(schedule: str, pipe: Pipe, microbatches: Any) -> Any:
    """The number of micro-batches that are followed pass by pass, for each number in an array.

    It is at least the number that the schedule needs. If the rounds of a schedule have one micro-batch for each stage,
    whole rounds are followed.
    """
    most_followed, fewest = MOST_ROUNDS * pipe.stages, SCHEDULES[schedule].fewest(pipe.stages)
    number = np.where(np.isfinite(microbatches), np.clip(np.ceil(microbatches), fewest, most_followed), fewest)
    rounds = pipe.stages if pipe.chunks > 1 and SCHEDULES[schedule].chunks is None else 1
    return np.ceil(number / rounds) * rounds


def pipe_of(layout: Sequence[Share]) -> Pipe:
    """The numbers of stages and of chunks that a layout lists, as a `Pipe` with one micro-batch."""
    return Pipe(len(layout), 1, len(layout[0].chunks))


def home_of_the_head(schedule: str, layout: Sequence[Share]) -> tuple[int, int]:
    """The index of the stage that has the output head, and the index of the chunk there."""
    return (0 if SCHEDULES[schedule].first_has_the_output_head else len(layout) - 1), len(layout[0].chunks) - 1


def work_of(schedule: str, layout: Sequence[Share], pass_times: Sequence[PassTimes]) -> WorkOf:
    """The seconds by kind of pass (forward, both gradients, each gradient), by stage, and by chunk of the stage."""
    home = home_of_the_head(schedule, layout)
    forward, input_gradient, weight = (
        [
            [_in_chunk(times, chunk, (s, c), home) for c, chunk in enumerate(share.chunks)]
            for s, share in enumerate(layout)
        ]
        for times in pass_times
    )
    both = [[b + w for b, w in zip(*stage, strict=True)] for stage in zip(input_gradient, weight, strict=True)]
    return {FORWARD: forward, INPUT: input_gradient, WEIGHT: weight, BACKWARD: both}


def _in_chunk(times: PassTimes, chunk: Sequence[Any], place: tuple[int, int], home: tuple[int, int]) -> Any:
    """The seconds of one kind of pass in a chunk, with the embedding and the output head if the chunk contains them.

    Args:
        times: the seconds of this kind of pass in a layer, in the embedding and in the output head.
        chunk: the number of layers of each kind in the chunk.
        place: the stage and the index of the chunk.
        home: the stage and the index of the chunk with the output head.
    """
    layers = times.of_layers(chunk)
    first = layers + times.embedding if place == (0, 0) else layers
    return first + times.output_head if place == home else first


@lru_cache(maxsize=1024)
def fullest_moments_of_pipe(schedule: str, pipe: Pipe, stage: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of micro-batches that a stage holds in each of its chunks, at the moments that may need most memory.

    A moment is left out if at another moment every chunk has at least as many micro-batches.

    Args:
        schedule: the name of the schedule.
        pipe: the numbers of stages, micro-batches and chunks.
        stage: the index of the stage.
    """
    held, all_counts = [0] * pipe.chunks, set()
    for one_pass in order_of(schedule, pipe, stage):
        if one_pass.kind == FORWARD:
            held[one_pass.chunk] += 1
            all_counts.add(tuple(held))
        elif one_pass.kind in (BACKWARD, WEIGHT):
            held[one_pass.chunk] -= 1
    moments = np.array(sorted(all_counts))
    has_less_or_equal = (moments[:, None] <= moments[None]).all(axis=2) & (moments[:, None] != moments[None]).any(
        axis=2
    )
    return tuple(tuple(map(int, moment)) for moment in moments[~has_less_or_equal.any(axis=1)])


def fullest_moments(schedule: str, pipe: Pipe, stage: int, microbatches: Any) -> tuple[tuple[Any, ...], ...]:
    """The numbers of micro-batches that a stage holds in each chunk, at all moments that may need most memory.

    The moments are found separately for each number of micro-batches in a step. In rows with another number, such a
    moment holds zero micro-batches.

    Args:
        schedule: the name of the schedule.
        pipe: the numbers of stages and chunks.
        stage: the index of the stage.
        microbatches: the number of micro-batches in a step, an array.
    """
    chunks = SCHEDULES[schedule].chunks or pipe.chunks
    if SCHEDULES[schedule].holds_all or pipe.chunks != chunks:  # a rule refuses other chunks than the schedule's own
        return ((microbatches,) * pipe.chunks,)
    followed, moments = followed_microbatches(schedule, pipe, np.asarray(microbatches)), []
    for followed_number in np.unique(followed):
        has_number = 1.0 * (followed == followed_number)
        held = fullest_moments_of_pipe(schedule, pipe._replace(microbatches=int(followed_number)), stage)
        moments += [tuple(count * has_number for count in moment) for moment in held]
    return tuple(moments)
