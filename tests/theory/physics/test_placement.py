"""No step is slower for a larger fast domain, whatever the degrees are; the divisors that placement is made of."""

import random
from functools import cache
from math import gcd
from typing import Any

import numpy as np
import pytest

import amped
from amped.configuring.scenario import read_scenario
from amped.engine.evaluate import Array
from amped.engine.resolve import plan
from amped.theory.nouns.divisors import divisors, largest_divisor
from tests.helpers.drawn import Drawn
from tests.helpers.physics import read, trained

DRAWN = 300
SYSTEMS = {"DGX A100": 8, "DGX H100": 8, "GB200 NVL72": 72}
# Of what is drawn, that which is no number.
CHOSEN = ("system", "placement_order")
# Powers of two, and others: what data, tensor, pipeline and context degrees are drawn from.
DEGREES = (
    ((1, 2, 4, 8, 16, 32), (1, 2, 4, 8), (1, 2, 4), (1, 2, 4)),
    ((1, 2, 3, 5, 6, 7, 12, 24), (1, 2, 3, 4, 6, 12), (1, 2, 3, 4, 6), (1, 2, 3)),
)


def drawn(number: int) -> tuple[dict[str, Any], list[int]]:
    """A mapping of a network that 2 and 3 divide often, every second one with degrees that are no powers of two."""
    draw = random.Random(number)
    data, tensor, pipeline, context = (draw.choice(choices) for choices in DEGREES[number % 2])
    system = draw.choice([*SYSTEMS])
    mapping: dict[str, Any] = {
        "system": system, "data_parallel_degree": data, "tensor_parallel_degree": tensor,
        "pipeline_parallel_degree": pipeline, "context_parallel_degree": context, "layers": 24, "attention_heads": 48,
        "dimensionality": 6144, "feedforward_dimension": 24576, "context": 4608,
        "batch_size": data * pipeline * draw.choice([4, 8]), "microbatch_size": draw.choice([1, 2]),
        "zero_stage": draw.choice([0, 1, 2, 3]), "sequence_parallel": draw.choice([True, False]),
        "overlap_data_communication": draw.choice([True, False]),
        "overlap_tensor_communication": draw.choice([True, False]),
        "placement_order": draw.choice(["tensor_context_data_pipeline", "tensor_context_pipeline_data"]),
    }  # fmt: skip
    shares = [e for e in (2, 3, 4, 6, 8, 12, 16, 24) if data * context * tensor % e == 0]
    if shares and draw.random() < 0.4:
        mapping |= {"number_of_experts": 48, "experts_per_token": 4, "expert_feedforward_dimension": 3072,
                    "expert_parallel_degree": draw.choice(shares), "expert_tensor_parallel_degree": 1}  # fmt: skip
    return mapping, sorted(draw.sample(range(1, SYSTEMS[system] + 1), 2))


def structure(mapping: dict[str, Any]) -> tuple[object, ...]:
    """What the plan of a mapping depends on: its rows and choices, and what is given."""
    return (*(mapping[name] for name in CHOSEN), *mapping)


def step_times(numbers: list[int]) -> tuple[Array, Array]:
    """Of draws of one structure, in one run: which keep all rules, and their steps; a row each for the two domains."""
    mappings, domains = zip(*(drawn(number) for number in numbers), strict=True)
    scenario = read_scenario(read(), mappings[0])
    known = scenario.catalogue
    own = {n: np.array([float(m[n]) for m in mappings]) for n in mappings[0] if n not in CHOSEN}
    alike = Drawn(scenario, plan(known, ("step_time", *known.constraints), scenario.sources), own)
    valid, steps = alike.steps([{"scale_up_domain_size": np.array(each, float)} for each in zip(*domains, strict=True)])
    return valid, steps


@cache
def found() -> dict[int, tuple[float, float]]:
    """Seconds of a step with the small and with the large domain, of each draw."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number in range(DRAWN):
        groups.setdefault(structure(drawn(number)[0]), []).append(number)
    times = {}
    for numbers in groups.values():
        valid, steps = step_times(numbers)
        assert valid.all()
        times |= dict(zip(numbers, zip(*steps.tolist(), strict=True), strict=True))
    return times


def test_no_step_is_slower_for_a_larger_fast_domain() -> None:
    slower = {n: (*drawn(n), large / small) for n, (small, large) in found().items() if large > small * (1 + 1e-12)}
    assert slower == {}
    assert sorted(found()) == [*range(DRAWN)]


def test_the_steps_of_draws_are_those_of_estimates() -> None:
    for number in range(0, DRAWN, 37):  # of both kinds of degrees
        mapping, domains = drawn(number)
        assert found()[number] == tuple(trained(**mapping, scale_up_domain_size=d)["step_time"] for d in domains)


def test_a_rack_of_72_is_as_fast_as_the_64_places_that_a_run_of_64_uses() -> None:
    run = {"model": "Llama 3 70B", "system": "GB200 NVL72", "number_of_accelerators": 64, "tensor_parallel_degree": 4,
           "pipeline_parallel_degree": 1, "zero_stage": 3, "batch_size": 512, "flash_attention": True,
           "activation_recomputation": "none"}  # fmt: skip
    rack, segment = amped.estimate("default", **run), amped.estimate("default", **run, scale_up_domain_size=64)
    assert rack["step_time"] == pytest.approx(segment["step_time"], rel=0.02)
    assert (rack["number_of_used_fast_domain_places"], rack["scale_up_domain_size"]) == (64, 72)


def test_divisors_of_many_degrees_are_found_at_once() -> None:
    degrees, places = np.meshgrid(np.arange(1.0, 121), np.arange(1.0, 81))
    expected = [
        [max(d for d in range(1, int(p) + 1) if n % d == 0) for n in row]
        for row, (p, *_) in zip(degrees, places, strict=True)
    ]
    assert largest_divisor(degrees, places).tolist() == expected
    assert largest_divisor(np.array([64.0, 6.0, 7.0]), np.array([72.0])).tolist() == [64, 6, 7]
    assert largest_divisor(np.array([2.5, 8.0]), np.array([8.0, 0.0])).tolist() == [
        1,
        1,
    ]  # broken rules stand elsewhere
    assert all(gcd(n, d) == d for n in (1, 97, 360) for d in divisors(n))
