"""Degrees that only some networks and strategies have: those of experts, and the columns of a tensor-parallel grid.

They are not factors of the machine's size; they divide the experts of a layer or a tensor-parallel group. Which values
divide depends on the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from amped.engine.evaluate import Array, Columns
from amped.exploration.factorizations import column_of_divisors
from amped.exploration.one_case import Case
from amped.exploration.sweep_axes import COLUMNS_OF_GRID, EXPERT_TENSOR, EXPERTS, Swept
from amped.theory.nouns.divisors import divisors


def searched_beside(experts: int, one_dimension: bool, sweeps: Swept) -> tuple[str, ...]:
    """The degrees to search for a network with this many experts, without those that the user settles.

    A grid of tensor parallelism has its columns searched in every space, for without them it is one dimension.
    """
    mixture = sweeps.space.experts and (experts > 1 or "number_of_experts" in sweeps.axes)
    needed = {COLUMNS_OF_GRID: not one_dimension, EXPERT_TENSOR: mixture, EXPERTS: mixture}
    return tuple(name for name, is_needed in needed.items() if is_needed and name not in sweeps.settled)


def values_beside(
    name: str, cases: Sequence[Case], case: NDArray[np.intp], columns: Columns, every: bool
) -> tuple[NDArray[np.intp], list[Array]]:
    """The lists of values, and which list each row tries.

    It tries expert degrees that divide the experts; expert tensor degrees of one and of all rows of the tensor-parallel
    group (with `every`, all that divide these rows); and columns that divide the group.
    """
    if name == EXPERTS:
        return case, [column_of_divisors(of_case.experts) for of_case in cases]
    group = columns["tensor_parallel_degree"]
    if name == EXPERT_TENSOR:
        has_experts = np.array([of_case.experts > 1 for of_case in cases])[case]
        group = np.where(has_experts, group / columns.get(COLUMNS_OF_GRID, 1.0), 1.0)
    groups, which = np.unique(group, return_inverse=True)
    few = name == EXPERT_TENSOR and not every
    return which.astype(np.intp), [np.unique([1.0, size]) if few else column_of_divisors(int(size)) for size in groups]


def most_values(name: str, case: Case) -> int:
    """The largest number of values of a name that a row of a case tries."""
    return len(divisors(case.experts if name == EXPERTS else case.accelerators))
