"""Layouts of a pipeline in which chunks one after another have equally many layers: where a search for a layout begins.

They depend on the numbers of layers and chunks alone, not on the machine or the work. From one of them to another a
search that moves single layers finds no way, because the layouts between have longer steps.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

# How far numbers of layers are from equal ones. With `less` = SPREAD / chunks, at least 1: inner chunks have at most `less`
# layers fewer and `less` + 1 more, the first chunk at most `less` + 2 more.
SPREAD = 24
# At most so many places where the number of layers changes, and so many numbers of layers of the last chunk, are tried.
MOST_PLACES, MOST_LASTS = 32, 8


@lru_cache(maxsize=64)
def in_runs(layers: int, chunks: int) -> np.ndarray:
    """The number of layers of each chunk (a column) in many layouts (a row each).

    From the second chunk to the last but one, the number of layers changes at most twice. The first and the last chunk,
    which have the embedding and the output head, have numbers of their own.

    Args:
        layers: the number of layers.
        chunks: the number of chunks of all stages. With fewer than three there are no inner chunks, and no layouts.
    """
    even, inner, less = layers // chunks, chunks - 2, max(SPREAD // chunks, 1)
    if inner < 1:
        return np.empty((0, chunks), int)
    counts = np.arange(max(even - less, 0), even + less + 2)
    places = np.unique(np.linspace(0, inner, min(inner + 1, MOST_PLACES)).astype(int))
    lasts = np.unique(np.linspace(0, even + less, min(even + less + 1, MOST_LASTS)).astype(int))
    grid = np.meshgrid(places, places, counts, counts, counts, lasts, indexing="ij")
    choices = np.stack(grid, axis=-1).reshape(-1, 6)
    begin, end, before, between, after, last = choices.T
    first = layers - begin * before - (end - begin) * between - (inner - end) * after - last
    possible = (begin < end) & (before != between) & (between != after) & (first >= 0) & (first <= even + less + 2)
    begin, end, before, between, after, last, first = (column[possible, None] for column in (*choices.T, first))
    place = np.arange(inner)
    of_inner = np.where(place < begin, before, np.where(place < end, between, after))
    layouts: np.ndarray = np.unique(np.concatenate([first, of_inner, last], axis=1), axis=0)
    return layouts
