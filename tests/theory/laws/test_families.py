"""A formula written once for several: what its members are called, ask for and give."""

import pytest

from amped.base.errors import WiringError
from amped.theory.language.quantity import each_of, family, mark_of, members_of, quantity


@family(named=("left_share", "right_share"), SIDE=("left", "right"), OTHER=("right", "left"))
@quantity("count", replaces=("old_SIDE_share",))
def SIDE_share(SIDE_part, OTHER_part, *, side):  # noqa: N802, N803
    """The share of the SIDE part."""
    return {side: SIDE_part / (SIDE_part + OTHER_part), "all": sum(SIDE_part for _ in range(2))}


def test_each_member_has_its_own_name_arguments_and_docstring() -> None:
    left, right = members_of(SIDE_share)
    assert (left.__name__, right.__name__) == ("left_share", "right_share")
    assert left.__amped_arguments__ == ("left_part", "right_part")
    assert right.__amped_arguments__ == ("right_part", "left_part")
    assert (left.__doc__, right.__doc__) == ("The share of the left part.", "The share of the right part.")


def test_each_member_has_its_own_mark_and_leaves_the_pattern_as_it_was() -> None:
    assert [mark_of(member).replaces for member in members_of(SIDE_share)] == [
        ("old_left_share",),
        ("old_right_share",),
    ]
    assert mark_of(SIDE_share).replaces == ("old_SIDE_share",)


def test_a_member_is_told_its_own_row_and_gets_its_arguments_in_order() -> None:
    left, right = members_of(SIDE_share)
    assert left(1.0, 3.0) == {"left": 0.25, "all": 2.0}
    assert right(3.0, 1.0) == {"right": 0.75, "all": 6.0}


def test_names_that_are_written_out_are_those_of_the_members() -> None:
    def SIDE_end(SIDE_part: float) -> float:  # noqa: N802, N803
        return SIDE_part

    wrong = family(named=("left_end", "other_end"), SIDE=("left", "right"))(SIDE_end)
    with pytest.raises(WiringError, match="names left_end, other_end, but makes left_end, right_end"):
        members_of(wrong)


def test_a_formula_without_a_family_stands_for_itself() -> None:
    assert members_of(mark_of) == [mark_of]


def test_words_of_unequal_length_are_refused() -> None:
    uneven = family(SIDE=("left", "right"), OTHER=("right",))(lambda SIDE_part: SIDE_part)  # noqa: N803
    with pytest.raises(ValueError, match="zip"):
        members_of(uneven)


# --- one argument for several ----------------------------------------------------------------------------------------


@each_of(SIDE=("left", "middle", "right"))
@quantity("count")
def number_of_shares(first_share, SIDE_share):  # noqa: N803
    """All shares."""
    return first_share + 10 * sum(SIDE_share) + 100 * len(SIDE_share)


def test_an_argument_of_several_names_is_a_tuple_of_their_values() -> None:
    (formula,) = members_of(number_of_shares)
    assert formula.__amped_arguments__ == ("first_share", "left_share", "middle_share", "right_share")
    assert formula(1.0, 2.0, 3.0, 4.0) == 391.0
    assert (formula.__name__, formula.__doc__, mark_of(formula).unit) == ("number_of_shares", "All shares.", "count")


@family(SIDE=("left", "right"), EARLIER=((), ("left",)))
@quantity("count")
def SIDE_room(EARLIER_share, SIDE_part):  # noqa: N802, N803
    """The room of the SIDE part."""
    return SIDE_part - sum(EARLIER_share)


def test_members_of_a_family_may_take_unlike_numbers_of_arguments() -> None:
    left, right = members_of(SIDE_room)
    assert (left.__amped_arguments__, right.__amped_arguments__) == (("left_part",), ("left_share", "right_part"))
    assert (left(5.0), right(2.0, 5.0)) == (5.0, 3.0)
