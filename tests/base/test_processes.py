"""Work in parts, spread over cores."""

import gc
import os

import pytest

from amped.base.processes import side_by_side, usable_cores


def test_parts_come_back_in_their_order_from_processes_of_their_own() -> None:
    """The first part is worked on in this process, where the platform forks each other one beside it."""
    found = side_by_side(squared, [3, 1, 2])
    assert [value for value, _ in found] == [9, 1, 4]
    assert found[0][1] == os.getpid()
    assert usable_cores() == 1 or os.getpid() not in [process for _, process in found[1:]]


def squared(number: int) -> tuple[int, int]:
    """A square, and the process that found it."""
    return number**2, os.getpid()


def refused(number: int) -> int:
    """Raises for one part."""
    if number == 2:
        raise ValueError("two")
    return number


def test_what_a_part_raises_is_raised_and_the_collector_runs_again() -> None:
    with pytest.raises(ValueError, match="two"):
        side_by_side(refused, [1, 2])
    assert gc.isenabled()
