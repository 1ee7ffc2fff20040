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
COUNTED = (*DEGREES, *SWITCHES, *CHOICES)


def mechanisms_of_rows(columns: Mapping[str, Any], size: int) -> Array:
    """The number of mechanisms that each row uses."""
    return sum((_uses(name, column[:]) for name, column in columns.items() if name in COUNTED), np.zeros(size))


def mechanisms_of_axes(axes: Columns) -> Array:
    """The number of mechanisms that each open cell uses; the last axis runs fastest."""
    numbers: Array = np.zeros(1)
    for name, axis in axes.items():
        numbers = np.add.outer(numbers, _uses(name, axis) if name in COUNTED else np.zeros(len(axis))).reshape(-1)
    return numbers


def _uses(name: str, values: Any) -> Any:
    """For each value of a name, whether a candidate with it uses one more mechanism."""
    return values != CHOICES[name] if name in CHOICES else values > (name in DEGREES)
