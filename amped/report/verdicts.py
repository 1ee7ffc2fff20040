"""What every report of an estimate says alike: the kind of time of each part with its color, and how sure the verdict on memory is."""

from __future__ import annotations

import math

from amped.estimation.estimation import Estimation
from amped.report import human

CLOSE = ", but it is close"
# One color for each kind of time; all tables and plots use it.
COLORS = {"compute": "blue", "recomputation": "cyan", "communication": "yellow", "bubble": "red", "memory": "green"}


def kind_of(part: str) -> str:
    """The kind of time (a key of `COLORS`) to which a part of the step belongs."""
    if "communication" in part:
        return "communication"
    if "bubble" in part or "wait" in part:
        return "bubble"
    return "recomputation" if part.startswith("recomputation") else "compute"


def memory_margin(e: Estimation) -> tuple[str, bool]:
    """The error of memory in GB as text, and whether the error may change the verdict.

    The text is empty for the closed form, which has no error band.
    """
    if e.memory_band is None:
        return "", False
    need, error = e["memory_per_accelerator_bytes"], e.memory_band.error_fraction
    if error == math.inf:
        return " ± unknown", True
    is_close = need / (1 + error) <= e["available_memory_bytes"] < need * (1 + error)
    return f" ± {human.digits(need * error / human.GIGA, 2)}", is_close
