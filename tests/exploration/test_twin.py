"""The optimum of a mixture of experts is what a plain loop over `amped.estimate` finds, which shares no code with a search."""

import random
from functools import cache
from typing import Any

import pytest

import amped
from amped.exploration.answer import Exploration
from tests.helpers.mixture import SYSTEMS, candidates, network, question, step_time

# What is held, that a loop may end: all but one policy, others on each system, and a degree that two systems search.
HELD = {
    "DGX A100": {
        "activation_recomputation": "full",
        "zero_stage": 1,
        "sequence_parallel": True,
        "flash_attention": True,
        "expert_tensor_parallel_degree": 1,
    },
    "DGX H100": {
        "zero_stage": 1,
        "sequence_parallel": True,
        "activation_recomputation": "selective",
        "context_parallel_degree": 2,
    },
    "GB200 NVL72": {
        "activation_recomputation": "none",
        "zero_stage": 2,
        "flash_attention": True,
        "expert_parallel_degree": 4,
    },
}
# Of all policies together; the loop over a machine tries all that it does not hold.
SAMPLED = 16
# Of the full space, which holds the degree alone: what is pruned are switches and kinds of attention.
CONTEXT = {"DGX A100": 1, "DGX H100": 2, "GB200 NVL72": 1}


@cache
def searched(system: str) -> Exploration:
    return amped.explore(network(), top=1, **question(system))


@pytest.mark.thorough
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_loop_over_estimates_finds_the_same_optimum(system: str) -> None:
    held: dict[str, Any] = HELD[system]
    found = amped.explore(network(), top=1, **question(system), **held)
    tried = [step_time(system, each) for each in candidates(**held)]
    times = [time for time in tried if time is not None]
    assert found.best[0]["step_time"] == min(times)
    assert found.candidates == len(tried)
    # A search holds one layout for a number of stages and chunks. An estimate finds its own, which may fit where that does not.
    assert 0 < found.feasible <= len(times) < len(tried)


@pytest.mark.thorough
@pytest.mark.parametrize("system", [*SYSTEMS][:1])
def test_no_candidate_of_a_random_sample_is_better_than_the_optimum(system: str) -> None:
    drawn = random.Random(8).sample([*candidates()], SAMPLED)
    times = [time for each in drawn if (time := step_time(system, each)) is not None]
    assert searched(system).best[0]["step_time"] <= min(times)


@pytest.mark.thorough
@pytest.mark.parametrize("system", [*SYSTEMS][1:2])
def test_the_full_space_has_the_optimum_of_the_default_one_and_every_switch(system: str) -> None:
    """What is pruned there is no better: the same space with every value listed, of which none is pruned, has no other."""
    switches = ("flash_attention", "overlap_data_communication")
    asked = question(system) | {"context_parallel_degree": CONTEXT[system]}
    plain = amped.explore(network(), top=1, **asked)
    pruned = amped.explore(network(), top=1, space="full", **asked)
    whole = amped.explore(network(), top=1, space="full", vary={name: [0, 1] for name in switches}, **asked)
    assert pruned.candidates < whole.candidates
    assert pruned.best[0]["step_time"] == whole.best[0]["step_time"] <= plain.best[0]["step_time"]
