"""Which formula gives a value: what is given, what a row has, which selector is set, and where each value came from."""

from pathlib import Path
from types import ModuleType

import pytest

import amped
from amped.catalogue import catalogue
from amped.errors import ConfigError, EvaluationError, MappingError, ResolveError
from amped.explanation import Explanation
from amped.quantity import ACCELERATOR, CATEGORIES, NETWORK, SYSTEM, quantity

# 64 accelerators in nodes of 8; dimensions that divide by everything asked of them here.
NETWORK_VALUES = {"layers": 64, "dimensionality": 8192, "attention_heads": 64, "vocabulary_size": 32000,
                  "context": 2048, "batch_size": 256, "tokens_to_train": 1e9}  # fmt: skip
MACHINE = {"number_of_accelerators_per_node": 8}
ACCELERATOR_VALUES = {"fp16_peak_flop_rate": 1e14, "memory_capacity": 8e10, "memory_bandwidth": 1e12}
ALL_OF_IT = {"number_of_accelerators": 64}


def toy(*sections: dict[str, object], rows: dict[str, str] | None = None, **values: object) -> dict[str, object]:
    """A config of bare values, each in its own section, and table rows by section."""
    config: dict[str, dict[str, object]] = {category: {"parameters": {}} for category in CATEGORIES}
    everything: dict[str, object] = {}
    for section in (*sections, values):
        everything |= section
    for name, value in everything.items():
        entry = value if isinstance(value, dict) else {"value": value}
        config[catalogue()[name].category or NETWORK]["parameters"][name] = entry  # type: ignore[index]
    for category, row in (rows or {}).items():
        config[category]["lookup_config"] = {"lookup_table_row": row}
    return config


def mapped(**mapping: object) -> amped.Estimate:
    return amped.estimate(toy(NETWORK_VALUES, MACHINE, ACCELERATOR_VALUES, mapping))


def degrees(estimate: amped.Estimate, kind: str) -> tuple[float, float, float]:
    """Whole, inside the node, across nodes."""
    whole, inside, across = (estimate[f"{place}{kind}_parallel_degree"] for place in ("", "intra_node_", "inter_node_"))
    return whole, inside, across


def on_a100(**values: object) -> dict[str, object]:
    return toy(NETWORK_VALUES, MACHINE, values, rows={ACCELERATOR: "A100 SXM 80GB"})


def page(source: str, name: str = "formulas_of_a_user") -> ModuleType:
    """A module of formulas written as text."""
    module = ModuleType(name)
    exec(f"from amped.quantity import *\nimport numpy as np\n{source}", module.__dict__)
    return module


# --- (a) to (e): degrees, micro-batches, the machine ----------------------------------------------------------------


def test_whole_degrees_fill_the_node_in_order() -> None:
    estimate = mapped(tensor_parallel_degree=4, pipeline_parallel_degree=2, **ALL_OF_IT)
    assert degrees(estimate, "tensor") == (4, 4, 1)
    assert degrees(estimate, "data") == (8, 2, 4)  # two places were left
    assert degrees(estimate, "pipeline") == (2, 1, 2)
    assert degrees(estimate, "context") == (1, 1, 1)


def test_a_degree_takes_what_divides_both_it_and_the_places_left() -> None:
    estimate = mapped(tensor_parallel_degree=2, data_parallel_degree=2, pipeline_parallel_degree=16)
    assert degrees(estimate, "data") == (2, 2, 1)
    assert degrees(estimate, "pipeline") == (16, 2, 8)  # 8 / 2 / 2 places, gcd(16, 2)
    wide = mapped(tensor_parallel_degree=32, number_of_accelerators=32)
    assert degrees(wide, "tensor") == (32, 8, 4)


def test_a_degree_that_shares_no_divisor_with_the_places_lies_across_nodes() -> None:
    estimate = mapped(data_parallel_degree=3, pipeline_parallel_degree=8, batch_size=255, microbatch_size=1)
    assert degrees(estimate, "data") == (3, 1, 3)
    assert degrees(estimate, "pipeline") == (8, 8, 1)


def test_the_other_placement_order_gives_the_pipeline_its_place_before_the_replicas() -> None:
    wanted = {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 4, **ALL_OF_IT}
    data_first = mapped(**wanted, placement_order="tensor_context_data_pipeline")
    pipeline_first = mapped(**wanted, placement_order="tensor_context_pipeline_data")
    assert (degrees(data_first, "data"), degrees(data_first, "pipeline")) == ((8, 4, 2), (4, 1, 4))
    assert (degrees(pipeline_first, "data"), degrees(pipeline_first, "pipeline")) == ((8, 1, 8), (4, 4, 1))


def test_context_parallelism_is_placed_between_tensor_and_data() -> None:
    estimate = mapped(tensor_parallel_degree=2, context_parallel_degree=8, **ALL_OF_IT)
    assert degrees(estimate, "context") == (8, 4, 2)
    assert degrees(estimate, "data") == (4, 1, 4)


def test_the_expert_group_lies_inside_the_replicas() -> None:
    experts = {"number_of_experts": 16, "experts_per_token": 2}  # each shared over as many as the dense layers
    estimate = mapped(tensor_parallel_degree=2, expert_parallel_degree=8, **experts, **ALL_OF_IT)
    assert degrees(estimate, "data") == (32, 4, 8)
    assert degrees(estimate, "expert") == (8, 4, 2)


def test_a_fast_domain_larger_than_a_node_is_what_intra_means() -> None:
    estimate = mapped(tensor_parallel_degree=16, scale_up_domain_size=32, **ALL_OF_IT)
    assert degrees(estimate, "tensor") == (16, 16, 1)
    assert degrees(estimate, "data") == (4, 2, 2)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_both_parts_give_the_whole(kind: str) -> None:
    parts = {f"intra_node_{kind}_parallel_degree": 2, f"inter_node_{kind}_parallel_degree": 4}
    assert degrees(mapped(**parts), kind) == (8, 2, 4)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_one_part_alone_leaves_the_other_one(kind: str) -> None:
    assert degrees(mapped(**{f"intra_node_{kind}_parallel_degree": 4}), kind) == (4, 4, 1)
    assert degrees(mapped(**{f"inter_node_{kind}_parallel_degree": 4}), kind) == (4, 1, 4)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_a_whole_and_one_part_give_the_other_part(kind: str) -> None:
    whole = {f"{kind}_parallel_degree": 16}
    assert degrees(mapped(**whole, **{f"intra_node_{kind}_parallel_degree": 4}), kind) == (16, 4, 4)
    assert degrees(mapped(**whole, **{f"inter_node_{kind}_parallel_degree": 8}), kind) == (16, 2, 8)


@pytest.mark.parametrize("kind", ["tensor", "context", "data", "pipeline"])
def test_a_whole_that_differs_from_its_parts_is_refused_with_what_would_do(kind: str) -> None:
    parts = {f"intra_node_{kind}_parallel_degree": 2, f"inter_node_{kind}_parallel_degree": 2}
    assert degrees(mapped(**parts, **{f"{kind}_parallel_degree": 4}), kind) == (4, 2, 2)
    with pytest.raises(MappingError, match=rf"(?s){kind}_parallel_degree = 8.*nearest {kind}_parallel_degree: 4"):
        mapped(**parts, **{f"{kind}_parallel_degree": 8})


def test_a_part_that_does_not_divide_its_whole_is_refused() -> None:
    with pytest.raises(MappingError):
        mapped(tensor_parallel_degree=8, intra_node_tensor_parallel_degree=3, inter_node_tensor_parallel_degree=2)


def test_micro_batches_follow_from_their_size() -> None:
    estimate = mapped(pipeline_parallel_degree=4, microbatch_size=2, **ALL_OF_IT)
    assert estimate["minibatch_size"] == 256 / 16
    assert (estimate["microbatch_size"], estimate["number_of_microbatches_per_minibatch"]) == (2, 8)


def test_the_size_follows_from_the_number_of_micro_batches() -> None:
    estimate = mapped(pipeline_parallel_degree=4, number_of_microbatches_per_minibatch=4, **ALL_OF_IT)
    assert (estimate["microbatch_size"], estimate["number_of_microbatches_per_minibatch"]) == (4, 4)


def test_without_either_there_are_as_many_micro_batches_as_pipeline_stages() -> None:
    estimate = mapped(pipeline_parallel_degree=8, **ALL_OF_IT)
    assert (estimate["microbatch_size"], estimate["number_of_microbatches_per_minibatch"]) == (4, 8)


def test_a_size_and_a_number_of_micro_batches_must_agree() -> None:
    agreed = mapped(microbatch_size=2, number_of_microbatches_per_minibatch=2, **ALL_OF_IT)
    assert agreed["number_of_microbatches_per_minibatch"] == 2
    with pytest.raises(MappingError, match="the_minibatch_divides_by_the_microbatch"):
        mapped(microbatch_size=2, number_of_microbatches_per_minibatch=4, **ALL_OF_IT)


def test_the_machine_is_its_accelerators() -> None:
    estimate = mapped(number_of_accelerators=48, batch_size=192, tensor_parallel_degree=2)
    assert (estimate["number_of_accelerators"], estimate["number_of_nodes"]) == (48, 6)
    assert estimate["data_parallel_degree"] == 24


def test_the_machine_is_its_nodes() -> None:
    estimate = mapped(number_of_nodes=4, tensor_parallel_degree=2)
    assert (estimate["number_of_accelerators"], estimate["number_of_nodes"]) == (32, 4)
    assert estimate["data_parallel_degree"] == 16


def test_the_machine_is_what_the_degrees_multiply_to() -> None:
    estimate = mapped(tensor_parallel_degree=4, pipeline_parallel_degree=2, data_parallel_degree=16)
    assert (estimate["number_of_accelerators"], estimate["number_of_nodes"]) == (128, 16)
    without_replicas = mapped(tensor_parallel_degree=4, pipeline_parallel_degree=2)
    assert (without_replicas["number_of_accelerators"], without_replicas["data_parallel_degree"]) == (8, 1)


def test_part_of_a_cluster_may_be_used_but_no_more_than_there_is() -> None:
    assert mapped(number_of_accelerators=16, number_of_nodes=4)["data_parallel_degree"] == 16
    with pytest.raises(MappingError, match="the_cluster_has_the_accelerators"):
        mapped(number_of_accelerators=64, number_of_nodes=4)


def test_degrees_that_do_not_multiply_to_the_machine_are_refused_with_what_would_do() -> None:
    with pytest.raises(MappingError, match=r"nearest tensor_parallel_degree: 4 or 8"):
        mapped(tensor_parallel_degree=6, **ALL_OF_IT)
    with pytest.raises(MappingError, match="degrees_multiply_to_the_number_of_accelerators"):
        mapped(tensor_parallel_degree=4, data_parallel_degree=4, **ALL_OF_IT)


# --- (f): selectors -------------------------------------------------------------------------------------------------


def test_a_selector_changes_which_formula_serves_a_name() -> None:
    full = mapped(activation_recomputation="full", **ALL_OF_IT)
    none = mapped(activation_recomputation="none", **ALL_OF_IT)
    assert full.plan.by_name["recomputation_time"].variant == "full"
    assert none.plan.by_name["recomputation_time"].variant == "none"
    assert full["recomputation_time"] > none["recomputation_time"] == 0


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_precision_chosen_takes_its_own_peak(precision: str) -> None:
    peaks = {"fp32_peak_flop_rate": 1e13, "fp16_peak_flop_rate": 1e14}
    estimate = mapped(**peaks, matrix_precision=precision, **ALL_OF_IT)
    assert estimate["matrix_peak_flop_rate"] == peaks[f"{precision}_peak_flop_rate"]


@pytest.mark.parametrize(
    ("has", "chosen"),
    [
        (("fp32",), "fp32"), (("fp16",), "fp16"), (("fp16", "fp32"), "fp16"),
        (("bf16",), "bf16"), (("bf16", "fp32"), "bf16"), (("bf16", "fp16", "fp32", "fp8"), "bf16"),
    ],
)  # fmt: skip
def test_the_precision_is_the_best_16_bit_that_the_accelerator_has(has: tuple[str, ...], chosen: str) -> None:
    peaks = {f"{format_}_peak_flop_rate": 1e14 for format_ in has}
    values = {k: v for k, v in ACCELERATOR_VALUES.items() if "peak" not in k} | peaks
    estimate = amped.estimate(toy(NETWORK_VALUES, MACHINE, values, ALL_OF_IT))
    assert estimate.choices["matrix_precision"] == chosen


def test_a_rule_of_one_choice_does_not_bind_the_others() -> None:
    rule = "recomputed_layers_are_layers_of_the_stage"
    assert rule not in mapped(activation_recomputation="full", **ALL_OF_IT)
    assert rule in mapped(activation_recomputation="block", number_of_recomputed_layers=3, **ALL_OF_IT)
    with pytest.raises(MappingError, match=rule):
        mapped(activation_recomputation="block", number_of_recomputed_layers=65, **ALL_OF_IT)


# --- precedence -----------------------------------------------------------------------------------------------------


def test_a_given_value_silences_the_formula_of_its_name() -> None:
    ours, given = mapped(**ALL_OF_IT), mapped(optimizer_time=7.0, **ALL_OF_IT)
    assert given["optimizer_time"] == 7.0
    assert "optimizer_time" not in given.plan.by_name
    assert given["step_time"] - ours["step_time"] == pytest.approx(7.0 - ours["optimizer_time"])


def test_a_row_beats_a_formula() -> None:
    with_row = amped.estimate(on_a100(**ALL_OF_IT))
    assert with_row["vector_flop_rate"] == 19.5e12  # the row has it; the formula says 312e12 / 16
    assert with_row["memory_bandwidth"] == 2039e9


def test_calculated_beats_a_row() -> None:
    estimate = amped.estimate(on_a100(vector_flop_rate={"calculated": True}, **ALL_OF_IT))
    assert estimate["vector_flop_rate"] == 312e12 / 16


def test_given_beats_a_row() -> None:
    estimate = amped.estimate(on_a100(vector_flop_rate=1e12, memory_bandwidth="1 TB/s", **ALL_OF_IT))
    assert (estimate["vector_flop_rate"], estimate["memory_bandwidth"]) == (1e12, 1e12)


def test_looked_up_under_another_name_takes_that_column() -> None:
    looked_up = {"from_lookup_table": True, "lookup_name": "tf32_peak_flop_rate"}
    estimate = amped.estimate(on_a100(matrix_precision="fp16", fp16_peak_flop_rate=looked_up, **ALL_OF_IT))
    assert estimate["matrix_peak_flop_rate"] == 156e12


def test_a_clock_given_silences_the_peaks_of_the_row() -> None:
    estimate = amped.estimate(on_a100(frequency="0.705 GHz", **ALL_OF_IT))
    # 0.705 GHz · 108 cores · 4 units · 256 MACs · 2: half of what the row says
    assert estimate["matrix_peak_flop_rate"] == pytest.approx(0.705e9 * 108 * 4 * 256 * 2)
    looked_up = amped.estimate(on_a100(frequency={"from_lookup_table": True}, **ALL_OF_IT))
    assert looked_up["matrix_peak_flop_rate"] == 312e12


def test_network_cards_given_silence_the_bandwidth_of_the_row() -> None:
    system = toy(NETWORK_VALUES, ACCELERATOR_VALUES, ALL_OF_IT, {"number_of_network_cards_per_node": 2},
                 rows={SYSTEM: "DGX A100"})  # fmt: skip
    estimate = amped.estimate(system)
    assert estimate["inter_node_bandwidth"] == 2 * estimate["bandwidth_per_network_card"]


def test_an_override_takes_away_what_it_determines_in_the_config_and_says_so() -> None:
    config = toy(NETWORK_VALUES, MACHINE, ACCELERATOR_VALUES, ALL_OF_IT, tensor_parallel_degree=8, microbatch_size=1)
    parts = amped.estimate(config, intra_node_tensor_parallel_degree=2)
    assert degrees(parts, "tensor") == (2, 2, 1)
    assert any("takes the place of" in notice and "tensor_parallel_degree" in notice for notice in parts.notices)
    batches = amped.estimate(config, number_of_microbatches_per_minibatch=4)
    assert batches["microbatch_size"] == 256 / 8 / 4
    assert amped.estimate(config, number_of_nodes=2)["number_of_accelerators"] == 16
    assert amped.estimate(config, samples=1000)["tokens_to_train"] == 1000 * 2048


@pytest.mark.parametrize("order", [1, -1])
def test_overrides_given_together_do_not_take_one_another_away(order: int) -> None:
    config = toy(NETWORK_VALUES, MACHINE, ACCELERATOR_VALUES, ALL_OF_IT)
    together = {"tensor_parallel_degree": 16, "intra_node_tensor_parallel_degree": 4}
    estimate = amped.estimate(config, **dict(list(together.items())[::order]))
    assert degrees(estimate, "tensor") == (16, 4, 4)
    machine = {"number_of_accelerators": 16, "number_of_nodes": 4}
    estimate = amped.estimate(config, **dict(list(machine.items())[::order]))
    assert (estimate["number_of_accelerators"], estimate["number_of_nodes"]) == (16, 4)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_missing_inputs_are_told_all_at_once_each_with_who_needed_it() -> None:
    with pytest.raises(ResolveError) as refusal:
        amped.estimate(toy({"layers": 4, "dimensionality": 1024, "attention_heads": 16}))
    told = {problem.what.split("'")[1]: str(problem) for problem in refusal.value.problems}
    assert {"vocabulary_size", "context", "batch_size", "memory_capacity", "memory_bandwidth"} <= set(told)
    assert "needed by embedding_parameters ← number_of_parameters" in told["vocabulary_size"]
    assert f"give it in {ACCELERATOR}" in told["memory_capacity"]


def test_what_an_optional_result_lacks_is_told_in_its_place() -> None:
    estimate = mapped(**ALL_OF_IT)
    assert estimate.to_dict()["cost"] == "unknown: accelerator_price not given"
    assert estimate.to_dict()["energy"] == "unknown: thermal_design_power not given"
    assert mapped(accelerator_price=1.0, **ALL_OF_IT).to_dict()["cost"] == pytest.approx(
        64 * estimate["training_time"] / 3600
    )


def test_a_cycle_is_refused_with_the_chain() -> None:
    mine = page('@quantity("s")\ndef optimizer_time__amped(step_time):\n    "Mine. Source: me."\n    return step_time')
    with pytest.raises(ResolveError, match=r"step_time ← optimizer_time ← step_time"):
        amped.estimate("default", formulas=mine)
    assert amped.estimate("default", formulas=mine, step_time=3.0)["optimizer_time"] == 3.0


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'layers'"):
        amped.estimate("default", layerz=4)
    with pytest.raises(ResolveError, match="did you mean 'step_time'"):
        amped.explain("step_tim")


def test_a_list_is_refused_with_the_verb_that_takes_it() -> None:
    with pytest.raises(ConfigError, match=r"(?s)'batch_size' is a list.*amped explore"):
        amped.estimate("default", batch_size=[512, 1024])
    with pytest.raises(ConfigError, match="'batch_size' is a list"):
        amped.explain("step_time", batch_size=[512, 1024])


def test_a_choice_without_a_formula_for_it_is_told() -> None:
    with pytest.raises(ResolveError, match="'fp8_peak_flop_rate' is missing, needed by matrix_peak_flop_rate"):
        mapped(matrix_precision="fp8", **ALL_OF_IT)


@pytest.mark.parametrize(
    "body",
    ['raise KeyError("colour")', "return 1 / 0", "return weight_bytes.missing", 'return "three"', "return np.ones(3)",
     "return None"],
)  # fmt: skip
def test_a_formula_that_fails_is_named_with_its_inputs(body: str) -> None:
    mine = page(f'@quantity("s")\ndef optimizer_time__amped(weight_bytes):\n    "Mine. Source: me."\n    {body}')
    with pytest.raises(EvaluationError, match=r"(?s)'optimizer_time'.*weight_bytes = "):
        amped.estimate("default", formulas=mine)


def test_a_list_of_records_that_is_none_is_named() -> None:
    mine = page('@records()\ndef head_gemms(vocabulary_size):\n    "Mine. Source: me."\n    return None')
    with pytest.raises(EvaluationError, match=r"(?s)'head_gemms'.*vocabulary_size = "):
        amped.estimate("default", formulas=mine)


def test_a_result_that_is_no_number_is_named_with_its_inputs() -> None:
    with pytest.raises(EvaluationError, match=r"(?s)'optimizer_time' came out as inf.*memory_bandwidth = 1e-300"):
        amped.estimate("default", memory_bandwidth=1e-300)


# --- origins --------------------------------------------------------------------------------------------------------


def explained(name: str, **values: object) -> Explanation:
    return amped.explain(name, on_a100(**values, **ALL_OF_IT))


def test_a_given_value_remembers_where_it_was_written() -> None:
    told = explained("memory_capacity", memory_capacity="40 GB")
    assert (told.origin, told.value, told.unit) == ("given", 40e9, "byte")
    assert told.where == f"{ACCELERATOR}.parameters.memory_capacity: 40 GB"


def test_an_override_remembers_the_option_it_came_by() -> None:
    told = amped.explain("memory_capacity", "default", memory_capacity="40 GB")
    assert (told.origin, told.where) == ("given", "--set memory_capacity: 40 GB")


def test_a_looked_up_value_remembers_its_row() -> None:
    told = explained("memory_capacity")
    assert (told.origin, told.value) == ("table row", 80e9)
    assert told.where == "accelerator_specifications, row 'A100 SXM 80GB': 80 GB"


def test_a_default_remembers_its_source() -> None:
    told = explained("matrix_efficiency")
    assert told.origin == "default"
    assert told.source == catalogue()["matrix_efficiency"].formulas[0].text["source"]


def test_a_calculated_value_remembers_its_formula_its_source_and_its_parts() -> None:
    told = explained("number_of_microbatches_per_minibatch", microbatch_size=1)
    assert told.origin == "calculated"
    assert told.where == "number_of_microbatches_per_minibatch__of_size(minibatch_size, microbatch_size)"
    assert told.because == "microbatch_size given"
    assert told.source == "definition."
    assert [(part.name, part.origin) for part in told.parts] == [
        ("minibatch_size", "calculated"), ("microbatch_size", "given"),
    ]  # fmt: skip


def test_the_tree_of_a_step_reaches_every_kind_of_origin_and_tells_nothing_twice() -> None:
    told = list(explained("step_time", activation_recomputation="selective").walk())
    assert {part.origin for part in told} == {"given", "table row", "calculated", "default", "records"}
    grown = [part.name for part in told if part.parts]
    assert len(grown) == len(set(grown))
    recomputation = next(part for part in told if part.name == "recomputation_time")
    assert recomputation.because == "activation_recomputation is selective"
    assert recomputation.differs.startswith("AMPeD has none")


def test_a_choice_remembers_why_it_was_taken() -> None:
    assert explained("matrix_precision").because == "bf16_peak_flop_rate given"
    given = explained("matrix_precision", matrix_precision="tf32")
    assert (given.value, given.origin) == ("tf32", "given")
    assert given.where == f"{NETWORK}.parameters.matrix_precision"


def test_calculated_in_the_config_is_told_as_calculated() -> None:
    told = explained("vector_flop_rate", vector_flop_rate={"calculated": True})
    assert told.origin == "calculated"
    assert {part.name for part in told.parts} == {"matrix_peak_flop_rate", "vector_to_matrix_fraction"}


# --- formulas of a user ---------------------------------------------------------------------------------------------

TAX = """
@quantity("1", category=MAPPING)
def tax_fraction(number_of_nodes):
    "Share lost to the network's owner. Source: me."
    return 0.01 * number_of_nodes

@quantity("s")
def step_time(compute_forward_time, tax_fraction):
    "Mine: forward time and tax. Source: me."
    return compute_forward_time * (1 + tax_fraction)
"""


def test_formulas_of_a_module_add_a_quantity_and_take_the_place_of_ours() -> None:
    mine = page(TAX)
    estimate = amped.estimate("default", formulas=mine)
    assert estimate["tax_fraction"] == 0.01 * 128
    assert estimate["step_time"] == estimate["compute_forward_time"] * (1 + estimate["tax_fraction"])
    assert amped.estimate("default", formulas=mine, tax_fraction=0.5)["tax_fraction"] == 0.5
    assert amped.explain("tax_fraction", formulas=mine).source == "me."
    assert "tax_fraction" not in amped.estimate("default")


def test_formulas_of_a_file_do_the_same(tmp_path: Path) -> None:
    mine = tmp_path / "tax.py"
    mine.write_text(f"from amped.quantity import MAPPING, quantity\n{TAX}", "utf-8")
    assert amped.estimate("default", formulas=mine)["tax_fraction"] == 0.01 * 128
    assert amped.explore("default", formulas=mine, number_of_accelerators=64, batch_size=64, top=1).candidates > 0


def test_a_file_of_formulas_that_changed_is_read_again(tmp_path: Path) -> None:
    mine = tmp_path / "changing.py"
    for share in (0.01, 0.25):
        mine.write_text(f"from amped.quantity import MAPPING, quantity\n{TAX.replace('0.01', str(share))}", "utf-8")
        assert amped.estimate("default", formulas=mine)["tax_fraction"] == share * 128


def test_a_plain_name_takes_the_place_of_the_performance_models_formula() -> None:
    mine = page('@quantity("s")\ndef optimizer_time(weight_bytes):\n    "Source: me."\n    return 0 * weight_bytes')
    assert amped.estimate("default", formulas=mine)["optimizer_time"] == 0


def test_a_function_of_a_user_without_a_mark_is_no_formula() -> None:
    def optimizer_time__amped(weight_bytes: object) -> float:
        return 1.0

    module = ModuleType("unmarked")
    optimizer_time__amped.__module__ = "unmarked"
    module.optimizer_time__amped = optimizer_time__amped  # type: ignore[attr-defined]
    assert amped.estimate("default", formulas=module)["optimizer_time"] != 1.0
    quantity("s")(optimizer_time__amped)
    marked = ModuleType("unmarked")
    marked.optimizer_time__amped = optimizer_time__amped  # type: ignore[attr-defined]
    assert amped.estimate("default", formulas=marked)["optimizer_time"] == 1.0
