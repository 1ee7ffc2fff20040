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
    """Layouts whose inner chunks have up to three numbers of layers, one after another: a row for each layout.

    The first and the last chunk, which have the embedding and the output head, have numbers of their own.

    Args:
        layers: the number of layers.
        chunks: the number of chunks of all stages. With fewer than three there are no inner ones, and no layouts.
    """
    even, inner, less = layers // chunks, chunks - 2, max(SPREAD // chunks, 1)
    if inner < 1:
        return np.empty((0, chunks), int)
    some = np.arange(max(even - less, 0), even + less + 2)
    places = np.unique(np.linspace(0, inner, min(inner + 1, MOST_PLACES)).astype(int))
    lasts = np.unique(np.linspace(0, even + less, min(even + less + 1, MOST_LASTS)).astype(int))
    choices = np.stack(np.meshgrid(places, places, some, some, some, lasts, indexing="ij"), axis=-1).reshape(-1, 6)
    one, two, before, between, after, last = choices.T
    first = layers - one * before - (two - one) * between - (inner - two) * after - last
    kept = (one < two) & (before != between) & (between != after) & (first >= 0) & (first <= even + less + 2)
    one, two, before, between, after, last, first = (column[kept, None] for column in (*choices.T, first))
    place = np.arange(inner)
    of_inner = np.where(place < one, before, np.where(place < two, between, after))
    layouts: np.ndarray = np.unique(np.concatenate([first, of_inner, last], axis=1), axis=0)
    return layouts
