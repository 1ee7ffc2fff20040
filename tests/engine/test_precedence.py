"""Which source wins: selectors, given values, table rows, formulas, overrides."""

import pytest

import amped
from amped.base.errors import MappingError
from amped.theory.language.quantity import SYSTEM
from tests.helpers.resolver import ACCELERATOR_VALUES, ALL_OF_IT, MACHINE, NETWORK_VALUES, degrees, mapped, on_a100, toy

# --- selectors -------------------------------------------------------------------------------------------------------


def test_a_selector_changes_which_formula_serves_a_name() -> None:
    full = mapped(activation_recomputation="full", **ALL_OF_IT)
    none = mapped(activation_recomputation="none", **ALL_OF_IT)
    assert full.plan.by_name["recomputed_layer_fraction"].variant == "full"
    assert none.plan.by_name["recomputed_layer_fraction"].variant == ""
    assert full["recomputation_time"] > none["recomputation_time"] == 0


@pytest.mark.parametrize("model", ["operators", "amped"])
def test_the_performance_model_is_a_selector_like_any_other(model: str) -> None:
    estimate = mapped(performance_model=model, **ALL_OF_IT)
    assert estimate.choices["performance_model"] == model
    assert {f.variant for f in estimate.plan.by_name.values() if f.mark.choice == "performance_model"} == {model}
    assert mapped(**ALL_OF_IT).choices["performance_model"] == "operators"


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


# --- precedence ------------------------------------------------------------------------------------------------------


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
