"""The balanced layout: layers go to stages in their order, so that the longest stage is as short as possible.

With one chunk for each stage the answer is exact, by dynamic programming. With several chunks, each layer goes to the
stage that has the least to do; then layers are moved as long as this makes the longest stage shorter, or all stages
more alike. A layout with a stage that does not fit in memory is taken only if there is no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, combinations, pairwise

import numpy as np

from amped.base.record import dataclass

# Whether a stage (its number from 0) has room in memory for ranges of layers: (first layer, layer after the last one).
Room = Callable[[int, Sequence[tuple[int, int]]], bool]
# The time of the longest stage, the sum of the squared times of stages, and that of the squared layers of chunks.
Uneven = tuple[float, float, float]
# The number of stages without room for their layers, and then the three values of `Uneven`.
Cost = tuple[int, float, float, float]
# The most layouts that are tried, by moves of a layer from chunk to chunk: thousands more take seconds.
MOST_TRIED = 30_000


@dataclass(frozen=True)
class Row:
    """The layers in order, the two ends of the network, and the chunks that they go to.

    Attributes:
        times: the seconds of each layer.
        first, last: seconds of the embedding on the first stage, and of the output head (with modules that predict
            further tokens) on the stage of the last chunk.
        stage_of_chunk: the stage of each chunk, in the order of the network.
        fits: whether a stage has room in memory for some ranges of layers.
    """

    times: Sequence[float]
    first: float
    last: float
    stage_of_chunk: Sequence[int]
    fits: Room = lambda *_: True

    @cached_property
    def seconds_before(self) -> list[float]:
        """For each layer the seconds of all layers before it, and at the end the seconds of all layers."""
        return [0.0, *accumulate(self.times)]

    @cached_property
    def stages(self) -> int:
        """The number of pipeline stages."""
        return max(self.stage_of_chunk) + 1

    @cached_property
    def ends(self) -> list[float]:
        """For each chunk the seconds of the embedding and of the output head, if the chunk has them."""
        last = len(self.stage_of_chunk) - 1
        return [self.first * (chunk == 0) + self.last * (chunk == last) for chunk in range(last + 1)]


def balanced(row: Row) -> list[int]:
    """The number of layers of each chunk, in the order of the network.

    Memory is disregarded if no layout was found that fits.
    """
    with_unlimited_memory = replace(row, fits=lambda *_: True)
    if len(row.stage_of_chunk) == row.stages:
        return _exact(row) or _exact(with_unlimited_memory) or even(len(row.times), row.stages)
    counts = _improved(row, _dealt_to_chunks(row))
    return _improved(with_unlimited_memory, counts) if _stages_without_room(row, counts) else counts


def even(number: int, parts: int) -> list[int]:
    """Nearly equal whole numbers with the sum `number`, the larger ones first."""
    return [number // parts + (part < number % parts) for part in range(parts)]


def nearby(counts: Sequence[int]) -> list[list[int]]:
    """All layouts in which one layer moves to another chunk, or two chunks exchange their layers.

    Args:
        counts: the number of layers of each chunk.
    """
    layouts = [*_moves(range(len(counts)), counts)]
    for first, second in combinations(range(len(counts)), 2):
        if counts[first] != counts[second]:
            exchanged = list(counts)
            exchanged[first], exchanged[second] = exchanged[second], exchanged[first]
            layouts.append(exchanged)
    return layouts


def _exact(row: Row) -> list[int]:
    """The number of layers of each stage, with one chunk for each stage; empty if no layout fits in memory.

    The longest stage is as short as possible. Among such layouts, the sum of the squared times is the least.
    """
    seconds_before, layers = np.array(row.seconds_before), len(row.times)
    seconds = seconds_before[None, :] - seconds_before[:, None]  # from layer i to before layer j
    seconds[np.tril_indices(layers + 1, -1)] = np.inf
    times = [np.where(_has_room(row, stage), seconds + end, np.inf) for stage, end in enumerate(row.ends)]
    longest, _ = _least_cost(times, np.maximum)
    if not np.isfinite(longest):
        return []
    _, first_layers = _least_cost([np.where(time <= longest * (1 + 1e-12), time**2, np.inf) for time in times], np.add)
    counts, stop = [], layers
    for first_layer in reversed(first_layers):
        counts.append(stop - int(first_layer[stop]))
        stop = int(first_layer[stop])
    return counts[::-1]


def _least_cost(costs: Sequence[np.ndarray], joined: np.ufunc) -> tuple[float, list[np.ndarray]]:
    """The least cost of placing all layers, and each stage's best first layer, for each layer before which it ends.

    This is dynamic programming: after each stage, the least cost of the first n layers is known for every n.

    Args:
        costs: for each stage, a matrix: the cost of the layers from a row's number to before a column's number.
        joined: joins the costs of two stages: maximum or sum.
    """
    best, first_layers = np.full(len(costs[0]), np.inf), []
    best[0] = 0.0
    for cost in costs:
        sums = joined(best[:, None], cost)
        first_layers.append(np.argmin(sums, axis=0))
        best = np.min(sums, axis=0)
    return float(best[-1]), first_layers


def _has_room(row: Row, stage: int) -> np.ndarray:
    """A matrix of booleans: whether a stage has room for the layers from a row's number to before a column's number.

    It relies on memory that never shrinks with more layers.
    """
    layers = len(row.times)
    allowed = np.zeros((layers + 1, layers + 1), dtype=bool)
    stop = 0
    for start in range(layers + 1):
        stop = max(stop, start)
        while stop <= layers and row.fits(stage, [(start, stop)]):
            stop += 1
        allowed[start, start:stop] = True
    return allowed


def _dealt_to_chunks(row: Row) -> list[int]:
    """The number of layers of each chunk, if layers are handed out one by one, each with the mean time.

    Each layer goes to the stage with the least work, and there to the shortest chunk.
    """
    mean = sum(row.times) / max(len(row.times), 1)
    times, counts = np.zeros(row.stages), [0] * len(row.stage_of_chunk)
    for home, end in zip(row.stage_of_chunk, row.ends, strict=True):
        times[home] += end
    for _ in row.times:
        stage = int(np.argmin(times))
        chunks = [chunk for chunk, home in enumerate(row.stage_of_chunk) if home == stage]
        counts[min(chunks, key=lambda chunk: counts[chunk] * mean + row.ends[chunk])] += 1
        times[stage] += mean
    return counts


def _improved(row: Row, counts: list[int]) -> list[int]:
    """The number of layers of each chunk after the moves of single layers that make the layout better.

    Each round takes the best move, until no move helps or MOST_TRIED layouts were tried.
    """
    best: Cost = (_stages_without_room(row, counts), *_unevenness(row, counts))
    for _ in range(max(MOST_TRIED // len(row.stage_of_chunk) ** 2, 1)):
        layouts = [(_unevenness(row, moved), moved) for moved in _moves(row.stage_of_chunk, counts)]
        if not best[0]:  # all stages fit; whether they still do is computed only for moves that are better
            layouts = [layout for layout in layouts if layout[0] < best[1:]]
        least = _least(row, layouts)
        if least is None or not least[0] < best:
            break
        best, counts = least
    return counts


def _least(row: Row, layouts: list[tuple[Uneven, list[int]]]) -> tuple[Cost, list[int]] | None:
    """The least cost and the layout that has it; None without layouts.

    Layouts are tried from the most even one. The first that fits in memory has the least cost.
    """
    least = None
    for uneven, counts in sorted(layouts):
        layout = (_stages_without_room(row, counts), *uneven), counts
        least = layout if least is None or layout < least else least
        if not layout[0][0]:
            break
    return least


def _moves(stage_of_chunk: Sequence[int], counts: Sequence[int]) -> Iterator[list[int]]:
    """The layouts in which one layer has moved from a chunk to a chunk of another stage.

    Args:
        stage_of_chunk: the stage of each chunk.
        counts: the number of layers of each chunk.
    """
    for source, count in enumerate(counts):
        for target in range(len(counts)) if count else ():
            if stage_of_chunk[source] != stage_of_chunk[target]:
                moved = list(counts)
                moved[source], moved[target] = moved[source] - 1, moved[target] + 1
                yield moved


def _stages_without_room(row: Row, counts: Sequence[int]) -> int:
    """The number of stages whose memory has no room for their layers.

    Args:
        row: the layers and the stage of each chunk.
        counts: the number of layers of each chunk, in the order of the network.
    """
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(row.stages)]
    for home, bounds in zip(row.stage_of_chunk, pairwise([0, *accumulate(counts)]), strict=True):
        ranges[home].append(bounds)
    return sum(not row.fits(stage, of_stage) for stage, of_stage in enumerate(ranges))


def _unevenness(row: Row, counts: Sequence[int]) -> Uneven:
    """The longest time of a stage, the sum of the squared times of stages, and that of the squared layers of chunks."""
    times, start, stage_of_chunk, seconds_before = [0.0] * row.stages, 0, row.stage_of_chunk, row.seconds_before
    for home, count in zip(stage_of_chunk, counts, strict=True):
        times[home] += seconds_before[start + count] - seconds_before[start]
        start += count
    times[stage_of_chunk[0]] += row.first
    times[stage_of_chunk[-1]] += row.last
    return (
        round(max(times), 15),
        round(sum([time * time for time in times]), 15),
        float(sum([c * c for c in counts])),
    )
