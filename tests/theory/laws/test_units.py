"""Laws of units: every formula, called with them, returns the one that it declares, as does its name."""

import numpy as np
import pytest
from pint import DimensionalityError

from amped.base.units import DIMENSIONLESS, registry
from amped.theory.catalogue import catalogue, unit_of_name
from tests.helpers.laws import estimate_of, every_formula, every_shape, title


def with_unit(data: object, unit: str) -> object:
    return data if unit in (*DIMENSIONLESS, "layout") else registry().Quantity(data, unit)


def in_unit(result: object, unit: str) -> np.ndarray:
    """The bare number of a result in `unit`; pint refuses another dimension."""
    wanted = "dimensionless" if unit in DIMENSIONLESS else unit
    return np.asarray(registry().Quantity(result).to(wanted).magnitude, dtype=np.float64)


@every_shape
def test_every_formula_called_with_units_returns_its_declared_unit(shape: str) -> None:
    results = estimate_of(shape).results
    known, united = catalogue(), {}
    for name in results.plan.leaves:
        united[name] = with_unit(results.cells[name][0], known[name].mark.unit)
    wrong = []
    for name, formula in results.plan.by_name.items():
        data = results.cells[name][0]
        if formula.mark.kind == "records":
            united[name] = formula.function(*(united[a] for a in formula.arguments))
            continue
        unit = formula.mark.unit
        if formula.arguments:
            result = formula.function(*(united[a] for a in formula.arguments))
            try:
                np.testing.assert_allclose(in_unit(result, unit), data, rtol=1e-12)
            except (DimensionalityError, AssertionError) as error:
                wrong.append(f"{title(formula)}: {error}")
        united[name] = with_unit(data, unit)
    assert wrong == []


@pytest.mark.parametrize("name", sorted(set(catalogue()) - set(catalogue().constraints)))  # rules are sentences
def test_the_word_that_ends_a_name_agrees_with_its_unit(name: str) -> None:
    promised, declared = unit_of_name(name), catalogue()[name].mark.unit
    assert promised in (None, declared)


# Units whose quantities say so at the end of their names; sizes of an entry and capacities are bytes too.
SAID = ("s", "byte/s", "byte", "flop", "flop/s", "J", "W")
BYTES = ("_precision", "_capacity", "_unit_width", "_bytes")


@pytest.mark.parametrize("name", sorted(n for n, q in catalogue().items() if q.mark.unit in SAID))
def test_a_quantity_of_a_unit_has_its_word(name: str) -> None:
    unit = catalogue()[name].mark.unit
    assert unit_of_name(name) == unit or (unit == "byte" and name.endswith(BYTES))


def test_unit_words_are_found_before_per_and_nowhere_else() -> None:
    found = {name: unit_of_name(name) for name in (
        "step_time", "inter_node_latency", "weight_bytes", "model_flops_per_accelerator", "memory_bandwidth",
        "tokens_per_second_per_accelerator", "hardware_flop_rate_per_accelerator", "number_of_steps", "batch_size",
        "matrix_efficiency", "model_flops_utilization", "bandwidth_per_network_card", "average_power_per_accelerator",
        "timeliness", "energy", "cost",
    )}  # fmt: skip
    assert found == {
        "step_time": "s", "inter_node_latency": "s", "weight_bytes": "byte", "model_flops_per_accelerator": "flop",
        "memory_bandwidth": "byte/s", "tokens_per_second_per_accelerator": None,
        "hardware_flop_rate_per_accelerator": "flop/s", "number_of_steps": "count", "batch_size": "count",
        "matrix_efficiency": "1", "model_flops_utilization": "1", "bandwidth_per_network_card": "byte/s",
        "average_power_per_accelerator": "W", "timeliness": None, "energy": "J", "cost": "dollar",
    }  # fmt: skip


def test_every_declared_unit_is_one_that_the_registry_knows() -> None:
    units = {f.mark.unit for f in every_formula() if f.mark.kind != "records"} - {*DIMENSIONLESS, "choice", "layout"}
    assert {unit: registry().Quantity(1.0, unit).magnitude for unit in units} == dict.fromkeys(units, 1.0)
