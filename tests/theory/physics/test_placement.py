"""No step is slower for a larger fast domain, whatever the degrees are; the divisors that placement is made of."""

import random
from math import gcd
from typing import Any

import numpy as np
import pytest

import amped
from amped.theory.parallelisms import divisors, largest_divisor
from tests.helpers.physics import trained

DRAWN = 300
SYSTEMS = {"DGX A100": 8, "DGX H100": 8, "GB200 NVL72": 72}
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


@pytest.mark.parametrize("part", range(4))
def test_no_step_is_slower_for_a_larger_fast_domain(part: int) -> None:
    slower = {}
    for number in range(part, DRAWN, 4):
        mapping, domains = drawn(number)
        small, large = (trained(**mapping, scale_up_domain_size=domain)["step_time"] for domain in domains)
        if large > small * (1 + 1e-12):
            slower[number] = (mapping, domains, large / small)
    assert slower == {}


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
