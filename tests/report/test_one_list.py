"""No comparison mixes the prices of several providers in silence: F1's two verdicts, and all pairs of systems."""

import itertools
import json
from pathlib import Path

import pytest

import amped
from amped.base.errors import AmpedError
from amped.drafting.each_value import Line
from amped.estimation.estimation import Estimation
from amped.estimation.one_list import costs_not_compared
from amped.report.sweeping import _verdict
from amped.tables.prices import Price, not_compared, prices
from amped.tables.table_files import SYSTEMS, shipped
from tests.helpers.cli import amped as command
from tests.helpers.cli import printed

RUN = ("--model", "Llama 3 8B", "--gpus", 72)
PAIRS = (("DGX H100", "GB200 NVL72"), ("DGX H100", "MI355X platform (8x)"))
SMALL = {"model": "Llama 3 8B", "number_of_accelerators": 1, "data_parallel_degree": 1, "tensor_parallel_degree": 1,
         "pipeline_parallel_degree": 1, "microbatch_size": 1, "batch_size": 1, "context": 512, "tokens_to_train": 1e6,
         "scale_up_domain_size": 1, "number_of_accelerators_per_node": 1}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("pair", PAIRS)
def test_across_lists_no_machine_is_the_cheapest(pair: tuple[str, str]) -> None:
    told = " ".join(printed("compare", *pair, *RUN).split())
    assert "cheapest" not in told
    assert (
        "costs are not compared: their prices are of several lists, nebius on demand (H100 SXM), oci on demand" in told
    )
    assert "one list has all of them: --cloud oci" in told
    assert "Lambda 2x at 4.19 USD/GPU-hour" in told  # the row's own words are whole


@pytest.mark.parametrize("pair", PAIRS)
def test_on_one_list_the_faster_machine_is_the_cheaper_one(pair: tuple[str, str]) -> None:
    told = printed("compare", *pair, *RUN, "--cloud", "oci")
    assert f"cheapest: {pair[1]} (DGX H100 takes" in told
    assert "price of H100 SXM: 10 USD/hour, oci on demand" in told


@pytest.mark.thorough
def test_json_says_so() -> None:
    assert "nebius" in json.loads(printed("compare", *PAIRS[0], *RUN, "--json"))["costs_not_compared"]
    assert "costs_not_compared" not in json.loads(printed("compare", *PAIRS[0], *RUN, "--cloud", "oci", "--json"))


def test_a_ranking_by_cost_across_lists_is_refused(tmp_path: Path) -> None:
    done = command("explore", *RUN[:-1], 8, "--vary", "system=DGX H100,MI355X platform (8x)", "--objective", "cost", "--top", 3,
                   "--space", "quick", folder=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert "costs are not compared" in done.stderr


@pytest.mark.thorough
def test_a_recommendation_across_lists_is_not_in_the_order_of_costs() -> None:
    systems = ("--system", "DGX H100", "--system", "DGX A100")
    asked = ("recommend", "--model", "Llama 3 8B", "--deadline", "10 years", *systems)
    across, one = printed(*asked), printed(*asked, "--cloud", "lambda")
    assert "the cheapest first" not in across
    assert "costs are not compared" in across
    assert "of each system, the cheapest first" in one
    assert "--cloud lambda" in one


def test_a_change_of_the_machine_has_no_ratio_of_costs() -> None:
    told = printed("whatif", *RUN[:-1], 8, "--system", "DGX H100", "--set", "system=DGX A100")
    (line,) = (line for line in told.splitlines() if line.startswith("cost "))
    assert line.rstrip().endswith("USD")
    assert "costs are not compared" in told


@pytest.fixture(scope="module")
def systems() -> dict[str, Estimation]:
    """A small run on every system that runs it."""
    estimates = {}
    for name in shipped(SYSTEMS):
        try:
            estimates[name] = amped.estimate(system=name, **SMALL)
        except AmpedError as error:
            left = ("of accelerator_specifications leaves fp16_peak_flop_rate", "needed by fp16_peak_flop_rate")
            if not any(text in str(error) for text in left):  # a peak that sources contradict is left empty
                pytest.fail(f"{name}: {error}")
    return estimates


@pytest.mark.thorough
def test_no_pair_of_systems_is_compared_across_lists(systems) -> None:
    priced = {name: e for name, e in systems.items() if "cost" in e}
    assert len(priced) > 20
    for pair in itertools.combinations(priced, 2):
        lines = [Line({"system": name}, priced[name], 1, 1, "") for name in pair]
        told = " ".join(str(part) for part in _verdict(lines, ["system"]))
        lists = {priced[name].scenario.sources.price.of_list for name in pair}
        assert ("cheapest" in told) == (len(lists) == 1), pair
        assert bool(costs_not_compared(priced[name] for name in pair)) == (len(lists) > 1), pair


@pytest.mark.thorough
def test_every_cost_has_a_list_and_what_has_none_has_no_cost(systems) -> None:
    for name, e in systems.items():
        assert (e.scenario.sources.price is not None) == ("cost" in e), name


def test_terms_of_one_provider_are_two_lists() -> None:
    told = not_compared([("A", Price("aws", "A", term="spot")), ("B", Price("aws", "B", term="on_demand"))], prices())
    assert "aws spot (A), aws on demand (B); no list has all of them" in told
