"""Work in parts, spread over the cores of this machine."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


def usable_cores() -> int:
    """The number of processes to work with: the cores that this process may use if it can be forked, else 1.

    A fork starts at once and has all that was read already. Only Linux forks safely after libraries have been loaded.
    """
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def side_by_side(work: Callable[[Part], Result], parts: Sequence[Part], processes: int) -> list[Result]:
    """The results of `work` for each part, in the order of the parts.

    Each of the processes takes the next part when it is done with one. If the longest parts come first, none waits long
    for the others. With one process, this one does all work. An error that a part raises is raised here.
    """
    with _no_garbage_collection():
        if processes < 2:
            return [work(part) for part in parts]
        with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as executor:
            return list(executor.map(work, parts))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Turns off the garbage collector inside: many records are made, and few of them refer to each other in circles.

    To look for such circles takes a tenth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
