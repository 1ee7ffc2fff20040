"""Work in parts, spread over cores."""

import gc
import os

import pytest

from amped.base.processes import side_by_side, usable_cores


@pytest.mark.parametrize("processes", [1, min(usable_cores(), 2)])
def test_parts_come_back_in_their_order(processes: int) -> None:
    """One process is this one; several are forked beside it."""
    found = side_by_side(squared, [3, 1, 2], processes)
    assert [value for value, _ in found] == [9, 1, 4]
    assert {process == os.getpid() for _, process in found} == {processes < 2}


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
        side_by_side(refused, [1, 2], 1)
    assert gc.isenabled()
