"""Collectives on paper: the gradients of one small layer, added up by eight accelerators in two nodes of four.

816 parameters of 4 bytes: V = 3264. Inside a node 8 B/s and steps of 1 s; across 1 B/s for each accelerator and 10 s.
"""

import pytest

from tests.helpers.round_machine import trained
from tests.theory.by_hand.test_layer import GPT

V = 816 * 4
EIGHT = GPT | {
    "number_of_accelerators": 8, "number_of_accelerators_per_node": 4, "batch_size": 8, "zero_stage": 0,
    "inter_accelerator_bandwidth": "8 B/s", "bandwidth_per_network_card": "1 B/s", "inter_accelerator_latency": 1,
    "inter_node_latency": 10,
}  # fmt: skip
TREE, SWITCH = {"tree_bandwidth_fraction": 0.5}, {"in_switch_efficiency": 0.5}


def seconds(algorithm: str, **given: object) -> float:
    e = trained(EIGHT, collective_algorithm=algorithm, **given)
    return e["exposed_data_communication_time"]


def test_a_ring_goes_twice_round_over_all_cards_of_a_node() -> None:
    """2·(n−1)/n of V, 2·2856 bytes, at 4 B/s; of 7 steps 1 is between nodes (arXiv 2410.00273, section 3)."""
    assert seconds("ring") == 2 * (V * 7 / 8 / 4 + 1 * 10 + 6 * 1)
    # Cards of 3 B/s: 12 B/s of four, of which the links inside pass on 8.
    assert seconds("ring", bandwidth_per_network_card="3 B/s") == 2 * (V * 7 / 8 / 8 + 16)


def test_tiers_leave_to_the_cards_what_the_node_did_not_do() -> None:
    """3/4 of V inside, and half of a quarter of V across, twice each (arXiv 1807.11205)."""
    assert seconds("hierarchical") == 2 * (V * 3 / 4 / 8 + 3 * 1 + V / 4 / 2 / 1 + 10)


def test_a_tree_has_few_steps_between_nodes() -> None:
    """As many bytes as a ring at half of its rate; up and down one level of nodes and three in them (NCCL, tuning.cc)."""
    assert seconds("tree", **TREE) == V * 2 * 7 / 8 / (4 * 0.5) + 2 * (1 * 10 + 3 * 1)
    four_nodes = seconds("tree", **TREE, number_of_accelerators=16, batch_size=16)
    assert four_nodes == V * 2 * 15 / 16 / (4 * 0.5) + 2 * (2 * 10 + 3 * 1)


def test_a_switch_adds_up() -> None:
    """Shares up and the sum down: V·(1 + 1/4) at half of 8 B/s in 2 steps; a quarter of V round a ring of two nodes, twice.

    Source: Klenk et al., An in-network architecture for accelerating shared-memory multiprocessor collectives, ISCA 2020.
    """
    near, across = V * 1.25 / 4 + 2 * 1, 2 * (V / 4 / 2 / 1 + 10)
    assert seconds("in_switch", **SWITCH) == near + across


def test_the_fastest_is_taken() -> None:
    """1460 by the ring, 2882 by the tree, 1454 in tiers; in the switch 1858."""
    each = {name: seconds(name, **TREE, **SWITCH) for name in ("ring", "tree", "hierarchical", "in_switch")}
    assert each == {"ring": 1460, "tree": 2882, "hierarchical": 1454, "in_switch": 1858}
    assert seconds("automatic", **TREE, **SWITCH) == 1454
    # Where steps take long, the tree is: 2·(V·7/8/4 + 600 + 6) and 2·(V·3/4/8 + 3 + V/8 + 600) against 2·(600 + 3) + 1428.
    assert seconds("automatic", inter_node_latency=600, number_of_accelerators=16, batch_size=16) == pytest.approx(
        V * 2 * 15 / 16 / 4 + 2 * (2 * 600 + 3)
    )


def test_messages_lose_the_bytes_of_their_ramp_and_calls_their_overhead() -> None:
    """80 bytes across and 16 inside, once for each pass; 5 s for each call."""
    ramps = {"inter_node_ramp_bytes": 80, "inter_accelerator_ramp_bytes": 16, "collective_overhead_time": 5}
    assert seconds("ring", **ramps) - seconds("ring") == 2 * 80 / 4 + 5
    assert seconds("hierarchical", **ramps) - seconds("hierarchical") == 2 * (16 / 8 + 80 / 1) + 5
    assert seconds("tree", **ramps) - seconds("tree") == 2 * 80 / 4 + 5


def test_a_group_inside_a_node_uses_its_links_alone() -> None:
    alone = {"number_of_accelerators": 4, "batch_size": 4}
    assert seconds("ring", **alone) == seconds("hierarchical", **alone) == 2 * (V * 3 / 4 / 8 + 3)


def test_gathers_and_scatters_are_half_an_all_reduce() -> None:
    """ZeRO 1 scatters gradients and gathers weights of half their width."""
    assert seconds("ring", zero_stage=1) == (V + V / 2) * 7 / 8 / 4 + 2 * 16
    assert seconds("hierarchical", zero_stage=1) == (V + V / 2) * (3 / 4 / 8 + 1 / 8) + 2 * 13
