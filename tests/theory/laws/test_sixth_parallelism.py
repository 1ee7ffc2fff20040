"""A parallelism that the book does not have: one row of a table and one page of messages, and everything knows it.

The sixth is Ulysses inside context parallelism. Alone it must be what `context_parallel_kind = all_to_all` is.
"""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from amped.base.aliases import aliases
from amped.theory.nouns.parallelisms import ROWS, Parallelism
from tests.helpers.contract import CONTRACT_PARTS, OFFLOAD_PART
from tests.helpers.places import ROOT

MAPPING = {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "number_of_accelerators": 32, "context": 8192}
QUESTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "alone": {"ulysses_parallel_degree": 4, "ulysses_degree": 4},
    "as a kind": {"context_parallel_degree": 4, "context_parallel_kind": "all_to_all"},
    "on a ring": {"ulysses_parallel_degree": 2, "ulysses_degree": 2, "context_parallel_degree": 2},
    "hidden": {"ulysses_parallel_degree": 4, "ulysses_degree": 4, "overlap_ulysses_communication": True},
}
EXPOSED, HIDDEN = "exposed_ulysses_communication_time", "hidden_ulysses_communication_time"


@cache
def answers() -> Any:
    """The answers of a process whose tables have the sixth parallelism."""
    questions = json.dumps([MAPPING | question for question in QUESTIONS.values()])
    script = ROOT / "tests" / "helpers" / "sixth_parallelism.py"
    done = subprocess.run([sys.executable, script, questions], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(name: str) -> Any:
    """The answer to one question."""
    return answers()["estimates"][[*QUESTIONS].index(name)]


def test_it_has_an_option_a_degree_and_parts_of_a_step() -> None:
    assert answers()["option"] == "Ulysses-parallel degree."
    assert (told("none")["ulysses_parallel_degree"], told("none")[EXPOSED]) == (1, 0)
    assert told("alone")[EXPOSED] > 0
    assert (
        told("alone")["intra_node_ulysses_parallel_degree"] * told("alone")["inter_node_ulysses_parallel_degree"] == 4
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_option_of_a_row_is_its_short_name_everywhere(row: Parallelism) -> None:
    assert aliases().given(row.option, 2) == {f"{row.name}_parallel_degree": 2}


def test_data_parallelism_takes_the_accelerators_that_it_leaves() -> None:
    assert [told(name)["data_parallel_degree"] for name in ("none", "alone", "on a ring")] == [8, 2, 2]


def test_alone_it_is_what_context_parallelism_of_that_kind_is() -> None:
    ours, theirs = told("alone"), told("as a kind")
    assert ours[EXPOSED] == theirs["exposed_context_communication_time"]
    for name in (
        "step_time",
        "memory_per_accelerator_bytes",
        "pipeline_bubble_time",
        "exposed_data_communication_time",
    ):
        assert ours[name] == theirs[name], name


@pytest.mark.parametrize("name", QUESTIONS)
def test_its_messages_are_in_the_sum_of_the_step(name: str) -> None:
    whole = sum(told(name)[part] for part in {*CONTRACT_PARTS, OFFLOAD_PART, EXPOSED})
    assert told(name)["step_time"] == pytest.approx(whole, rel=1e-12)


def test_on_a_ring_both_have_messages_and_its_switch_hides_its_own() -> None:
    assert told("on a ring")[EXPOSED] > 0
    assert told("on a ring")["hidden_context_communication_time"] > 0
    assert told("alone")[HIDDEN] == 0
    assert told("hidden")[HIDDEN] > 0
    assert told("hidden")["step_time"] < told("alone")["step_time"]
