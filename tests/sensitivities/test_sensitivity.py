"""Sensitivity: every parameter by itself, all side by side, and each row what an estimate of it alone gives."""

import math

import pytest

import amped
from amped.configuring.config import shipped_configs
from amped.sensitivities import side_by_side
from tests.helpers.explore import SMALL
from tests.helpers.sensitivity import alone, sensitivity

PER_SECOND = ("byte/s", "flop/s", "Hz", "1/s", "W")
# What messages, kernels and collectives cost beside their bytes and flops.
# A step so small that differences are derivatives to six digits.
FINE = 1e-4
DELAYS = ("inter_accelerator_latency", "inter_node_latency", "kernel_overhead_time", "kernel_launch_time",
          "collective_overhead_time", "tile_latency", "split_product_time")  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", shipped_configs())
def test_what_is_varied_is_the_configuration_as_it_is(name):
    found = sensitivity(name)
    assert found.value == amped.estimate(name)["step_time"]
    assert len({effect.name for effect in found.effects}) == len(found.effects) > 100


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "every"), [("default", 5), ("mixtral-8x7b", 7)])
def test_trials_equal_estimates_of_that_value_alone(name, every):
    # Beyond the mixtures, layers are dense; a row of a system is scaled to a node of another size.
    others = ("layers", "number_of_accelerators_per_node")
    effects = [e for e in sensitivity(name).effects[::every] if e.name not in others]
    unequal = [(effect.name, trial) for effect in effects for trial in effect.trials
               if alone(name, "step_time", effect, trial.value) != trial.result]  # fmt: skip
    assert unequal == []


@pytest.mark.thorough
@pytest.mark.parametrize("of", ["memory_per_accelerator_bytes", "cost", "model_flops_utilization"])
def test_elasticities_are_the_finite_differences_of_two_estimates(of):
    found = amped.sensitivity(of=of, step=0.01)
    for name in ("memory_bandwidth", "gemm_sustained_fraction", "dropout_mask_precision", "accelerator_price"):
        effect = found[name]
        less, more = (alone("default", of, effect, effect.value * share) for share in (0.99, 1.01))
        assert effect.elasticity == pytest.approx(math.log(more / less) / math.log(1.01 / 0.99), rel=1e-12, abs=1e-15)


# --- physics --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("name", shipped_configs())
def test_a_time_is_made_of_times_and_of_rates(name):
    effects = [e for e in amped.sensitivity(name, step=FINE).effects if e.elasticity and not e.replaces]
    seconds = sum(e.elasticity for e in effects if e.unit == "s")
    assert seconds - sum(e.elasticity for e in effects if e.unit in PER_SECOND) == pytest.approx(1, abs=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [n for n in shipped_configs() if n != "amped-style"]
)  # it rounds bytes up to whole words
def test_a_time_does_not_change_with_what_a_byte_is(name):
    effects = [e for e in sensitivity(name).effects if e.elasticity and not e.replaces]
    bytes_of = {"byte": 1, "byte/s": 1, "flop/byte": -1, "J/byte": -1}
    changed = sum(e.elasticity * bytes_of.get(e.unit, 0) for e in effects)
    assert changed == pytest.approx(0, abs=5e-5)  # a step of 1 % on a curve: finer ones would round some bytes away


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["default", "electrical-glam-1.2T"])
def test_memory_is_made_of_bytes_and_energy_of_power(name):
    memory = sensitivity(name, "memory_per_accelerator_bytes")
    assert sum(e.elasticity for e in memory.effects if e.elasticity and e.unit == "byte") == pytest.approx(1, abs=1e-5)
    energy = sensitivity(name, "energy")
    joules = [e.elasticity for e in energy.effects if e.elasticity and e.unit in ("W", "J/byte")]
    assert sum(joules) == pytest.approx(
        1, abs=5e-5
    )  # a step of 1 % on a curve: more power lets products take less time


def test_without_delays_a_machine_twice_as_fast_takes_half_as_long():
    found = amped.sensitivity(**dict.fromkeys(DELAYS, "0 s"), energy_of_operand_byte=0)
    rates = [e for e in found.elasticities if e.unit in PER_SECOND and not e.replaces]
    assert {e.name for e in rates} >= {"bf16_peak_flop_rate", "memory_bandwidth", "bandwidth_per_network_card"}
    assert sum(e.elasticity for e in rates) == pytest.approx(-1, abs=1e-5)


def test_what_cannot_matter_has_no_effect():
    found = amped.sensitivity()
    for name in ("memory_capacity", "accelerator_price", "fp8_gemm_sustained_fraction"):
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
    assert len(runs) == 2  # the rules, for the neighbors of counts, and all rows
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


def test_a_time_that_every_entry_takes_is_varied_by_little():
    drawn = amped.sensitivity("default", of="step_time")["random_number_time"]
    assert drawn.value == 0
    (trial,) = drawn.trials
    assert drawn.base <= trial.result < 2 * drawn.base


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


@pytest.mark.thorough
def test_neighbors_are_the_nearest_values_that_keep_every_rule():
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


def test_counts_of_a_machine_are_halved_and_doubled():
    found = amped.sensitivity(SMALL, kinds=["system", "accelerator"])
    for name in ("scale_up_domain_size", "functional_units_per_core", "number_of_accelerators_per_node"):
        effect = found[name]
        times = [trial.value / effect.value for trial in effect.trials]
        assert times, name
        assert all(math.log2(each) % 1 == 0 for each in times), name


def test_what_fits_no_more_is_told():
    trials = {trial.value: trial for trial in amped.sensitivity()["tensor_parallel_degree"].trials}
    assert {value: trial.fits_in_memory for value, trial in trials.items()} == {4: False, 16: True}


def test_a_value_that_breaks_a_rule_names_it():
    effect = amped.sensitivity()["gradient_offload"]
    assert [trial.broken for trial in effect.trials] == ["gradients_leave_with_their_states"]
    assert effect.trials[0].result is None
