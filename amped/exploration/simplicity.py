"""Counts the mechanisms that a candidate uses.

Among equally fast candidates, the one with the fewest is shown first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from amped.engine.evaluate import Array, Columns
from amped.exploration.search_space import CHUNKS, wholes
from amped.exploration.sweep_axes import COLUMNS_OF_GRID, EXPERT_TENSOR, EXPERTS
from amped.theory.nouns.conditions import OFFLOADS

# A degree is in use above one, a switch above zero, and a choice if it differs from the one here.
DEGREES = (*(n for n in wholes() if n != "data_parallel_degree"), CHUNKS, EXPERTS, EXPERT_TENSOR, COLUMNS_OF_GRID)
SWITCHES = ("zero_stage", "sequence_parallel", "activation_function_recomputation", *OFFLOADS)
CHOICES = {"activation_recomputation": "none"}


def mechanisms_of_rows(columns: Columns, outer: list[Mapping[str, Any]], case: Any) -> Array:
    """The number of mechanisms that each row uses: degrees above one, switches, and the choices of its case."""
    chosen = np.array([sum(own.get(name, value) != value for name, value in CHOICES.items()) for own in outer], float)
    found: Array = chosen[case]
    for name in (*DEGREES, *SWITCHES):
        if name in columns:
            found = found + (columns[name] > (name in DEGREES))
    return found


def mechanisms_of_axes(axes: Columns) -> Array:
    """The number of mechanisms that each open cell uses; the last axis runs fastest."""
    found: Array = np.zeros(1)
    for name, axis in axes.items():
        own = (axis > (name in DEGREES)) if name in (*DEGREES, *SWITCHES) else np.zeros(len(axis))
        found = np.add.outer(found, own).reshape(-1)
    return found
