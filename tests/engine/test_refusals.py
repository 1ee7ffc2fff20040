"""What the resolver refuses, and with which words."""

import pytest

import amped
from amped.base.errors import ConfigError, EvaluationError, ResolveError
from amped.theory.language.quantity import ACCELERATOR
from tests.helpers.formulas import page
from tests.helpers.resolver import ALL_OF_IT, mapped, toy


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
    mine = page(
        '@quantity("s")\ndef optimizer_time__operators(step_time):\n    "Mine. Source: me."\n    return step_time'
    )
    with pytest.raises(ResolveError, match=r"step_time ← optimizer_time ← step_time"):
        amped.estimate("default", formulas=mine)
    assert amped.estimate("default", formulas=mine, step_time=300.0)["optimizer_time"] == 300.0


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
    ['raise KeyError("color")', "return 1 / 0", "return weight_bytes.missing", 'return "three"', "return np.ones(3)",
     "return None"],
)  # fmt: skip
def test_a_formula_that_fails_is_named_with_its_inputs(body: str) -> None:
    mine = page(f'@quantity("s")\ndef optimizer_time__operators(weight_bytes):\n    "Mine. Source: me."\n    {body}')
    with pytest.raises(EvaluationError, match=r"(?s)'optimizer_time'.*weight_bytes = "):
        amped.estimate("default", formulas=mine)


def test_a_list_of_records_that_is_none_is_named() -> None:
    mine = page('@records()\ndef output_head_gemms(vocabulary_size):\n    "Mine. Source: me."\n    return None')
    with pytest.raises(EvaluationError, match=r"(?s)'output_head_gemms'.*vocabulary_size = "):
        amped.estimate("default", formulas=mine)


def test_a_result_that_is_no_number_is_named_with_its_inputs() -> None:
    with pytest.raises(EvaluationError, match=r"(?s)'optimizer_time' came out as inf.*memory_bandwidth = 1e-300"):
        amped.estimate("default", performance_model="amped", memory_bandwidth="1e-300 byte/s")
    with pytest.raises(EvaluationError, match=r"(?s)'\w+' came out as (inf|nan).*it was computed from \w+ = "):
        amped.estimate("default", memory_bandwidth="1e-300 byte/s")
