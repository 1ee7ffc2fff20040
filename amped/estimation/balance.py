"""The balanced layout: layers dealt out to stages in their order, so that the stage that takes longest takes least.

With one chunk a stage the answer is exact, by dynamic programming. With several, layers are dealt out to the stages
that have least to do, and boundaries are moved as long as that makes the longest stage shorter, or all stages more
alike. A stage that would not fit in memory is not taken while there is another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

# Whether the stage at a place has room for the layers of some ranges, each from a layer to before another.
Room = Callable[[int, Sequence[tuple[int, int]]], bool]
# Moves of a boundary that are tried at most.
MOST_MOVES = 400


@dataclass(frozen=True)
class Row:
    """Layers in their order, and the ends of the network beside them.

    Attributes:
        times: seconds of each layer, modules that predict further tokens after them.
        first, last: seconds of the embedding on the first stage, and of the output head on the stage of the last chunk.
        fits: which stages have room for which layers.
    """

    times: Sequence[float]
    first: float
    last: float
    fits: Room = lambda *_: True


def balanced(row: Row, stages: int, homes: Sequence[int]) -> list[int]:
    """How many layers each chunk has, in the order of the network.

    Args:
        row: the layers.
        stages: pipeline stages.
        homes: the stage of each chunk, in the order of the network.
    """
    if len(homes) == stages:
        found = _dealt(row, stages, row.fits) or _dealt(row, stages, lambda *_: True)
        return found or _even(len(row.times), stages)
    found = _moved(row, stages, homes, _dealt_to_chunks(row, stages, homes))
    roomy = replace(row, fits=lambda *_: True)
    return _moved(roomy, stages, homes, found) if _cost(row, stages, homes, found)[0] else found


def _even(layers: int, chunks: int) -> list[int]:
    """As many layers for each chunk, as far as that goes."""
    return [layers // chunks + (chunk < layers % chunks) for chunk in range(chunks)]


def _dealt(row: Row, stages: int, fits: Room) -> list[int]:
    """The layers of each stage for which the longest is shortest, and among those the squares least; none: nothing fits.

    Stage by stage the best way to place so many layers is kept.
    """
    done, layers = np.array([0.0, *accumulate(row.times)]), len(row.times)
    spans = done[None, :] - done[:, None]  # from a layer to before another
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
    """From which layer to before which other a stage has room; more layers never need less."""
    found = np.zeros((layers + 1, layers + 1), dtype=bool)
    stop = 0
    for start in range(layers + 1):
        stop = max(stop, start)
        while stop <= layers and fits(stage, [(start, stop)]):
            stop += 1
        found[start, start:stop] = True
    return found


def _longest(spans: np.ndarray, ends: Sequence[float], allowed: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each stage and number of layers placed by then, the least that the longest stage can take."""
    best = np.full(len(spans), np.inf)
    best[0] = 0.0
    found = []
    for end, room in zip(ends, allowed, strict=True):
        best = np.min(np.maximum(best[:, None], np.where(room, spans + end, np.inf)), axis=0)
        found.append(best)
    return found


def _dealt_to_chunks(row: Row, stages: int, homes: Sequence[int]) -> list[int]:
    """Layers of each chunk: each next one to the stage that has least to do, there to its shortest chunk."""
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
    """The layers of each chunk after every move that makes things better."""
    best = _cost(row, stages, homes, counts)
    for _ in range(MOST_MOVES):
        tried = ((_cost(row, stages, homes, moved), moved) for moved in _moves(homes, counts))
        cost, moved = min(tried, default=(best, counts))
        if not cost < best:
            break
        best, counts = cost, moved
    return counts


def _moves(homes: Sequence[int], counts: Sequence[int]) -> Iterator[list[int]]:
    """Every way to take a layer from one chunk and give it to another of another stage."""
    for one, count in enumerate(counts):
        for other in range(len(counts)) if count else ():
            if homes[one] != homes[other]:
                moved = list(counts)
                moved[one], moved[other] = moved[one] - 1, moved[other] + 1
                yield moved


def _cost(row: Row, stages: int, homes: Sequence[int], counts: Sequence[int]) -> tuple[int, float, float, float]:
    """Stages that do not fit, the longest stage, the squares of all, and how unlike chunks are: less is better."""
    bounds = [0, *accumulate(counts)]
    done = [0.0, *accumulate(row.times)]
    load = [0.0] * stages
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(stages)]
    for chunk, home in enumerate(homes):
        load[home] += done[bounds[chunk + 1]] - done[bounds[chunk]]
        ranges[home].append((bounds[chunk], bounds[chunk + 1]))
    load[homes[0]] += row.first
    load[homes[-1]] += row.last
    missing = sum(not row.fits(stage, own) for stage, own in enumerate(ranges))
    longest = max(load)
    return missing, round(longest, 15), round(sum(each * each for each in load), 15), float(sum(c * c for c in counts))
