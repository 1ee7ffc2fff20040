"""Sensitivity: every parameter by itself, all side by side, and each row what an estimate of it alone gives."""

import math

import pytest
from helpers_config import config
from helpers_explore import SMALL
from helpers_sensitivity import alone, sensitivity

import amped
from amped.config import shipped_configs
from amped.errors import AmpedError, ConfigError
from amped.quantity import ACCELERATOR, MAPPING, SYSTEM
from amped.sensitivities import side_by_side

PER_SECOND = ("byte/s", "flop/s", "Hz", "1/s")
# What messages, kernels and collectives cost beside their bytes and flops.
DELAYS = ("inter_accelerator_latency", "inter_node_latency", "kernel_overhead_time", "kernel_dispatch_time",
          "collective_overhead_time")  # fmt: skip
MADE_OF_TWO = '''
from amped.quantity import SYSTEM, parameter, quantity

@parameter("s", category=SYSTEM)
def one_time():
    """One. Source: mine."""
    return 2

@parameter("s", category=SYSTEM)
def other_time():
    """Other. Source: mine."""
    return 2

@quantity("s")
def slower_time(one_time, other_time):
    """The slower. Source: mine."""
    import numpy as np
    return np.maximum(one_time, other_time)

@quantity("s")
def rounded_time(one_time):
    """Whole. Source: mine."""
    import numpy as np
    return np.ceil(one_time)
'''


@pytest.mark.parametrize("name", shipped_configs())
def test_what_is_varied_is_the_configuration_as_it_is(name):
    found = sensitivity(name)
    assert found.value == amped.estimate(name)["step_time"]
    assert len({effect.name for effect in found.effects}) == len(found.effects) > 100


@pytest.mark.parametrize("name", ["default", "mixtral-8x7b"])
def test_every_trial_equals_an_estimate_of_that_value_alone(name):
    unequal = [(effect.name, trial) for effect in sensitivity(name).effects for trial in effect.trials
               if alone(name, "step_time", effect, trial.value) != trial.result]  # fmt: skip
    assert unequal == []


@pytest.mark.parametrize("of", ["memory_per_accelerator_bytes", "cost", "model_flops_utilization"])
def test_elasticities_are_the_finite_differences_of_two_estimates(of):
    found = amped.sensitivity(of=of, step=0.01)
    for name in ("memory_bandwidth", "gemm_sustained_fraction", "dropout_mask_precision", "accelerator_price"):
        effect = found[name]
        less, more = (alone("default", of, effect, effect.value * share) for share in (0.99, 1.01))
        assert effect.elasticity == pytest.approx(math.log(more / less) / math.log(1.01 / 0.99), rel=1e-12, abs=1e-15)


# --- physics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_configs())
def test_a_time_is_made_of_times_and_of_rates(name):
    effects = [e for e in sensitivity(name).effects if e.elasticity and not e.replaces]
    seconds = sum(e.elasticity for e in effects if e.unit == "s")
    assert seconds - sum(e.elasticity for e in effects if e.unit in PER_SECOND) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "name", [n for n in shipped_configs() if n != "amped-style"]
)  # it rounds bytes up to whole words
def test_a_time_does_not_change_with_what_a_byte_is(name):
    effects = [e for e in sensitivity(name).effects if e.elasticity and not e.replaces]
    assert sum(e.elasticity for e in effects if e.unit in ("byte", "byte/s")) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("name", ["default", "electrical-glam-1.2T"])
def test_memory_is_made_of_bytes_and_energy_of_power(name):
    memory = sensitivity(name, "memory_per_accelerator_bytes")
    assert sum(e.elasticity for e in memory.effects if e.elasticity and e.unit == "byte") == pytest.approx(1, abs=1e-5)
    energy = sensitivity(name, "energy")
    assert sum(e.elasticity for e in energy.effects if e.elasticity and e.unit == "W") == pytest.approx(1, abs=1e-9)


def test_without_delays_a_machine_twice_as_fast_takes_half_as_long():
    found = amped.sensitivity(**dict.fromkeys(DELAYS, "0 s"))
    rates = [e for e in found.elasticities if e.unit in PER_SECOND and not e.replaces]
    assert {e.name for e in rates} >= {"bf16_peak_flop_rate", "memory_bandwidth", "bandwidth_per_network_card"}
    assert sum(e.elasticity for e in rates) == pytest.approx(-1, abs=1e-5)


def test_what_cannot_matter_has_no_effect():
    found = amped.sensitivity()
    for name in ("memory_capacity", "accelerator_price", "thermal_design_power", "fp8_gemm_sustained_fraction"):
        assert found[name].elasticity == 0
        assert found[name] in found.without_effect
    assert amped.sensitivity(of="cost")["accelerator_price"].elasticity == pytest.approx(1)


# --- the structure --------------------------------------------------------------------------------------------------


def test_all_parameters_of_one_structure_are_one_run(monkeypatch):
    runs = []
    run = side_by_side.run
    monkeypatch.setattr(side_by_side, "run", lambda *a, **k: runs.append(a[2].size) or run(*a, **k))
    found = amped.sensitivity(kinds=["system", "model", "experiment"], number_of_experts=1)
    assert len(found.effects) > 60
    assert len(runs) == 2  # the rules, for the neighbours of counts, and all rows
    assert runs[1] == 1 + sum(len(effect.trials) for effect in found.effects)


def test_a_parameter_that_selects_formulas_once_given_is_estimated_with_them():
    offload = amped.sensitivity()["optimizer_offload"]
    (switched,) = offload.trials
    assert offload.varied == "switch"
    assert switched.result == amped.estimate(optimizer_offload=True)["step_time"] > offload.base


def test_a_clock_takes_the_place_of_the_published_peak_as_set_does():
    found = amped.sensitivity()
    clock = found["frequency"]
    assert clock.replaces == ("bf16_peak_flop_rate",)
    assert clock.base == amped.estimate(frequency="1.41 GHz")["step_time"] != found.value
    assert clock.elasticity == pytest.approx(found["bf16_peak_flop_rate"].elasticity, abs=1e-3)


def test_a_calculated_switch_is_flipped():
    effect = amped.sensitivity()["overlap_data_communication"]
    assert effect.value == amped.estimate()["overlap_data_communication"] == 0
    assert effect.trials[0].result == amped.estimate(overlap_data_communication=True)["step_time"] < effect.base


def test_degrees_change_on_the_same_machine_and_data_parallelism_gives_way():
    degrees = {"data_parallel_degree": 4, "tensor_parallel_degree": 4, "number_of_accelerators": 16}
    found = amped.sensitivity(SMALL, **degrees)
    tensor = found["tensor_parallel_degree"]
    assert [trial.value for trial in tensor.trials] == [2, 8]
    for trial in tensor.trials:
        kept = {"data_parallel_degree": 16 / trial.value, "tensor_parallel_degree": trial.value}
        assert trial.result == amped.estimate(SMALL, **kept)["step_time"]


def test_neighbours_are_the_nearest_values_that_keep_every_rule():
    found = amped.sensitivity(
        SMALL, tensor_parallel_degree=4, microbatch_size=2, kinds=["mapping", "system", "experiment"]
    )
    checked = 0
    for name in (
        "tensor_parallel_degree",
        "microbatch_size",
        "batch_size",
        "number_of_accelerators",
        "pipeline_parallel_degree",
    ):
        effect = found[name]
        kept = {n: found[n].value for n in ("tensor_parallel_degree", "microbatch_size") if n != name}
        tried = {trial.value: trial.result for trial in effect.trials}
        low = next((v for v in tried if v < effect.value), 1)
        for value in range(int(low), int(max(*tried, effect.value)) + 1):
            if value != effect.value:
                assert alone(SMALL, "step_time", effect, float(value), **kept) == tried.get(value), (name, value)
                checked += 1
    assert checked > 40


def test_what_fits_no_more_is_told():
    trials = {trial.value: trial for trial in amped.sensitivity()["tensor_parallel_degree"].trials}
    assert {value: trial.fits_in_memory for value, trial in trials.items()} == {4: False, 16: True}


def test_a_value_that_breaks_a_rule_names_it():
    effect = amped.sensitivity()["gradient_offload"]
    assert [trial.broken for trial in effect.trials] == ["gradients_leave_with_their_states"]
    assert effect.trials[0].result is None


# --- where a slope is not all ---------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(MADE_OF_TWO)
    return path


def test_a_maximum_bends(two):
    effect = amped.sensitivity(of="slower_time", formulas=two)["one_time"]
    assert (effect.elasticity_below, effect.elasticity_above) == (0, pytest.approx(1))
    assert effect.smooth is False
    assert amped.sensitivity(of="slower_time", formulas=two, one_time="3 s")["one_time"].smooth is True


def test_a_rounding_jumps_and_is_told_as_a_change(two):
    found = amped.sensitivity(of="rounded_time", formulas=two)
    effect = found["one_time"]
    assert effect.jumps
    assert effect.elasticity is None
    assert effect in found.changes
    assert effect.largest_change == 0.5  # 2 s become 3 s


def test_at_a_bound_there_is_one_side():
    effect = amped.sensitivity()["wave_quantization"]
    assert effect.value == 1
    assert effect.elasticity_above is None
    assert effect.smooth is None
    assert effect.elasticity == effect.elasticity_below > 0


def test_from_zero_there_is_a_step():
    effect = amped.sensitivity(inter_node_latency="0 s")["inter_node_latency"]
    assert (effect.varied, effect.elasticity) == ("step", None)
    assert [trial.value for trial in effect.trials] == [1e-6]
    assert effect.largest_change > 0


def test_a_result_of_zero_has_changes_and_no_elasticities():
    found = amped.sensitivity(of="pipeline_bubble_time", pipeline_parallel_degree=1)
    assert found.value == 0
    assert found.elasticities == []
    pipeline = found["pipeline_parallel_degree"]
    assert pipeline.largest_change == amped.estimate(pipeline_parallel_degree=2)["pipeline_bubble_time"] > 0


# --- lists ----------------------------------------------------------------------------------------------------------


def test_a_list_of_the_config_is_tried_and_its_first_value_is_its_own():
    listed = config(
        SYSTEM, base=config(ACCELERATOR, memory_bandwidth=["3 TB/s", "4 TB/s", "2 TB/s"]), number_of_nodes=[8, 16]
    )
    found = amped.sensitivity(listed)
    assert found.value == amped.estimate(config(ACCELERATOR, memory_bandwidth="3 TB/s"))["step_time"]
    for name, values in (("memory_bandwidth", [2e12, 4e12]), ("number_of_nodes", [16])):
        effect = found[name]
        assert effect.varied == "list"
        assert [trial.value for trial in effect.trials] == values
        first = {"memory_bandwidth": "3 TB/s", "number_of_nodes": 8, "tensor_parallel_degree": 4}
        del first[name]
        assert [t.result for t in effect.trials] == [alone(config(), "step_time", effect, v, **first) for v in values]


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        (config(MAPPING, activation_recomputation=["none", "full"]), "choice 'activation_recomputation' is a list"),
        (config() | {SYSTEM: {"lookup_config": {"lookup_table_row": ["DGX H100", "DGX A100"]}}}, "rows of system"),
    ],
)
def test_lists_that_need_other_formulas_or_rows_are_refused(listed, told):
    with pytest.raises(ConfigError, match=told):
        amped.sensitivity(listed)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"of": "step_tim"}, "did you mean 'step_time'"),
        ({"of": "fits_in_memory"}, "'fits_in_memory' is no number"),
        ({"of": "layer_operators"}, "'layer_operators' is no number"),
        ({"of": "performance_model"}, "'performance_model' is no number"),
        ({"kinds": ["hardwear"]}, "there is no kind 'hardwear'"),
        ({"kinds": ["maping"]}, "did you mean 'mapping'"),
        ({"step": 0}, "0 is no step"),
        ({"step": float("nan")}, "nan is no step"),
        ({"of": 7}, "there is no quantity 7"),
        ({"of": "training_days", "step": 2}, "2 problems"),
        ({"tensor_parallel_degree": 7}, "nearest tensor_parallel_degree"),
    ],
)
def test_what_cannot_be_is_refused(asked, told):
    with pytest.raises(AmpedError, match=told):
        amped.sensitivity(**asked)


def test_a_name_that_is_not_varied_is_told():
    found = amped.sensitivity(kinds=["system"])
    assert {effect.kind for effect in found.effects} == {"system"}
    with pytest.raises(AmpedError, match="did you mean 'inter_node_latency'"):
        found["inter_node_latancy"]
