"""`amped validate --bands`: for each class of what is new, how wide bands are and whether they hold."""

import json

import pytest

from amped.calibration.leave_out import Checked, bands_checked
from amped.estimation.uncertainty import MEMORY_LAW, TIME_LAW
from amped.estimation.validated import Left
from amped.report.bands import by_newness, plain
from tests.estimation.test_uncertainty import readings, runs
from tests.helpers.validation import validate


def test_a_run_is_checked_by_runs_that_share_nothing_of_what_is_new():
    """Two machines with two stacks of eighteen sources each: without a source both are known, and no pair is new in all."""
    known = [
        *runs([0.1] * 18), *runs([0.2] * 18, accelerator="other"),
        *runs([0.1] * 18, software="eager"), *runs([0.2] * 18, accelerator="other", software="eager"),
    ]  # fmt: skip
    found = plain(bands_checked(known, TIME_LAW))
    assert {name: part["rows"] for name, part in found.items()} == dict.fromkeys(
        ("the source", "source, accelerator", "source, stack", "all three"), len(known)
    )
    assert found["the source"]["share_inside"] == 1
    assert found["source, accelerator"]["share_inside"] == 0.5  # what the other machine tells holds for the better one
    assert found["the source"]["mean_absolute_error_fraction"] == pytest.approx(0.15)


def test_an_accelerator_of_one_source_counts_as_new_without_it():
    known = [*runs([0.1] * 18), *runs([0.1] * 4, sources=("alone",), accelerator="own")]
    of_source = [each for each in bands_checked(known) if each.left is Left.SOURCE]
    assert len(of_source) == 18


def test_memory_is_checked_by_its_own_law():
    assert {each.left for each in bands_checked(readings([0.1] * 9), MEMORY_LAW)} == {Left.SOURCE}


def test_small_classes_are_counted_together():
    checked = [
        Checked(left, f"{left} {i}", 0.1, 0.2, is_inside=True)
        for left, n in ((Left.SOURCE, 20), (Left.STACK, 3), (Left.ALL, 4))
        for i in range(n)
    ]
    assert {name: len(part) for name, part in by_newness(checked).items()} == {
        "the source": 20,
        "source, stack or all three": 7,
    }


@pytest.mark.thorough
def test_it_is_printed_for_people_and_for_programs(tmp_path):
    told = json.loads(validate("--bands", "--json", folder=tmp_path))
    text = validate("--bands", folder=tmp_path)
    assert {*told} == {TIME_LAW.quantity, MEMORY_LAW.quantity}
    assert all(name in text for part in told.values() for name in part)
