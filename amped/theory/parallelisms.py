"""The parallelisms, and what replicas share out: tables that formulas, results, searches and reports are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Parallelism:
    """A way to share the work out over accelerators.

    Attributes:
        name: what its quantities are named after: `NAME_parallel_degree`, `exposed_NAME_communication_time`, ….
        place: where it stands when a mapping is written; None where its groups lie inside those of the others, so that
            its
            degree does not multiply the number of accelerators.
    """

    name: str
    place: int | None


# In the order of the parts of a step.
ROWS = (
    Parallelism("tensor", place=1),
    Parallelism("pipeline", place=2),
    Parallelism("data", place=0),
    Parallelism("context", place=3),
    Parallelism("expert", place=None),
)
PARALLELISMS = tuple(row.name for row in ROWS)
# Those whose degrees multiply to the number of accelerators, as mappings are written.
PLACED = tuple(row.name for place in range(len(ROWS)) for row in ROWS if row.place == place)


@dataclass(frozen=True)
class Sharding:
    """What the replicas of parameters share out: each flag says so of one kind of state.

    Shared gradients are scattered for every micro-batch, and shared weights are gathered for every pass of one.
    """

    optimizer_state: bool
    gradient: bool
    weight: bool


# By the number of the ZeRO stage.
SHARDINGS = (
    Sharding(optimizer_state=False, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=True),
)


def shares(state: str, zero_stage: Any) -> Any:
    """Whether the replicas share a kind of state out at these stages. Source: arXiv 1910.02054, section 5."""
    flags = [getattr(sharding, state) for sharding in SHARDINGS]
    return np.take(flags, np.asarray(zero_stage).astype(np.int64), mode="clip")
