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

# Whether a stage, given by its place, has room for some ranges of layers (from a layer to before another one).
Room = Callable[[int, Sequence[tuple[int, int]]], bool]
# The longest stage and the sums of squares of a layout; and before them, how many of its stages do not fit.
Uneven = tuple[float, float, float]
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
        homes: the stage of each chunk, in the order of the network.
        fits: tells which stages have room for which layers.
    """

    times: Sequence[float]
    first: float
    last: float
    homes: Sequence[int]
    fits: Room = lambda *_: True

    @cached_property
    def done(self) -> list[float]:
        """The seconds of all layers before each layer, and of all layers."""
        return [0.0, *accumulate(self.times)]

    @cached_property
    def stages(self) -> int:
        """The number of pipeline stages."""
        return max(self.homes) + 1

    @cached_property
    def ends(self) -> list[float]:
        """The seconds of the ends of the network on each chunk."""
        last = len(self.homes) - 1
        return [self.first * (chunk == 0) + self.last * (chunk == last) for chunk in range(last + 1)]


def balanced(row: Row) -> list[int]:
    """The number of layers of each chunk, in the order of the network."""
    roomy = replace(row, fits=lambda *_: True)
    if len(row.homes) == row.stages:
        return _dealt(row) or _dealt(roomy) or even(len(row.times), row.stages)
    counts = _moved(row, _dealt_to_chunks(row))
    return _moved(roomy, counts) if _missing(row, counts) else counts


def even(number: int, parts: int) -> list[int]:
    """A number in nearly equal parts, the larger ones first."""
    return [number // parts + (part < number % parts) for part in range(parts)]


def nearby(counts: Sequence[int]) -> list[list[int]]:
    """All layouts with one layer in another chunk, and all in which two chunks exchange their layers."""
    layouts = [*_moves(range(len(counts)), counts)]
    for one, other in combinations(range(len(counts)), 2):
        if counts[one] != counts[other]:
            exchanged = list(counts)
            exchanged[one], exchanged[other] = exchanged[other], exchanged[one]
            layouts.append(exchanged)
    return layouts


def _dealt(row: Row) -> list[int]:
    """The layers of each stage, with the shortest longest stage, and among those with the least sum of squares.

    The list is empty if nothing fits.
    """
    done, layers = np.array(row.done), len(row.times)
    spans = done[None, :] - done[:, None]  # seconds from a layer to before another
    spans[np.tril_indices(layers + 1, -1)] = np.inf
    times = [np.where(_allowed(row, stage), spans + end, np.inf) for stage, end in enumerate(row.ends)]
    longest, _ = _placed(times, np.maximum)
    if not np.isfinite(longest):
        return []
    _, ways = _placed([np.where(time <= longest * (1 + 1e-12), time**2, np.inf) for time in times], np.add)
    counts, at = [], layers
    for way in reversed(ways):
        counts.append(at - int(way[at]))
        at = int(way[at])
    return counts[::-1]


def _placed(costs: Sequence[np.ndarray], joined: np.ufunc) -> tuple[float, list[np.ndarray]]:
    """The least cost of all layers, and for each stage and each layer before which it ends, the best layer to begin with.

    Stage by stage, it keeps the best way to place each number of layers.

    Args:
        costs: for each stage, the cost of its layers, from one layer to before another.
        joined: makes one cost of those of several stages.
    """
    best, ways = np.full(len(costs[0]), np.inf), []
    best[0] = 0.0
    for cost in costs:
        sums = joined(best[:, None], cost)
        ways.append(np.argmin(sums, axis=0))
        best = np.min(sums, axis=0)
    return float(best[-1]), ways


def _allowed(row: Row, stage: int) -> np.ndarray:
    """Which ranges of layers (from, to before) a stage has room for; a longer range never needs less memory."""
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
    """The layers of each chunk: each layer goes to the stage with the least work, and there to its shortest chunk."""
    mean = sum(row.times) / max(len(row.times), 1)
    load, counts = np.zeros(row.stages), [0] * len(row.homes)
    for home, end in zip(row.homes, row.ends, strict=True):
        load[home] += end
    for _ in row.times:
        stage = int(np.argmin(load))
        chunks = [chunk for chunk, home in enumerate(row.homes) if home == stage]
        counts[min(chunks, key=lambda chunk: counts[chunk] * mean + row.ends[chunk])] += 1
        load[stage] += mean
    return counts


def _moved(row: Row, counts: list[int]) -> list[int]:
    """The layers of each chunk after all moves that improve the layout."""
    best: Cost = (_missing(row, counts), *_unevenness(row, counts))
    for _ in range(max(MOST_TRIED // len(row.homes) ** 2, 1)):
        layouts = [(_unevenness(row, moved), moved) for moved in _moves(row.homes, counts)]
        if not best[0]:  # all stages fit: of a move that is no better, nobody need know whether they still do
            layouts = [layout for layout in layouts if layout[0] < best[1:]]
        least = _least(row, layouts)
        if least is None or not least[0] < best:
            break
        best, counts = least
    return counts


def _least(row: Row, layouts: list[tuple[Uneven, list[int]]]) -> tuple[Cost, list[int]] | None:
    """The layout with the least cost; as soon as one fits, the others are no better."""
    least = None
    for uneven, counts in sorted(layouts):
        layout = (_missing(row, counts), *uneven), counts
        least = layout if least is None or layout < least else least
        if not layout[0][0]:
            break
    return least


def _moves(homes: Sequence[int], counts: Sequence[int]) -> Iterator[list[int]]:
    """Every way to move one layer from a chunk to a chunk of another stage."""
    for one, count in enumerate(counts):
        for other in range(len(counts)) if count else ():
            if homes[one] != homes[other]:
                moved = list(counts)
                moved[one], moved[other] = moved[one] - 1, moved[other] + 1
                yield moved


def _missing(row: Row, counts: Sequence[int]) -> int:
    """How many stages do not fit in memory."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(row.stages)]
    for home, bounds in zip(row.homes, pairwise([0, *accumulate(counts)]), strict=True):
        ranges[home].append(bounds)
    return sum(not row.fits(stage, of_stage) for stage, of_stage in enumerate(ranges))


def _unevenness(row: Row, counts: Sequence[int]) -> Uneven:
    """The longest stage, and the sums of squares over stages and chunks."""
    load, start, homes, done = [0.0] * row.stages, 0, row.homes, row.done
    for home, count in zip(homes, counts, strict=True):
        load[home] += done[start + count] - done[start]
        start += count
    load[homes[0]] += row.first
    load[homes[-1]] += row.last
    return round(max(load), 15), round(sum([time * time for time in load]), 15), float(sum([c * c for c in counts]))
