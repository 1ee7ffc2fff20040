"""What the kinds of measured kernels share: what predicts them, and their time by the law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.theory.link_records import Network
from amped.theory.records import Kernels, Operator
from amped.theory.roofline.kernels import kernel_time

Array = NDArray[np.float64]
Columns = Mapping[str, Any]
# Bytes of an entry in 16 bits and in full precision.
WIDE, FULL = 2.0, 4.0


@dataclass(frozen=True)
class Predictor:
    """All that predicts the kernels of one accelerator in one precision.

    Attributes:
        rates: the rates of single kernels.
        entry: bytes of an entry of a product's factors.
        frequency: cycles of a core per second.
        network: the links for collectives, if a system with the accelerator is known.
        cache: bytes of the cache that all cores share; 0 if it is not known.
    """

    rates: Kernels
    entry: float
    frequency: float
    network: Network | None = None
    cache: float = 0.0


def timed(made: Operator, machine: Predictor) -> Any:
    """The predicted time of one kernel."""
    return kernel_time(made, machine.rates)  # type: ignore[no-untyped-call]


def floats(column: Any) -> Array:
    """A column as numbers."""
    return np.asarray(column, dtype=np.float64)
