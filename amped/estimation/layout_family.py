"""The layouts that are compared for a pipeline whose layers do not divide or are unlike: a family that is always the same.

If there are few ways to give the layers to the chunks, the family has all of them. Otherwise it has two kinds. In the
first, chunks one after another have equally many layers, but for at most two changes on the way through the network. In
the second, all chunks have nearly equally many, and the stages at the two ends of the network get some more or fewer.
In both kinds the first and the last chunk, which have the embedding and the output head, have numbers of their own.

The family depends on the numbers of layers, stages and chunks alone, not on the machine or the work. The best layout of
it is therefore never slower on a better machine, and never faster with more work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import comb

import numpy as np

# The most layouts of which all are compared.
MOST_LAYOUTS = 50_000
# By how many layers a chunk may have fewer or more than if all had equally many: chunks in a row, and the first chunk.
FEWER, MORE, FIRST = 1, 2, 3
# How many layers more (below 0) or fewer the other chunks of the stages at both ends may have together.
AT_LAST, AT_FIRST = range(-1, 3), range(-2, 3)


@lru_cache(maxsize=64)
def layout_family(layers: int, homes: tuple[int, ...]) -> np.ndarray:
    """The layouts: a row for each, with the number of layers of each chunk in the order of the network.

    Args:
        layers: the number of layers.
        homes: the stage of each chunk, in the order of the network.
    """
    chunks = len(homes)
    if comb(layers + chunks - 1, chunks - 1) <= MOST_LAYOUTS:
        return _every(layers, chunks)
    return np.unique(np.concatenate([_in_rows(layers, chunks), _by_stages(layers, homes)]), axis=0)


def _every(layers: int, chunks: int) -> np.ndarray:
    """All ways to give layers to chunks."""
    if chunks == 1:
        return np.array([[layers]])
    rest = [_every(layers - own, chunks - 1) for own in range(layers + 1)]
    return np.concatenate([np.insert(each, 0, own, axis=1) for own, each in enumerate(rest)])


def _grid(*axes: Sequence[int] | np.ndarray) -> list[np.ndarray]:
    """All combinations of values: for each axis a column."""
    return [each.reshape(-1, 1) for each in np.meshgrid(*axes, indexing="ij")]


def _in_rows(layers: int, chunks: int) -> np.ndarray:
    """Layouts whose inner chunks have up to three numbers of layers, one after another."""
    even, inner = layers // chunks, chunks - 2
    some, place = np.arange(max(even - FEWER, 0), even + MORE + 1), np.arange(inner)
    one, two, *numbers, last = _grid(np.arange(inner + 1), np.arange(inner + 1), some, some, some, np.arange(even + 3))
    before, between, after = numbers
    kept = ((one < two) & (before != between) & (between != after)).ravel()
    one, two, before, between, after, last = (each[kept] for each in (one, two, before, between, after, last))
    counts = np.where(place < one, before, np.where(place < two, between, after))
    return _with_ends(layers, counts, last, lambda first: first <= even + FIRST)


def _with_ends(
    layers: int, inner: np.ndarray, last: np.ndarray, kept: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Layouts with these inner chunks and this last chunk. The first chunk gets what is left, if it may have so many."""
    first = layers - inner.sum(axis=1, keepdims=True) - last
    right = ((first >= 0) & kept(first) & (inner.min(axis=1, keepdims=True, initial=0) >= 0)).ravel()
    found: np.ndarray = np.concatenate([first, inner, last], axis=1)[right]
    return found


def _by_stages(layers: int, homes: Sequence[int]) -> np.ndarray:
    """Layouts that are nearly even, but for the stages at both ends."""
    even, inner = layers // len(homes), np.array(homes[1:-1])
    at_last, at_first = inner == homes[-1], (inner == homes[0]) & (homes[0] != homes[-1])
    orders = np.array(_orders(inner, at_last, at_first)).reshape(-1, len(inner))
    lasts = [(h, less) for h in range(even + 3) for less in AT_LAST] + [
        (0, n) for n in range(3, at_last.sum() * (even + 1) + 1)
    ]
    firsts = np.arange(max(even - FIRST, 0), even + FIRST + 1)
    end, first, less_first, order = _grid(np.arange(len(lasts)), firsts, AT_FIRST, np.arange(len(orders)))
    last, less_last = np.array(lasts)[end.ravel()].T.reshape(2, -1, 1)
    rest = layers - last - first + less_last * at_last.any() + less_first * at_first.any()
    counts = rest // max(len(inner), 1) + (orders[order.ravel()] < rest % max(len(inner), 1))
    counts = counts - _shared(less_last, at_last) - _shared(less_first, at_first)
    return _with_ends(layers, counts, last, lambda found: found == first)


def _shared(number: np.ndarray, own: np.ndarray) -> np.ndarray:
    """A number of layers, dealt to a stage's own chunks in turn, the last one first; 0 for all other chunks."""
    turn = np.cumsum(own[::-1])[::-1] - 1
    return np.where(own, (number + own.sum() - 1 - turn) // max(own.sum(), 1), 0)


def _orders(inner: np.ndarray, at_last: np.ndarray, at_first: np.ndarray) -> list[np.ndarray]:
    """The orders in which inner chunks get one layer more than others: for each order, the rank of each chunk.

    By place in the network, by stage, and with the chunks of the last stage, or of both ends, after all others.
    """
    place, none = np.arange(len(inner)), np.zeros(len(inner), int)
    ends = (none, none), (none, at_last), (at_first, at_last)
    by: list[tuple[np.ndarray, ...]] = [(sign * place, *end) for end in ends for sign in (1, -1)]
    by += [(place, sign * inner, *end) for end in ends[1:] for sign in (1, -1)]
    return [np.argsort(np.lexsort(keys)) for keys in by]
