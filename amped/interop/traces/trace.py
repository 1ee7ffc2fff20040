"""What amped keeps of a trace of one process: what ran on its device, and what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from amped.base.record import dataclass

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
# The parts of a step that an operator is of.
FORWARD, BACKWARD, RECOMPUTATION, OPTIMIZER = range(4)
PARTS = ("forward", "backward", "recomputation", "optimizer")


class Step(NamedTuple):
    """A step of a trace: its name there, and the seconds of its begin and its end."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Work:
    """What ran, an entry for each kernel, copy or, without an accelerator, piece of an operator; in the order of `start`.

    Attributes:
        start, end: seconds since the first event of the trace.
        name: the place of the name in `Trace.names`.
        operator: the place of the name of the operator that launched it; -1 if the trace does not say it.
        part: the part of the step, of `PARTS`.
        launched: the seconds at which the host had launched it; not a number if the trace does not say it.
        shape: the place of the shapes of its operator in `Trace.shapes`; -1 if the trace does not say them.
    """

    start: Floats
    end: Floats
    name: Integers
    operator: Integers
    part: Integers
    launched: Floats
    shape: Integers

    def chosen(self, which: Integers | NDArray[np.bool_]) -> Work:
        """Some of the entries."""
        return Work(*(getattr(self, column)[which] for column in COLUMNS))


COLUMNS = ("start", "end", "name", "operator", "part", "launched", "shape")


@dataclass(frozen=True)
class Trace:
    """A trace of one process.

    Attributes:
        file: its file.
        source: the profiler that wrote it.
        rank, ranks: the number of the process and of all processes; -1 and 0 if the trace does not say them.
        device: the name of the accelerator; empty without one.
        names: the names of all kernels and operators.
        shapes: the sizes of the tensors of operators, as the trace has them.
        work: what ran.
        waits: begins and ends of the calls in which the host waits for the device.
        loading: begins and ends of the ranges in which the host waits for data.
        steps: the steps, in their order.
        memory: the moments at which memory was taken or given back, and the bytes that were then allocated.
    """

    file: str
    source: str
    rank: int
    ranks: int
    device: str
    names: Sequence[str]
    shapes: Sequence[str]
    work: Work
    waits: tuple[Floats, Floats]
    loading: tuple[Floats, Floats]
    steps: tuple[Step, ...]
    memory: tuple[Floats, Floats]
