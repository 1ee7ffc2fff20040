"""A test of many cases lists those that fail, with what their check says, and refuses to check nothing."""

import pytest

from tests.helpers.culprits import for_each


def is_even(number: int) -> None:
    assert number % 2 == 0, "odd"


def test_all_culprits_are_listed_at_once() -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        for_each([1, 2, 3])(is_even)()
    assert "2 of 3 cases fail" in str(failed.value)
    assert [line for line in str(failed.value).splitlines() if "odd" in line] == [
        "(1,): AssertionError: odd",
        "(3,): AssertionError: odd",
    ]


def test_a_check_that_breaks_is_a_failure_too() -> None:
    with pytest.raises(pytest.fail.Exception, match="TypeError"):
        for_each(["text"])(is_even)()


def test_without_a_case_nothing_is_checked_and_that_fails() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        for_each([])(is_even)()


@for_each([2, 4])
def test_a_check_of_cases_is_a_test_of_its_name(number: int) -> None:
    assert number % 2 == 0
