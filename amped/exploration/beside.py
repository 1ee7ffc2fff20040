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


def further_degrees(experts: int, is_one_dimensional: bool, sweeps: Swept) -> tuple[str, ...]:
    """The names of the expert degrees and of the columns of a grid that are searched, without those that the user settles.

    The columns of a tensor-parallel grid are searched in every space: a grid without columns has one dimension.

    Args:
        experts: the routed experts of a layer; 1 in a dense network.
        is_one_dimensional: whether the tensor-parallel strategy has no grid.
        sweeps: what the user and the space sweep.
    """
    mixture = sweeps.space.experts and (experts > 1 or "number_of_experts" in sweeps.axes)
    needed = {COLUMNS_OF_GRID: not is_one_dimensional, EXPERT_TENSOR: mixture, EXPERTS: mixture}
    return tuple(name for name, is_needed in needed.items() if is_needed and name not in sweeps.settled)


def values_to_try(
    name: str, cases: Sequence[Case], case_of_row: NDArray[np.intp], columns: Columns, every: bool
) -> tuple[NDArray[np.intp], list[Array]]:
    """For each row the number of its list of values, and these lists.

    The expert degrees divide the experts. The columns divide the tensor-parallel group. The expert tensor degrees are 1 and
    the number of rows of this group (with `every`, all divisors of this number).

    Args:
        name: the degree whose values are tried.
        cases: the cases of the family.
        case_of_row: the number of the case of each row.
        columns: the degrees of each row, by name.
        every: whether all expert tensor degrees that divide are tried.
    """
    if name == EXPERTS:
        return case_of_row, [column_of_divisors(case.experts) for case in cases]
    group = columns["tensor_parallel_degree"]
    if name == EXPERT_TENSOR:
        has_experts = np.array([case.experts > 1 for case in cases])[case_of_row]
        group = np.where(has_experts, group / columns.get(COLUMNS_OF_GRID, 1.0), 1.0)
    sizes, number_of_list = np.unique(group, return_inverse=True)
    lists = [
        np.unique([1.0, size]) if name == EXPERT_TENSOR and not every else column_of_divisors(int(size))
        for size in sizes
    ]
    return number_of_list.astype(np.intp), lists


def most_values(name: str, case: Case) -> int:
    """An upper bound of how many values of the degree `name` are tried with one row.

    It counts all divisors of the experts (for expert parallelism) or of the accelerators (for the other degrees).
    """
    return len(divisors(case.experts if name == EXPERTS else case.accelerators))
