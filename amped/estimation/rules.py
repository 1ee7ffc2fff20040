"""The rules that a mapping breaks, and the nearest values that would keep them; the formulas of the rules find both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from amped.base.errors import AmpedError, Problem
from amped.configuring.layout_text import as_runs
from amped.configuring.scenario import Scenario
from amped.configuring.sources import Given
from amped.configuring.values import TEXTS
from amped.engine.evaluate import Array, Results, run
from amped.engine.resolve import plan
from amped.pipeline_layouts.laying_out import without_own_layout
from amped.theory.language.catalogue import Formula
from amped.theory.language.quantity import Mark

# How many whole numbers are tried on either side of a value.
NEIGHBORHOOD = 8192
CONSEQUENCES = ("data_parallel_degree", "minibatch_size", "tensor_parallel_rows", "tensor_parallel_columns",
                "expert_tensor_parallel_degree")  # fmt: skip
# For a calculated value that is not whole: the rule that reports it.
TELLS = {"tensor_parallel_rows": "the_grid_has_the_tensor_degree",
         "tensor_parallel_columns": "the_grid_has_the_tensor_degree"}  # fmt: skip
# Above this, neighboring whole numbers have the same float64.
LARGEST_WHOLE = 2.0**52


def broken_rules(scenario: Scenario, results: Results) -> Iterator[Problem]:
    """The rules that the mapping breaks, each with its values and the nearest values that keep it.

    A layout that amped itself found is removed first, because it would be another one for other values.
    """
    scenario = replace(scenario, sources=without_own_layout(scenario.sources))
    for name in scenario.catalogue.constraints:
        formula = results.plan.by_name.get(name)
        if formula is None or results.number(name):
            continue
        values = {argument: results.number(argument) for argument in formula.arguments if argument in results}
        if not all(np.isfinite(value) for value in values.values()):
            continue  # `check_finite` reports values that are not finite
        if any(values.get(part, 1.0) % 1 and TELLS.get(part) != name for part in CONSEQUENCES):
            continue  # another rule reports what does not divide
        listed = ", ".join(f"{argument} = {value:.10g}" for argument, value in values.items())
        adjusted = _adjusted(formula, scenario)
        advice = _advice(scenario, results, name, adjusted) + _even_layout(formula, results)
        yield Problem(f"{listed}: {formula.text['summary']}", _where(scenario, adjusted, formula), advice)


def _adjusted(formula: Formula, scenario: Scenario) -> str:
    """The name of the parameter to change: the one just set, the given name in place of the constrained one, or that one."""
    adjusted, given = formula.mark.constrains or "", scenario.sources.origins
    twins = sorted(scenario.catalogue[adjusted].replaces & set(formula.arguments))
    set_now = [name for name in (adjusted, *twins, *formula.arguments) if _is_set(scenario, name)]
    return next((twin for twin in twins if adjusted not in given and twin in given), (set_now or [adjusted])[0])


def _is_set(scenario: Scenario, name: str) -> bool:
    """Whether the user gave the parameter with --set and its value is a number."""
    origin, is_text = scenario.sources.origins.get(name), scenario.catalogue[name].mark.unit in TEXTS
    return isinstance(origin, Given) and origin.where.startswith("--set") and not is_text


def _where(scenario: Scenario, adjusted: str, formula: Formula) -> str:
    """The place where the user gave the parameter to change, else a name that replaces it, else another name of the rule.

    Empty if none of them is given.
    """
    origins, catalogue = scenario.sources.origins, scenario.catalogue
    near = [adjusted, *sorted(catalogue[adjusted].replaces)]
    near += ["pipeline_layout"] * any(
        argument.endswith(("listed_stages", "listed_layers")) for argument in formula.arguments
    )
    near += [part for argument in formula.arguments for part in (argument, *sorted(catalogue[argument].replaces))]
    return next((origins[name].where for name in near if isinstance(origins.get(name), Given)), "")


def _advice(scenario: Scenario, results: Results, rule: str, adjusted: str) -> str:
    """The nearest whole values of `adjusted` that keep every rule, else this rule; for a choice, the other choices."""
    if scenario.catalogue[adjusted].is_selector:
        others = [c for c in scenario.catalogue[adjusted].mark.choices if c != results.plan.choices[adjusted]]
        return f"rule {rule}; choose another {adjusted}: {' or '.join(others)}"
    rules = [name for name in scenario.catalogue.constraints if name in results.plan.by_name]
    value = results.number(adjusted) if adjusted in results.cells else 1.0
    if not value < LARGEST_WHOLE:
        return f"rule {rule}; {adjusted} is absurdly large"
    whole = _near(scenario.catalogue[adjusted].mark, value)
    for rules_to_keep in (rules, [rule]):
        keeping = _keeping(scenario, rules_to_keep, adjusted, whole)
        near = (*keeping[keeping < value][-1:], *keeping[keeping > value][:1])
        if near:
            advice = f"rule {rule}; nearest {adjusted}: {' or '.join(f'{number:.10g}' for number in near)}"
            return advice if len(rules_to_keep) == len(rules) else f"{advice} (another rule stays broken)"
    return f"rule {rule}; no {adjusted} near it keeps it"


def _even_layout(formula: Formula, results: Results) -> str:
    """For a rule about a listed layout, advice with the most even layout of all stages and layers; else empty."""
    if not any(argument.startswith("number_of_listed_") for argument in formula.arguments):
        return ""
    stages, layers = int(results.number("pipeline_parallel_degree")), int(results.number("layers"))
    least, larger_stages = divmod(layers, stages)
    even = as_runs([least] * (stages - larger_stages) + [least + 1] * larger_stages)
    return f"; of {stages} stages with {layers} layers: pipeline_layout = {even}" if least else ""


def _near(mark: Mark, value: float) -> Array:
    """The whole numbers to try around a value; zero and one for a flag, or for a share that may be a flag."""
    if mark.unit == "boolean" or mark.or_boolean:
        return np.array([0.0, 1.0])
    least = 1.0 if mark.at_least is None else mark.at_least
    return np.arange(max(least, np.floor(value) - NEIGHBORHOOD), np.floor(value) + NEIGHBORHOOD + 1)


def _keeping(scenario: Scenario, rules: list[str], adjusted: str, whole: Array) -> Array:
    """The whole values of `adjusted` that keep the rules; all that depends on `adjusted` changes with it."""
    sources = replace(scenario.sources, given=scenario.sources.given | {adjusted: 1.0})
    try:
        chosen = plan(scenario.catalogue, rules, sources)
        results = run(chosen, sources.given, axes={adjusted: whole}, keep=frozenset(rules))
    except AmpedError:
        return whole[:0]
    return whole[np.logical_and.reduce([results.whole(name).reshape(-1) > 0 for name in chosen.targets])]
