"""A training on paper: how many steps, what failures take, what it consumes and costs."""

import pytest

from tests.helpers.round_machine import ONE_PRODUCT_A_SECOND, trained
from tests.theory.by_hand.test_layer import GPT

# One product a second: the layer of `test_layer.py` takes 3328 + 3584 + 3072 = 9984 s for a step of 4 tokens.
STEP = 9984
ALONE: dict[str, object] = GPT | ONE_PRODUCT_A_SECOND | {"tokens_to_train": 398}


def test_steps_are_begun_whole() -> None:
    """398 tokens, 4 a step: 99.5 steps are 100."""
    e = trained(ALONE)
    assert (e["number_of_steps"], e["step_time"]) == (100, STEP)
    assert e["training_time"] == 100 * STEP
    assert e["tokens_per_second_per_accelerator"] == 4 / STEP


def test_how_well_the_machine_was_used() -> None:
    """Three times 3328 products of 2 flop are counted, and as many were computed: at one a second nothing else takes time."""
    e = trained(ALONE)
    assert e["model_flops_per_accelerator"] == 3 * 2 * 3328
    assert e["model_flops_utilization"] == 1
    # With everything computed again a quarter of the time is not the model's.
    again = trained(ALONE, activation_recomputation="full")
    assert again["model_flops_utilization"] == pytest.approx(3 * 3328 / (STEP + 3328))
    assert again["hardware_flops_utilization"] == pytest.approx(1)


def test_failures_take_checkpoints_restarts_and_half_an_interval_each() -> None:
    """A failure every 10 000 s, checkpoints of 50 s: the best interval is √(2 · 50 · 10 000) = 1000 s (Young, 1974, eq. 6).

    Of 1000 s of work a checkpoint takes 50, and of 10 000 s failures take 500 and a restart of 100 (Daly, 2006, section 2).
    """
    failing = {"accelerator_mean_time_between_failures": 10_000, "checkpoint_time": 50, "restart_time": 100}
    e = trained(ALONE, failing)
    assert e["checkpoint_interval_time"] == 1000
    assert e["goodput_fraction"] == pytest.approx(1 / (1 + 50 / 1000 + (1000 / 2 + 100) / 10_000))
    assert e["training_time"] == pytest.approx(100 * STEP * 1.11)
    # Two accelerators fail twice as often.
    both = trained(ALONE, failing, number_of_accelerators=2, batch_size=2)
    assert both["checkpoint_interval_time"] == pytest.approx(1000 / 2**0.5)


def test_energy_and_cost() -> None:
    """Two replicas that compute 9984 s and add up 2 · 1/2 · 3264 bytes for as long: 400 W while busy, a quarter while waiting."""
    world = {"number_of_accelerators": 2, "batch_size": 2, "zero_stage": 0, "inter_accelerator_bandwidth": 3264 / STEP,
             "thermal_design_power": "400 W", "idle_power_fraction": 0.25, "accelerator_price": "3.6 dollar/hour"}  # fmt: skip
    e = trained(ALONE, world, tokens_to_train=800)
    assert e["step_time"] == pytest.approx(2 * STEP)
    assert e["energy"] == pytest.approx(2 * 100 * STEP * (400 + 100))
    assert e["cost"] == pytest.approx(2 * 100 * 2 * STEP * 0.001)
