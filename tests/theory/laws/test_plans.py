"""Laws of plans: marks that name what exists, plans that are closed, nothing unused, and the contract."""

import inspect
import math

import pytest

from amped.estimation.estimation import OPTIONAL_RESULTS, RESULTS
from amped.estimation.parts import STEP_PARTS
from amped.theory.language.catalogue import catalogue
from amped.theory.nouns.conditions import OFFLOADS
from tests.helpers.contract import CONTRACT, CONTRACT_PARTS, KINDS, OFFLOAD_PART
from tests.helpers.culprits import for_each
from tests.helpers.laws import (
    SHAPES,
    estimate_of,
    every_formula,
    title,
    used_formulas,
)

# --- what a formula says about itself --------------------------------------------------------------------------------


def test_every_formula_says_what_it_is_and_where_it_comes_from() -> None:
    told = {title(f): f.text for f in every_formula()}
    sentences = {
        name: text["summary"] if text["summary"][-1:] != ":" else text["equation"] for name, text in told.items()
    }
    assert [name for name, sentence in sentences.items() if not sentence.endswith((".", ")"))] == []
    assert [name for name, text in told.items() if len(text["source"]) <= 3] == []


# The formulas with more than ten arguments, and why. The list only shrinks.
LONG = {
    "tile_losses": "no equation: it puts the coefficients of one row of a table into one record",
    "product_rates": "no equation: it puts the coefficients of one row of a table into one record",
    "network__electrical": "no equation: it puts what is known of links into one record",
}


def test_a_formula_has_at_most_ten_arguments() -> None:
    counts = {title(f): inspect.unwrap(f.function).__code__.co_argcount for f in every_formula()}
    assert {name for name, count in counts.items() if count > 10} == set(LONG)


def test_selectors_are_never_arguments() -> None:
    known = catalogue()
    taken = {(title(f), a) for f in every_formula() for a in f.arguments if known[a].is_selector}
    assert taken == set()


def test_a_parameter_takes_no_arguments_and_a_selector_returns_one_of_its_choices() -> None:
    leaves = [f for f in every_formula() if f.mark.kind == "parameter"]
    assert [title(f) for f in leaves if f.arguments] == []
    known = catalogue()
    strange = [title(f) for f in leaves if f.mark.unit == "choice" and f.function() not in known[f.name].mark.choices]
    assert strange == []


def test_every_choice_that_a_formula_waits_for_is_a_choice_of_its_selector() -> None:
    known = catalogue()
    waiting = {(f.mark.choice, f.mark.value) for f in every_formula() if f.mark.choice}
    assert {pair for pair in waiting if pair[1] not in known[str(pair[0])].mark.choices} == set()


@pytest.mark.parametrize("listed", ["replaces", "when_given", "when_any_given", "even_with"])
def test_the_names_in_a_mark_exist(listed: str) -> None:
    known = catalogue()
    assert {n for f in every_formula() for n in getattr(f.mark, listed) if n not in known} == set()


def test_a_rule_names_one_of_the_quantities_it_is_about() -> None:
    known = catalogue()
    rules = [f for name in known.constraints for f in known[name].formulas]
    numbers = [f for f in rules if f.mark.constrains not in known.selectors]
    assert [title(f) for f in numbers if f.mark.constrains not in f.arguments] == []
    assert {f.mark.unit for f in rules} == {"boolean"}


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@for_each(SHAPES)
def test_every_plan_is_closed_and_acyclic(shape: str) -> None:
    plan, given = estimate_of(shape).plan, estimate_of(shape).scenario.sources.given
    assert set(plan.leaves) <= set(given)
    known = set(plan.leaves)
    for name, formula in plan.by_name.items():
        assert set(formula.arguments) <= known, name
        assert name not in known
        known.add(name)
    assert set(plan.targets) <= known


@pytest.mark.thorough
def test_nothing_in_the_catalogue_is_unused() -> None:
    unused = set(every_formula()) - used_formulas()
    assert (
        sorted(title(f) for f in unused if f.mark.unit not in ("pattern", "blocks")) == []
    )  # patterns are read before plans are made


# --- the contract ----------------------------------------------------------------------------------------------------


def test_the_results_of_the_contract_are_all_there() -> None:
    assert set(CONTRACT) <= {*RESULTS, *OPTIONAL_RESULTS}
    assert set(STEP_PARTS) == CONTRACT_PARTS | {OFFLOAD_PART}
    assert set(STEP_PARTS) <= set(RESULTS)
    hidden = {f"hidden_{kind}_communication_time" for kind in KINDS}
    assert hidden <= set(RESULTS)


@for_each(SHAPES)
def test_a_part_beside_the_contract_is_nothing_without_offload(shape: str) -> None:
    offloaded = any(estimate_of(shape).scenario.sources.given.get(name, 0) > 0 for name in OFFLOADS)
    assert offloaded or estimate_of(shape)[OFFLOAD_PART] == 0


@for_each(SHAPES)
def test_the_parts_of_a_step_sum_to_its_time(shape: str) -> None:
    estimate = estimate_of(shape)
    assert list(estimate.breakdown) == list(STEP_PARTS)
    assert math.fsum(estimate.breakdown.values()) == pytest.approx(estimate["step_time"], rel=1e-9, abs=0)
    steps = estimate["number_of_steps"] * estimate["step_time"]
    assert estimate["training_time"] == pytest.approx(steps / estimate["goodput_fraction"], rel=1e-12)
    assert 0 < estimate["goodput_fraction"] <= 1


@for_each(SHAPES)
def test_an_estimate_is_a_flat_object_of_plain_values(shape: str) -> None:
    shown = estimate_of(shape).to_dict()
    assert set(CONTRACT) | CONTRACT_PARTS <= set(shown)
    assert isinstance(shown.pop("not_modeled"), list)
    assert {type(value) for value in shown.values()} <= {float, bool, str}
    assert type(shown["fits_in_memory"]) is bool
