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
    """The layers in order, and the two ends of the network.

    Attributes:
        times: the seconds of each layer.
        first, last: seconds of the embedding on the first stage, and of the output head (with modules that predict
            further tokens) on the stage of the last chunk.
        fits: tells which stages have room for which layers.
    """

    times: Sequence[float]
    first: float
    last: float
    fits: Room = lambda *_: True

    @cached_property
    def done(self) -> list[float]:
        """The seconds of all layers before each layer, and of all layers."""
        return [0.0, *accumulate(self.times)]


def balanced(row: Row, stages: int, homes: Sequence[int]) -> list[int]:
    """The number of layers of each chunk, in the order of the network.

    Args:
        row: the layers.
        stages: the number of pipeline stages.
        homes: the stage of each chunk, in the order of the network.
    """
    if len(homes) == stages:
        found = _dealt(row, stages, row.fits) or _dealt(row, stages, lambda *_: True)
        return found or _even(len(row.times), stages)
    found = _moved(row, stages, homes, _dealt_to_chunks(row, stages, homes))
    roomy = replace(row, fits=lambda *_: True)
    return _moved(roomy, stages, homes, found) if _cost(row, stages, homes, found)[0] else found


def nearby(counts: Sequence[int]) -> list[list[int]]:
    """All layouts with one layer in another chunk, and all in which two chunks exchange their layers."""
    found = [*_moves(range(len(counts)), counts)]
    for one, other in combinations(range(len(counts)), 2):
        if counts[one] != counts[other]:
            exchanged = list(counts)
            exchanged[one], exchanged[other] = exchanged[other], exchanged[one]
            found.append(exchanged)
    return found


def _even(layers: int, chunks: int) -> list[int]:
    """The layers divided evenly over the chunks, as far as this is possible."""
    return [layers // chunks + (chunk < layers % chunks) for chunk in range(chunks)]


def _dealt(row: Row, stages: int, fits: Room) -> list[int]:
    """The layers of each stage, with the shortest longest stage, and among those with the least sum of squares.

    Stage by stage, it keeps the best way to place each number of layers. The list is empty if nothing fits.
    """
    done, layers = np.array(row.done), len(row.times)
    spans = done[None, :] - done[:, None]  # seconds from a layer to before another
    spans[np.tril_indices(layers + 1, -1)] = np.inf
    ends = [row.first * (s == 0) + row.last * (s == stages - 1) for s in range(stages)]
    allowed = [_allowed(layers, stage, fits) for stage in range(stages)]
    longest = _longest(spans, ends, allowed)[-1][layers]
    if not np.isfinite(longest):
        return []
    kept = [
        np.where(a & (spans + end <= longest * (1 + 1e-12)), (spans + end) ** 2, np.inf)
        for a, end in zip(allowed, ends, strict=True)
    ]
    best, ways = np.full(layers + 1, np.inf), []
    best[0] = 0.0
    for squares in kept:
        sums = best[:, None] + squares
        ways.append(np.argmin(sums, axis=0))
        best = np.min(sums, axis=0)
    found, at = [], layers
    for way in reversed(ways):
        found.append(at - int(way[at]))
        at = int(way[at])
    return found[::-1]


def _allowed(layers: int, stage: int, fits: Room) -> np.ndarray:
    """Which ranges of layers (from, to before) a stage has room for; a longer range never needs less memory."""
    found = np.zeros((layers + 1, layers + 1), dtype=bool)
    stop = 0
    for start in range(layers + 1):
        stop = max(stop, start)
        while stop <= layers and fits(stage, [(start, stop)]):
            stop += 1
        found[start, start:stop] = True
    return found


def _longest(spans: np.ndarray, ends: Sequence[float], allowed: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each stage and each number of layers placed up to it, the shortest possible longest stage."""
    best = np.full(len(spans), np.inf)
    best[0] = 0.0
    found = []
    for end, room in zip(ends, allowed, strict=True):
        best = np.min(np.maximum(best[:, None], np.where(room, spans + end, np.inf)), axis=0)
        found.append(best)
    return found


def _dealt_to_chunks(row: Row, stages: int, homes: Sequence[int]) -> list[int]:
    """The layers of each chunk: each layer goes to the stage with the least work, and there to its shortest chunk."""
    mean = sum(row.times) / max(len(row.times), 1)
    load, counts = np.zeros(stages), [0] * len(homes)
    load[homes[0]] += row.first
    load[homes[-1]] += row.last
    extra = [row.first * (c == 0) + row.last * (c == len(homes) - 1) for c in range(len(homes))]
    for _ in row.times:
        stage = int(np.argmin(load))
        own = [chunk for chunk, home in enumerate(homes) if home == stage]
        chunk = min(own, key=lambda c: counts[c] * mean + extra[c])
        counts[chunk] += 1
        load[stage] += mean
    return counts


def _moved(row: Row, stages: int, homes: Sequence[int], counts: list[int]) -> list[int]:
    """The layers of each chunk after all moves that improve the layout."""
    best = _cost(row, stages, homes, counts)
    for _ in range(max(MOST_TRIED // len(homes) ** 2, 1)):
        tried = [(_unevenness(row, stages, homes, moved), moved) for moved in _moves(homes, counts)]
        if not best[0]:  # all stages fit: of a move that is no better, nobody need know whether they still do
            tried = [each for each in tried if each[0] < best[1:]]
        found = _least(row, stages, homes, tried)
        if found is None or not found[0] < best:
            break
        best, counts = found
    return counts


def _least(
    row: Row, stages: int, homes: Sequence[int], tried: list[tuple[Uneven, list[int]]]
) -> tuple[Cost, list[int]] | None:
    """The layout with the least cost; as soon as one fits, the others are no better."""
    least = None
    for uneven, counts in sorted(tried):
        found = (_missing(row, stages, homes, counts), *uneven), counts
        least = found if least is None or found < least else least
        if not found[0][0]:
            return found
    return least


def _moves(homes: Sequence[int], counts: Sequence[int]) -> Iterator[list[int]]:
    """Every way to move one layer from a chunk to a chunk of another stage."""
    for one, count in enumerate(counts):
        for other in range(len(counts)) if count else ():
            if homes[one] != homes[other]:
                moved = list(counts)
                moved[one], moved[other] = moved[one] - 1, moved[other] + 1
                yield moved


def _cost(row: Row, stages: int, homes: Sequence[int], counts: Sequence[int]) -> Cost:
    """The cost of a layout: stages that do not fit, the longest stage, sums of squares over stages and chunks."""
    return _missing(row, stages, homes, counts), *_unevenness(row, stages, homes, counts)


def _missing(row: Row, stages: int, homes: Sequence[int], counts: Sequence[int]) -> int:
    """How many stages do not fit in memory."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(stages)]
    for home, two in zip(homes, pairwise([0, *accumulate(counts)]), strict=True):
        ranges[home].append(two)
    return sum(not row.fits(stage, own) for stage, own in enumerate(ranges))


def _unevenness(row: Row, stages: int, homes: Sequence[int], counts: Sequence[int]) -> Uneven:
    """The longest stage, and the sums of squares over stages and chunks."""
    load, start = [0.0] * stages, 0
    for home, count in zip(homes, counts, strict=True):
        load[home] += row.done[start + count] - row.done[start]
        start += count
    load[homes[0]] += row.first
    load[homes[-1]] += row.last
    return round(max(load), 15), round(sum([each * each for each in load]), 15), float(sum([c * c for c in counts]))
