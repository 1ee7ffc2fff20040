"""The joint choice of mapping and switches beside the published recipes of the same network on the same machine."""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.drafting.switches import tuned
from amped.estimation.estimation import Estimation, estimated
from amped.exploration.search_space import HEADROOM
from amped.tables.recipes import BY_FORCE
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import MAPPING
from amped.validation.measurements import Measurement, read_measurements
from amped.validation.table import STEP
from tests.helpers.marks import further

# What of a recipe's mapping stays in the question: how experts are balanced, and what the precision means.
KEPT = {*BY_FORCE, "fp8_scaling"}
# Of the questions of all mixtures in the table, so many are drawn, always the same ones; the first few run each time.
DRAWN, FEW, SEED = 30, 4, 44
FURTHER = [further(place) for place in range(FEW + 1, DRAWN + 1)]
# A recipe that was faster once: micro-batches of more than 16,384 tokens were not tried.
FOUND = "mb-26.06-b300-qwen3_30b_a3b-fp8mx-8x512"


def question_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Network, machine, batch, precision, software and balance of experts; degrees and switches are left out."""
    known = catalogue()
    return {n: v for n, v in settings.items() if n in KEPT or n not in known or known[n].category != MAPPING} | {
        HEADROOM: 0
    }


@cache
def recipes() -> Mapping[str, Sequence[Measurement]]:
    """The steps of mixtures in the table, by their question as a text."""
    by_question: dict[str, list[Measurement]] = {}
    for row in read_measurements():
        if not row.reason and row.kind == STEP and float(row.settings.get("number_of_experts") or 0) > 1:
            by_question.setdefault(repr(sorted(question_of(row.settings).items())), []).append(row)
    return by_question


@cache
def questions() -> list[Sequence[Measurement]]:
    """The rows of the question that failed once, and of each question that is drawn."""
    drawn = random.Random(SEED).sample(sorted(recipes()), DRAWN)
    failed = (rows for rows in recipes().values() if FOUND in {row.id for row in rows})
    return [*failed, *(recipes()[question] for question in drawn)]


def fastest_recipe(rows: Sequence[Measurement]) -> Estimation | None:
    """The estimate of the recipe that amped takes for the fastest; None if it takes none for one that fits in memory."""
    estimates = [estimated(read_scenario({}, {**row.settings, HEADROOM: 0})) for row in rows]
    return min((e for e in estimates if e["fits_in_memory"]), key=lambda e: e["step_time"], default=None)


@pytest.mark.thorough
@pytest.mark.parametrize("place", [*range(FEW + 1), *FURTHER])
def test_the_joint_choice_is_no_slower_than_any_published_recipe(place: int) -> None:
    rows = questions()[place]
    recipe = fastest_recipe(rows)
    if recipe is None:
        pytest.skip(f"by amped's own count {rows[0].id} does not fit in memory")
    chosen = estimated(tuned(question_of(rows[0].settings)))
    assert chosen["fits_in_memory"]
    assert chosen["step_time"] <= recipe["step_time"] * (1 + 1e-9), [row.id for row in rows]
