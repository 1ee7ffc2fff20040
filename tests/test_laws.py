"""Laws that every formula and every plan keeps, over the whole catalogue and over many shapes of training."""

import math
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import count
from types import ModuleType

import numpy as np
import pytest
from pint import DimensionalityError

from amped import catalogue as collecting
from amped.catalogue import Catalogue, Formula, catalogue, collect, unit_of_name
from amped.errors import WiringError
from amped.estimation import OPTIONAL_RESULTS, RESULTS, STEP_PARTS, Estimation, estimated
from amped.evaluate import run
from amped.quantity import CATEGORIES, Mark, parameter, quantity, records, selector
from amped.records import Record
from amped.resolve import plan
from amped.scenario import read_scenario
from amped.units import DIMENSIONLESS, registry

KINDS = ("tensor", "context", "data", "pipeline", "expert")

# A dense network of round numbers without a table row, on a machine of 64 accelerators without one.
TOY = {
    "layers": 8, "dimensionality": 1024, "attention_heads": 16, "vocabulary_size": 32768, "context": 512,
    "batch_size": 128, "number_of_accelerators_per_node": 8, "fp16_peak_flop_rate": "100 TFLOP/s",
    "memory_capacity": "40 GB", "memory_bandwidth": "1 TB/s",
}  # fmt: skip
EXPERTS = {"number_of_experts": 8, "experts_per_token": 2, "number_of_MoE_layers": 4,
           "expert_tensor_parallel_degree": 1}  # fmt: skip
RECOMPUTED = {"activation_recomputation": "block", "number_of_recomputed_layers": 4}
CLOCK = {"frequency": "1.5 GHz", "number_of_cores": 100, "functional_units_per_core": 4, "mac_per_cycle_per_unit": 256}
NONLINEAR = {"nonlinear_functional_units_per_core": 4, "nonlinear_operations_per_cycle_per_unit": 4}
DEEPSEEK = {"model": "DeepSeek V3", "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "batch_size": 1024,
            "expert_parallel_degree": 64, "zero_stage": 3}  # fmt: skip


def each_kind(place: str) -> dict[str, object]:
    return {f"{place}_node_{kind}_parallel_degree": 2 for kind in KINDS}


WHOLES = {f"{kind}_parallel_degree": 4 for kind in KINDS}
SHAPES: dict[str, tuple[object, dict[str, object]]] = {
    "default, full recomputation": ("default", {}),
    "no recomputation": ("default", {"activation_recomputation": "none"}),
    "selective recomputation": ("default", {"activation_recomputation": "selective", "sequence_parallel": True}),
    "block recomputation": ("default", RECOMPUTED),
    "gpipe": ("default", {"pipeline_schedule": "gpipe"}),
    "interleaved": ("default", {"virtual_pipeline_stages": 3}),
    "pipeline placed before data": ("default", {"placement_order": "tensor_context_pipeline_data"}),
    "sgd": ("default", {"optimizer": "sgd"}),
    "causal convention": ("default", {"attention_flop_convention": "causal"}),
    "fp32": ("default", {"matrix_precision": "fp32"}),
    "tf32": ("default", {"matrix_precision": "tf32"}),
    "fp16": ("default", {"matrix_precision": "fp16"}),
    "fp8": ("llama-3-70b", {"matrix_precision": "fp8"}),
    "an old accelerator without 16 bit": ("default", {"accelerator": "P4"}),
    "a half-precision accelerator": ("default", {"accelerator": "V100"}),
    "context parallel": ("default", {"context_parallel_degree": 4}),
    "mixture of experts": ("mixtral-8x7b", {}),
    "latent attention": ("mixtral-8x7b", DEEPSEEK),
    "amped style": ("amped-style", {}),
    "nodes given": ("minimal", {}),
    "a Megatron row": ("megatron-145.6B", {}),
    "samples given": ("default", {"samples": 1e6}),
    "steps given": ("default", {"number_of_steps": 1000}),
    "nothing but the toy": (TOY, {}),
    "toy with samples": (TOY, {"samples": 1e6}),
    "toy, data degree given": (TOY, {"data_parallel_degree": 8}),
    "toy, both parts": (TOY | EXPERTS, each_kind("intra") | each_kind("inter") | {"scale_up_domain_size": 16}),
    "toy, part inside alone": (TOY | EXPERTS, each_kind("intra") | {"scale_up_domain_size": 16}),
    "toy, part across alone": (TOY | EXPERTS, each_kind("inter")),
    "toy, whole and part inside": (TOY | EXPERTS, WHOLES | each_kind("intra") | {"scale_up_domain_size": 16}),
    "toy, whole and part across": (TOY | EXPERTS, WHOLES | each_kind("inter") | {"scale_up_domain_size": 16}),
    "toy, number of micro-batches": (TOY, {"number_of_microbatches_per_minibatch": 4}),
    "toy, rate from the clock": ({k: v for k, v in TOY.items() if "peak" not in k} | CLOCK, {}),
    "toy, nonlinear units": ({k: v for k, v in TOY.items() if "peak" not in k} | CLOCK | NONLINEAR, {}),
    "toy, fp32 alone": ({k: v for k, v in TOY.items() if "peak" not in k} | {"fp32_peak_flop_rate": 2e13}, {}),
    "toy, shared keys": (TOY, {"key_value_heads": 4}),
    "toy, latent attention": (TOY, {
        "key_value_latent_dimension": 128, "rotary_head_dimension": 32, "head_dimension": 96,
        "value_head_dimension": 64, "optimizer_state_precision": 16,
    }),
    "toy, flash attention": (TOY, {"flash_attention": True, "dropout": 0, "gated_mlp": True}),
}  # fmt: skip
# No result, but a user may have it calculated, or `explain` it.
ASKED_BY_NAME = ("samples",)
CONTRACT = (
    "training_time", "step_time", "number_of_steps", "tokens_per_second_per_accelerator",
    "model_flop_rate_per_accelerator", "hardware_flop_rate_per_accelerator", "model_flops_utilization",
    "hardware_flops_utilization", "memory_per_accelerator_bytes", "weight_bytes", "gradient_bytes",
    "optimizer_state_bytes", "activation_bytes", "temporary_bytes", "fits_in_memory", "largest_microbatch_size",
    "number_of_parameters", "active_parameters", "energy", "cost",
)  # fmt: skip
CONTRACT_PARTS = {
    "compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time", "optimizer_time",
    "exposed_tensor_communication_time", "exposed_pipeline_communication_time", "exposed_data_communication_time",
    "exposed_context_communication_time", "exposed_expert_communication_time", "pipeline_bubble_time",
}  # fmt: skip

every_shape = pytest.mark.parametrize("shape", SHAPES)


def sectioned(values: dict[str, object]) -> dict[str, object]:
    """A config of bare values, each in its section."""
    config: dict[str, dict[str, dict[str, object]]] = {category: {"parameters": {}} for category in CATEGORIES}
    for name, value in values.items():
        config[catalogue()[name].category or CATEGORIES[0]]["parameters"][name] = {"value": value}
    return config


@cache
def estimate_of(shape: str) -> Estimation:
    config, overrides = SHAPES[shape]
    if isinstance(config, dict):  # everything in one config, so that nothing replaces anything
        config, overrides = sectioned(config | overrides), {}
    estimate = estimated(read_scenario(config, overrides), Estimation)
    sources = estimate.scenario.sources
    targets = [name for name in estimate.plan.targets if name not in OPTIONAL_RESULTS]
    wider = plan(catalogue(), (*targets, *ASKED_BY_NAME), sources, OPTIONAL_RESULTS)
    return Estimation(estimate.scenario, run(wider, sources.given))


def every_formula() -> list[Formula]:
    return [formula for quantity in catalogue().values() for formula in quantity.formulas]


def title(formula: Formula) -> str:
    return formula.function.__name__


def module_of(*functions: object, name: str = "pages_of_a_user") -> ModuleType:
    module = ModuleType(name)
    for function in functions:
        function.__module__ = name  # type: ignore[attr-defined]
        setattr(module, function.__name__, function)  # type: ignore[attr-defined]
    return module


def built_of(*functions: object) -> Catalogue:
    return Catalogue(collect(module_of(*functions)))


# --- units ----------------------------------------------------------------------------------------------------------


def with_unit(data: object, unit: str) -> object:
    return data if unit in DIMENSIONLESS else registry().Quantity(data, unit)


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
    for step in results.plan.steps:
        formula, data = step.formula, results.cells[step.name][0]
        if formula.mark.kind == "records":
            united[step.name] = formula.function(*(united[a] for a in formula.arguments))
            continue
        unit = formula.mark.unit
        if formula.arguments:
            result = formula.function(*(united[a] for a in formula.arguments))
            try:
                np.testing.assert_allclose(in_unit(result, unit), data, rtol=1e-12)
            except (DimensionalityError, AssertionError) as error:
                wrong.append(f"{title(formula)}: {error}")
        united[step.name] = with_unit(data, unit)
    assert wrong == []


@pytest.mark.parametrize("name", sorted(set(catalogue()) - set(catalogue().constraints)))  # rules are sentences
def test_the_word_that_ends_a_name_agrees_with_its_unit(name: str) -> None:
    promised, declared = unit_of_name(name), catalogue()[name].mark.unit
    assert promised in (None, declared)


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
    units = {f.mark.unit for f in every_formula() if f.mark.kind != "records"} - {*DIMENSIONLESS, "choice"}
    assert {unit: registry().Quantity(1.0, unit).magnitude for unit in units} == dict.fromkeys(units, 1.0)


# --- arrays ---------------------------------------------------------------------------------------------------------

FACTORS = (1.0, 2.0, 3.0, 1.7)


def varied(data: object, unit: str, factor: float) -> object:
    """Another value of the same kind: a count stays whole, a boolean turns."""
    if isinstance(data, tuple):
        return tuple(record.mapped(lambda v: np.asarray(v, dtype=np.float64) * factor) for record in data)
    array = np.asarray(data, dtype=np.float64)
    if unit == "boolean":
        return array if factor != 2.0 else 1 - array
    return np.ceil(array * factor) if unit == "count" else array * factor


def calls_of(shapes: Iterator[str]) -> dict[Formula, list[list[object]]]:
    """For each formula, the arguments it is called with: those of the scalar runs and variations of them."""
    calls: dict[Formula, list[list[object]]] = {}
    known, turn = catalogue(), count()
    for shape in shapes:
        cells = estimate_of(shape).results.cells
        for step in estimate_of(shape).plan.steps:
            for factor in FACTORS if step.formula.arguments else ():
                row = []
                for argument in step.formula.arguments:  # neighbours vary by different factors
                    own = 1.0 if factor == 1.0 else FACTORS[(next(turn) + FACTORS.index(factor)) % len(FACTORS)]
                    row.append(varied(cells[argument][0], known[argument].mark.unit, own))
                calls.setdefault(step.formula, []).append(row)
    return calls


def stacked(values: list[object]) -> object:
    """One array of several values; for records, records of such arrays."""
    if not isinstance(values[0], tuple):
        return np.concatenate([np.asarray(v, dtype=np.float64).reshape(-1) for v in values])
    return tuple(
        type(group[0])(*(
            getattr(group[0], f.name) if isinstance(getattr(group[0], f.name), str)
            else stacked([getattr(record, f.name) for record in group])
            for f in fields(group[0])
        ))
        for group in zip(*values, strict=True)
    )  # fmt: skip


def structure(row: list[object]) -> tuple[object, ...]:
    return tuple(tuple(r.name for r in value) if isinstance(value, tuple) else None for value in row)


def flat(result: object, length: int) -> list[bytes]:
    """The results as bytes, one for each of `length` calls."""
    if isinstance(result, tuple):
        numbers = [getattr(r, f.name) for r in result for f in fields(r) if not isinstance(getattr(r, f.name), str)]
    else:
        numbers = [result]
    columns = [np.broadcast_to(np.asarray(n, dtype=np.float64).reshape(-1), (length,)) for n in numbers]
    return [b"".join(column[i].tobytes() for column in columns) for i in range(length)]


def test_every_formula_called_with_arrays_equals_the_scalar_calls_bit_for_bit() -> None:
    unequal, called = [], set()
    with np.errstate(all="ignore"):
        for formula, rows in calls_of(iter(SHAPES)).items():
            for kind in {structure(row) for row in rows}:
                alike = [row for row in rows if structure(row) == kind]
                whole = formula.function(*(stacked(list(column)) for column in zip(*alike, strict=True)))
                alone = [flat(formula.function(*row), 1)[0] for row in alike]
                if flat(whole, len(alike)) != alone:
                    unequal.append(title(formula))
                called.add(title(formula))
    assert unequal == []
    assert called == {title(f) for f in used_formulas() if f.arguments}


def test_no_formula_changes_what_it_is_given() -> None:
    changed = []
    with np.errstate(all="ignore"):
        for formula, rows in calls_of(iter(["mixture of experts", "latent attention"])).items():
            row = [stacked([value]) for value in rows[0]]
            before = [flat(value, 1) for value in row]
            formula.function(*row)
            changed += [title(formula)] if [flat(value, 1) for value in row] != before else []
    assert changed == []


# --- what a formula says about itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", every_formula(), ids=title)
def test_every_formula_says_what_it_is_and_where_it_comes_from(formula: Formula) -> None:
    assert formula.text["summary"].endswith((".", ")"))
    assert len(formula.text["source"]) > 3


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
    assert [title(f) for f in rules if f.mark.constrains not in f.arguments] == []
    assert {f.mark.unit for f in rules} == {"boolean"}


# --- plans ----------------------------------------------------------------------------------------------------------


@every_shape
def test_every_plan_is_closed_and_acyclic(shape: str) -> None:
    plan, given = estimate_of(shape).plan, estimate_of(shape).scenario.sources.given
    assert set(plan.leaves) <= set(given)
    known = set(plan.leaves)
    for step in plan.steps:
        assert set(step.formula.arguments) <= known, step.name
        assert step.name not in known
        known.add(step.name)
    assert set(plan.targets) <= known


def used_formulas() -> set[Formula]:
    used = set()
    for shape in SHAPES:
        estimate = estimate_of(shape)
        used |= {step.formula for step in estimate.plan.steps}
        known, given = estimate.scenario.catalogue, frozenset(estimate.scenario.sources.given)
        for name in set(known.selectors) - set(estimate.scenario.sources.choices):
            used |= {known[name].chosen(given, {})}
        # A leaf without a default is used where a plan reads the value given for it.
        used |= {f for name in estimate.plan.leaves for f in known[name].formulas if lacks_default(f)}
        used |= {f for f in named_by_choices(estimate) if f.mark.kind == "parameter"}
    return {formula for formula in used if formula is not None}


def lacks_default(formula: Formula) -> bool:
    return formula.mark.kind == "parameter" and formula.function() is None


def named_by_choices(estimate: Estimation) -> Iterator[Formula]:
    """Leaves that a plan does not read but whose being given chose one of its formulas."""
    given = estimate.scenario.sources.given
    formulas = [*estimate.plan.by_name.values()]
    formulas += [f for n in estimate.scenario.catalogue.selectors for f in estimate.scenario.catalogue[n].formulas]
    for formula in formulas:
        for name in (*formula.mark.when_given, *formula.mark.when_any_given):
            if name in given:
                yield from estimate.scenario.catalogue[name].formulas


def test_nothing_in_the_catalogue_is_unused() -> None:
    assert sorted(title(f) for f in set(every_formula()) - used_formulas()) == []


# --- the contract ---------------------------------------------------------------------------------------------------


def test_the_results_of_the_contract_are_all_there() -> None:
    assert set(CONTRACT) <= {*RESULTS, *OPTIONAL_RESULTS}
    assert set(STEP_PARTS) == CONTRACT_PARTS
    assert set(STEP_PARTS) <= set(RESULTS)
    hidden = {f"hidden_{kind}_communication_time" for kind in KINDS}
    assert hidden <= set(RESULTS)


@every_shape
def test_the_parts_of_a_step_sum_to_its_time(shape: str) -> None:
    estimate = estimate_of(shape)
    assert list(estimate.breakdown) == list(STEP_PARTS)
    assert math.fsum(estimate.breakdown.values()) == pytest.approx(estimate["step_time"], rel=1e-9, abs=0)
    assert estimate["training_time"] == pytest.approx(estimate["number_of_steps"] * estimate["step_time"], rel=1e-12)


@every_shape
def test_an_estimate_is_a_flat_object_of_plain_values(shape: str) -> None:
    shown = estimate_of(shape).to_dict()
    assert set(CONTRACT) | CONTRACT_PARTS <= set(shown)
    assert {type(value) for value in shown.values()} <= {float, bool, str}
    assert type(shown["fits_in_memory"]) is bool


# --- what the catalogue refuses -------------------------------------------------------------------------------------


def test_an_argument_that_nothing_gives_is_refused_with_the_nearest_name() -> None:
    @parameter("count")
    def layers() -> int:
        """Layers. Source: test."""
        return 2

    @quantity("count")
    def doubled(layerz: object) -> object:
        """Twice. Source: test."""
        return layerz

    with pytest.raises(WiringError, match=r"(?s)'doubled' needs 'layerz', which nothing gives.*did you mean 'layers'"):
        built_of(layers, doubled)


def test_a_selector_as_an_argument_is_refused() -> None:
    @selector("left", "right")
    def side() -> str:
        """Side. Source: test."""
        return "left"

    @quantity("1")
    def sum_of_sides(side: object) -> object:
        """Sum. Source: test."""
        return side

    with pytest.raises(WiringError, match="'sum_of_sides' takes the selector 'side' as an argument"):
        built_of(side, sum_of_sides)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {}),
        ({"when_given": ("left",)}, {"when_given": ("right",)}),
        ({"when_given": ("left",)}, {"choice": "side", "value": "far"}),
        ({"when_any_given": ("left", "right")}, {"when_given": ("left",)}),
    ],
)
def test_alternatives_that_tie_are_refused(one: dict[str, object], other: dict[str, object]) -> None:
    def leaf(name: str, mark: Mark) -> object:
        def function() -> None:
            """Leaf. Source: test."""

        function.__name__, function.__amped_mark__ = name, mark  # type: ignore[attr-defined]
        return function

    leaves = [leaf("left", Mark("parameter", "count")), leaf("right", Mark("parameter", "count"))]
    leaves.append(leaf("side", Mark("parameter", "choice", choices=("near", "far"))))
    pair = [leaf("width__a", Mark("quantity", "count", **one)), leaf("width__b", Mark("quantity", "count", **other))]
    with pytest.raises(WiringError, match="'width__a' and 'width__b' can apply at once"):
        built_of(*leaves, *pair)


def test_a_tie_below_a_more_specific_alternative_is_none() -> None:
    known = catalogue()
    of_parts = known["tensor_parallel_degree"].chosen(
        frozenset({"intra_node_tensor_parallel_degree", "inter_node_tensor_parallel_degree"}), {}
    )
    assert of_parts is not None
    assert of_parts.variant == "of_parts"


def test_alternatives_of_different_units_are_refused() -> None:
    @quantity("s")
    def duration() -> int:
        """Duration. Source: test."""
        return 1

    @quantity("byte", when_given=("duration",))
    def duration__in_bytes() -> int:
        """Duration. Source: test."""
        return 1

    with pytest.raises(WiringError, match="the alternatives of 'duration' have different units"):
        built_of(duration, duration__in_bytes)


def test_all_that_is_wrong_with_a_catalogue_is_told_at_once() -> None:
    @quantity("s")
    def one(missing: object) -> object:
        """One. Source: test."""
        return missing

    @records()
    def other(absent: object) -> tuple[Record, ...]:
        """Other. Source: test."""
        return (Record("other"),)

    with pytest.raises(WiringError) as refusal:
        built_of(one, other)
    assert len(refusal.value.problems) == 2


def test_the_same_name_on_two_pages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @parameter("count")
    def layers() -> int:
        """Layers again. Source: test."""
        return 3

    page = module_of(layers, name="amped.formulas.second_thoughts")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    monkeypatch.setattr(collecting, "PAGES", (*collecting.PAGES, "second_thoughts"))
    with pytest.raises(WiringError, match="'layers' stands on two pages: transformer and second_thoughts"):
        catalogue.__wrapped__()
