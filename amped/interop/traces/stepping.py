"""The steps of a trace: by the marks of the profiler, else by the ends of the optimizer's steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from amped.base.errors import FileError, Problem
from amped.interop.traces.host import Calls
from amped.interop.traces.marks import STEP, step_marks
from amped.interop.traces.trace import Step, Work

UNMARKED = "no step is marked in it"
ADVICE = "call step() of the profiler after each step, or record at least two optimizer steps"


def found_steps(calls: Calls, names: Sequence[str], work: Work, on_device: bool, path: Path) -> tuple[Step, ...]:
    """The steps of a trace.

    On a device a step lasts from the first kernel that the host launched in it to the first one of the next step. The
    last step has no next one: it counts only if it is the only one, and lasts until its last kernel.

    Raises:
        FileError: if no step is marked.
    """
    for pattern, what in step_marks():
        marked = [place for place, name in enumerate(names) if pattern.search(name)]
        which = np.flatnonzero(np.isin(calls.name, marked))
        rows = sorted((float(calls.start[call]), float(calls.end[call]), names[calls.name[call]]) for call in which)
        if what != STEP:
            rows = [(begin, end, name) for (_, begin, _), (_, end, name) in pairwise(rows)]
        if rows:
            steps = tuple(Step(name, begin, end) for begin, end, name in rows)
            return _on_device(steps, work) if on_device else steps
    raise FileError(Problem(UNMARKED, advice=ADVICE), file=str(path))


def _on_device(steps: Sequence[Step], work: Work) -> tuple[Step, ...]:
    """The steps as the device ran them."""
    launched = np.where(np.isnan(work.launched), work.start, work.launched)
    found = list[tuple[str, float, float]]()
    for name, begin, end in steps:
        which = (launched >= begin) & (launched < end)
        if which.any():
            found.append((name, float(work.start[which].min()), max(float(work.end[which].max()), end)))
    whole = [Step(name, begin, after) for (name, begin, _), (_, after, _) in pairwise(found) if after > begin]
    return tuple(whole) or tuple(Step(*only) for only in found)
