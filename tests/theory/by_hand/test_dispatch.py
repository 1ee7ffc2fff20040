"""Where a token's experts are: counted token by token, and what of it crosses the networks."""

from itertools import product

import pytest

import amped

MIXTURE = {"tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "batch_size": 1024, "deduplicated_dispatch": 1}


def estimation(**overrides):
    return amped.estimate("mixtral-8x7b", **MIXTURE | overrides)


def places_in_turn(experts, chosen, places):
    """Different places of each of many tokens, of which each has the experts after those of the token before it."""
    found, tokens = 0, experts * chosen
    for token in range(tokens):
        own = [(token * chosen + i) % experts for i in range(chosen)]
        found += len({expert // (experts // places) for expert in own})
    return found / tokens


@pytest.mark.parametrize(("degree", "chosen"), [(8, 2), (8, 6), (4, 6), (1, 3)])
def test_a_token_meets_as_many_accelerators_as_counting_all_choices_finds(degree, chosen):
    """Each of k experts on any of G accelerators: the mean number of different ones, choice by choice."""
    ways = [len(set(way)) for way in product(range(degree), repeat=chosen)]
    e = estimation(number_of_experts=64, experts_per_token=chosen, expert_parallel_degree=degree)
    assert e["deduplicated_dispatch_fraction"] == pytest.approx(sum(ways) / len(ways) / chosen, abs=1e-6)


@pytest.mark.parametrize(("experts", "chosen", "degree"), [
    (32, 4, 8), (128, 8, 8), (128, 4, 64), (64, 6, 16), (64, 6, 64), (256, 8, 64), (64, 8, 1), (8, 2, 8),
])  # fmt: skip
def test_experts_in_turn_are_where_counting_them_token_by_token_finds_them(experts, chosen, degree):
    asked = {"number_of_experts": experts, "experts_per_token": chosen, "expert_parallel_degree": degree}
    e = estimation(expert_assignment="in_turn", number_of_accelerators=64, **asked)
    assert e["destination_accelerators_per_token"] == pytest.approx(places_in_turn(experts, chosen, degree))
    nodes = max(degree // 8, 1)
    assert e["destination_nodes_per_token"] == pytest.approx(places_in_turn(experts, chosen, nodes))
    assert e["inter_node_dispatch_fraction"] <= 1


def test_sending_a_token_once_saves_traffic_and_its_sorting_at_home():
    often, once = (estimation(deduplicated_dispatch=d) for d in (False, True))
    assert once["exposed_expert_communication_time"] < often["exposed_expert_communication_time"]
    assert once["compute_forward_time"] < often["compute_forward_time"]


def test_a_node_gets_a_token_once_and_hands_it_on():
    """Eight of 64 experts on 4 nodes of 8: some 7.1 accelerators of 3.6 nodes, of which each crosses once."""
    wide = {"number_of_experts": 64, "experts_per_token": 8, "expert_parallel_degree": 32, "number_of_accelerators": 32}
    e = estimation(**wide)
    dispatch = next(c for c in e.results.records("expert_collectives") if c.name == "expert_dispatch")
    assert float(dispatch.crossing) == pytest.approx(4 * (1 - 0.75**8) / (32 * (1 - (31 / 32) ** 8)))
    assert float(dispatch.forwarded) == 1
    token = float(dispatch.volume) / float(e["destination_accelerators_per_token"])  # bytes of a micro-batch's tokens
    assert token == pytest.approx(e["microbatch_bytes"])
    plain = next(c for c in estimation(**wide, deduplicated_dispatch=0).results.records("expert_collectives"))
    assert (float(plain.crossing), float(plain.forwarded)) == (1, 0)


def test_experts_in_turn_meet_no_more_accelerators_than_at_random():
    for degree in (1, 2, 4, 8):
        asked = {"number_of_experts": 64, "experts_per_token": 8, "expert_parallel_degree": degree}
        turn, random = (estimation(expert_assignment=a, **asked) for a in ("in_turn", "random"))
        assert turn["destination_accelerators_per_token"] <= random["destination_accelerators_per_token"]
