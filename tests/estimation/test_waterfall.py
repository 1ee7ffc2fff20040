"""The waterfall of a step: its bars add up bit for bit, each is what its name says, and every place shows the same figures."""

import io
import json
import math
import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.breakdown import step_lines
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.waterfall import apportioned, largest_causes, waterfall
from amped.report.page.step import waterfall_of
from amped.report.tables import drawn as drawn_parts
from amped.report.waterfall import lines, rounded
from amped.theory.nouns.records import CONTRACTIONS
from tests.helpers.cli import amped as command
from tests.helpers.marks import further
from tests.helpers.round_machine import ONE_BYTE_A_SECOND, ONE_PRODUCT_A_SECOND, trained

MODELS = (
    "Llama 3 70B",
    "GPT-3 175B",
    "Mixtral 8x7B",
    "Qwen3 30B-A3B",
    "DeepSeek V3",
    "Nemotron-H 8B",
    "Qwen3-Next 80B-A3B",
)
DRAWN: dict[str, tuple[object, ...]] = {
    "system": ("DGX H100", "DGX A100"), "gpus": (64, 128, 256), "tensor_parallel_degree": (1, 2, 4, 8),
    "pipeline_parallel_degree": (1, 2, 4, 8), "expert_parallel_degree": (1, 4, 8), "context_parallel_degree": (1, 2),
    "microbatch_size": (1, 2), "zero_stage": (0, 1, 3), "pipeline_schedule": ("1f1b", "1f1b", "gpipe", "zero_bubble_h1"),
    "activation_recomputation": ("none", "selective", "full"), "flash_attention": (True, True, False),
    "optimizer_offload": (0, 0, 0.5), "activation_offload": (0, 0, 0.5), "overlap_data_communication": (True, False),
    "host_time_per_layer": (0, 0.2e-3, 1e-3), "performance_model": ("operators",) * 9 + ("amped",),
}  # fmt: skip
MIXTURES = ("Mixtral 8x7B", "Qwen3 30B-A3B", "DeepSeek V3", "Qwen3-Next 80B-A3B")


def drawn(seed: int, number: int) -> list[Estimation]:
    """Estimates of drawn configs; those that break a rule are drawn again."""
    random, found = Random(seed), list[Estimation]()
    while len(found) < number:
        model = random.choice(MODELS)
        values = {name: random.choice(values) for name, values in DRAWN.items()}
        if model not in MIXTURES:
            values["expert_parallel_degree"] = 1
        try:
            found.append(
                estimated(
                    read_scenario("default", {"model": model, "number_of_accelerators": values.pop("gpus"), **values})
                )
            )
        except AmpedError:
            continue
    return found


def figures_on_screen(e: Estimation) -> tuple[list[Decimal], Decimal]:
    """The bars that `amped why` prints, and the step below them."""
    from rich.console import Console

    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(drawn_parts(lines)(e))
    printed = re.findall(r"^  (\S.*?) +(-?[\d.]+) +-?[\d.]+ %$", console.export_text(), re.MULTILINE)
    assert printed[-1][0] == "step"
    return [Decimal(figure) for _, figure in printed[:-1]], Decimal(printed[-1][1])


def check(e: Estimation) -> None:
    bars, step = waterfall(e), e["step_time"]
    times = [bar.time for bar in bars]
    assert sum(times) == sum(reversed(times)) == math.fsum(times) == step
    assert bars[-1].start + bars[-1].time == step
    for before, after in pairwise(bars):
        assert before.start + before.time == after.start
    exact = [e[bar.name] for bar in bars]
    assert times == pytest.approx(exact, rel=0, abs=1e-12 * step)
    assert bars[-1].utilization == pytest.approx(e["model_flops_utilization"])
    shown, whole = figures_on_screen(e)
    assert sum(shown) == whole
    assert float(whole) == pytest.approx(step / rounded(bars, step).size, rel=5e-4)
    (picture,) = waterfall_of(e).pictures
    data = picture.data
    place = [column["name"] for column in data["columns"]].index("time")
    told = [Decimal(str(round(row[place] / data["columns"][place]["size"], 9))) for row in data["rows"]]
    assert sum(told) == whole


def test_bars_add_up_to_the_last_digit_everywhere() -> None:
    for e in drawn(1, 5):
        check(e)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [40, further(200)])
def test_bars_of_many_drawn_configs_add_up_to_the_last_digit_everywhere(number: int) -> None:
    for e in drawn(50, number):
        check(e)


# --- what each bar is --------------------------------------------------------------------------------------------------

WORLD = {"layers": 2, "dimensionality": 8, "attention_heads": 2, "vocabulary_size": 32, "context": 8, "batch_size": 4,
         "microbatch_size": 1, "data_parallel_degree": 2, "flash_attention": False,
         "attention_flop_convention": "full"}  # fmt: skip


def bars_of(*worlds: dict[str, object], **given: object) -> dict[str, float]:
    e = trained(WORLD, *worlds, given)
    return {bar.name: bar.time for bar in waterfall(e)}


def test_on_a_machine_without_losses_the_step_is_the_model_at_the_peak() -> None:
    bars = bars_of(ONE_PRODUCT_A_SECOND)
    # Forward passes of two sequences a replica: in each of 2 layers 12·8² products a token and 2·8·8 scores, and the head.
    forward = 2 * 8 * (2 * (12 * 64 + 2 * 8 * 8) + 8 * 32)
    assert bars["peak_time"] == 3 * forward
    assert sum(bars.values()) == pytest.approx(3 * forward)


def test_a_clock_of_a_half_costs_as_much_as_all_products_take_and_an_efficiency_of_a_half_as_much_again() -> None:
    fast, slow = bars_of(ONE_PRODUCT_A_SECOND), bars_of(ONE_PRODUCT_A_SECOND, training_clock_fraction=0.5)
    assert slow["clock_loss_time"] == pytest.approx(fast["peak_time"])
    both = bars_of(ONE_PRODUCT_A_SECOND, training_clock_fraction=0.5, gemm_sustained_fraction=0.5)
    assert both["clock_loss_time"] == slow["clock_loss_time"]
    assert both["product_loss_time"] + both["attention_loss_time"] == pytest.approx(2 * fast["peak_time"])
    scores = 3 * 2 * 8 * 2 * (2 * 8 * 8)  # three passes, sequences, tokens, layers, scores and weighted values
    assert both["attention_loss_time"] == pytest.approx(2 * scores)


def test_where_only_memory_is_slow_nothing_is_lost_to_the_clock() -> None:
    bars = bars_of(ONE_BYTE_A_SECOND, training_clock_fraction=0.5)
    assert bars["clock_loss_time"] == pytest.approx(0, abs=1e-9)
    assert bars["other_kernel_time"] > 0
    assert bars["product_loss_time"] > 0  # their operands come from memory, too


def test_the_bars_of_kernels_are_those_of_the_operators_that_are_listed() -> None:
    """`amped estimate --operators` lists the kernels of a step with their times and flops: another way to the same sums."""
    e = estimated(read_scenario("default", {"model": "Llama 3 70B", "system": "DGX H100", "number_of_accelerators": 64,
                                            "tensor_parallel_degree": 8, "pipeline_parallel_degree": 1, "flash_attention": True}))  # fmt: skip
    lines, bars = step_lines(e), {bar.name: bar.time for bar in waterfall(e)}
    products = [line for line in lines if line.kind in CONTRACTIONS]
    attention = [line for line in lines if line.kind == "fused_attention"]
    others = [line for line in lines if line not in products and line not in attention]
    full_clock = e["matrix_peak_flop_rate"] * e["slowest_clock_fraction"]
    for name, kernels in (("product_loss_time", products), ("attention_loss_time", attention)):
        lost = sum(line.time for line in kernels) - sum(line.flops for line in kernels) / full_clock
        assert bars[name] == pytest.approx(lost)
    assert bars["other_kernel_time"] == pytest.approx(sum(line.time for line in others))


def test_the_kernels_of_a_tower_are_no_wait_for_the_host() -> None:
    e = estimated(
        read_scenario("default", {"model": "LLaVA-1.5 7B", "system": "DGX H100", "number_of_accelerators": 64})
    )
    assert e["tower_forward_time"] > 0
    assert e["kernel_wait_time"] == pytest.approx(e["host_wait_time"], rel=0, abs=1e-9 * e["step_time"])


def test_the_host_alone_makes_its_bar() -> None:
    slow = {"model": "Llama 3 70B", "system": "DGX H100", "number_of_accelerators": 64, "host_time_per_layer": 0.05}
    e = estimated(read_scenario("default", slow))
    bars = {bar.name: bar for bar in waterfall(e)}
    assert bars["kernel_wait_time"].time == pytest.approx(e["host_wait_time"], rel=1e-6)
    assert largest_causes([*bars.values()])[0].name == "kernel_wait_time"


# --- how figures are made to add up ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "whole", "expected"),
    [
        ((1.4, 1.4, 1.2), 4.0, [2.0, 1.0, 1.0]),  # two remainders are alike: the first takes the unit
        ((0.5, -0.3, 2.8), 3.0, [0.0, 0.0, 3.0]),
        ((2.0, 3.0), 5.0, [2.0, 3.0]),
    ],
)
def test_the_largest_remainders_take_what_is_missing(parts, whole, expected) -> None:
    assert apportioned(parts, whole, 1.0) == expected


@pytest.mark.thorough
def test_why_gives_the_same_bars_as_data(tmp_path: Path) -> None:
    asked = ["why", "--model", "Llama 3 70B", "--system", "DGX A100", "--gpus", "64"]
    told = json.loads(command(*asked, "--json", folder=tmp_path).stdout)
    assert sum(bar["time"] for bar in told["waterfall"]) == told["step_time"]
    screen = command(*asked, folder=tmp_path).stdout
    assert "What adds most: clock below that of the peak" in screen
