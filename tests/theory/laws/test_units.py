"""Laws of units: every formula, called with them, returns the one that it declares, as does its name."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pint import DimensionalityError

from amped.base.units import DIMENSIONLESS, registry
from amped.engine.evaluate import Results
from amped.theory.language.catalogue import Formula, catalogue
from amped.theory.nouns.records import STRUCTURE, TimedKernels
from tests.helpers.laws import estimate_of, every_formula, every_shape, leaves, title
from tests.helpers.units import unit_of_name

# The units of an operator's work.
WORK = {"flops": "flop", "read": "byte", "written": "byte"}


def timed_with_units(kernels: TimedKernels) -> TimedKernels:
    """Measured kernels with the units that their fields have."""
    united = {name: with_unit(getattr(kernels.operator, name), unit) for name, unit in WORK.items()}
    times = {name: with_unit(getattr(kernels, name), "s") for name in ("time", "converting")}
    times["prepared"] = with_unit(kernels.prepared, "byte")
    return replace(kernels, operator=replace(kernels.operator, **united), **times)


def with_unit(data: object, unit: str) -> object:
    if unit == "kernel_table":
        return tuple(map(timed_with_units, data))  # type: ignore[call-overload]
    return data if unit in (*DIMENSIONLESS, "layout") else registry().Quantity(data, unit)


def in_unit(result: object, unit: str) -> np.ndarray:
    """The bare number of a result in `unit`; pint refuses another dimension."""
    wanted = "dimensionless" if unit in DIMENSIONLESS else unit
    return np.asarray(registry().Quantity(result).to(wanted).magnitude, dtype=np.float64)


# The calls that were made: another of the same formula, with records of the same structure, tells no more about units.
CALLED: set[tuple[object, ...]] = set()


def first_of_its_kind(formula: Formula, arguments: list[object]) -> bool:
    """Whether no call was alike: the same texts, and zeros at the same places, which pint adds to any unit."""
    alike = (
        tuple(repr(v) if isinstance(v, STRUCTURE) else bool(np.any(v)) for v in leaves(each)) for each in arguments
    )
    key = (formula, *alike)
    new = key not in CALLED
    CALLED.add(key)
    return new


class United(dict[str, object]):
    """The quantities of an estimate by name, with their units; records are made of these when they are asked for."""

    def __init__(self, results: Results) -> None:
        super().__init__()
        self.results = results

    def __missing__(self, name: str) -> object:
        formula, data = self.results.plan.by_name.get(name), self.results.cells[name][0]
        of_records = formula is not None and formula.mark.kind == "records"
        self[name] = self.called(formula) if of_records else with_unit(data, catalogue()[name].mark.unit)
        return self[name]

    def called(self, formula: Formula) -> Any:
        return formula.function(*(self[name] for name in formula.arguments))


@pytest.mark.thorough
@every_shape
def test_every_formula_called_with_units_returns_its_declared_unit(shape: str) -> None:
    results = estimate_of(shape).results
    united, wrong = United(results), []
    for name, formula in results.plan.by_name.items():
        if not formula.arguments or not first_of_its_kind(formula, [results.cells[a][0] for a in formula.arguments]):
            continue
        if formula.mark.kind == "records":
            united[name] = united.called(formula)
            continue
        data = results.cells[name][0]
        try:
            number = in_unit(united.called(formula), formula.mark.unit)
            right = np.allclose(number, data, rtol=1e-12, atol=0, equal_nan=True)
            wrong += [] if right else [f"{title(formula)}: {number} with units, {data} without"]
        except DimensionalityError as error:
            wrong.append(f"{title(formula)}: {error}")
    assert wrong == []


def test_the_word_that_ends_a_name_agrees_with_its_unit() -> None:
    known = catalogue()
    units = {n: (unit_of_name(n), q.mark.unit) for n, q in known.items() if n not in known.constraints}  # sentences
    assert {name: pair for name, pair in units.items() if pair[0] not in (None, pair[1])} == {}


# Units whose quantities say so at the end of their names; sizes of an entry and capacities are bytes too.
SAID = ("s", "byte/s", "byte", "flop", "flop/s", "J", "W")
BYTES = ("_precision", "_capacity", "_unit_width", "_bytes")


def test_a_quantity_of_a_unit_has_its_word() -> None:
    units = {name: q.mark.unit for name, q in catalogue().items() if q.mark.unit in SAID}
    silent = {name: unit for name, unit in units.items() if unit_of_name(name) != unit}
    assert {name: unit for name, unit in silent.items() if unit != "byte" or not name.endswith(BYTES)} == {}


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
    units = {f.mark.unit for f in every_formula() if f.mark.kind != "records"} - {
        *DIMENSIONLESS,
        "choice",
        "layout",
        "pattern",
        "blocks",
        "kernel_table",
    }
    assert {unit: registry().Quantity(1.0, unit).magnitude for unit in units} == dict.fromkeys(units, 1.0)
