"""A system's row for a node with other accelerators than the row has: its domain, cards and host are those of the node."""

from typing import Any

import pytest

import amped
from tests.helpers.config import sources


def borrowed(system: str, node: int, **values: Any) -> dict[str, float]:
    return sources("default", system=system, number_of_accelerators_per_node=node, **values).given


def test_half_a_server_has_half_its_domain_cards_and_host() -> None:
    whole, half = sources("default", system="DGX H200").given, borrowed("DGX H200", 4)
    for name in ("scale_up_domain_size", "number_of_network_cards_per_node", "host_memory_capacity"):
        assert half[name] == whole[name] / 2
    assert half["inter_accelerator_bandwidth"] == whole["inter_accelerator_bandwidth"]  # each has its own links


def test_a_domain_that_is_part_of_a_server_is_no_larger_than_the_server_and_a_pod_stays_one() -> None:
    assert borrowed("Lassen", 1)["scale_up_domain_size"] == 1
    assert borrowed("Lassen", 8)["scale_up_domain_size"] == 2
    assert borrowed("TPU v4 pod", 2)["scale_up_domain_size"] == 4096


def test_what_is_given_is_not_scaled() -> None:
    tray = borrowed("GB200 NVL72", 4, scale_up_domain_size=72)
    assert (tray["scale_up_domain_size"], tray["number_of_network_cards_per_node"]) == (72, 4)


def test_what_was_scaled_is_told() -> None:
    notices = sources("default", system="DGX H200", number_of_accelerators_per_node=4).notices
    assert any("has 8 accelerators per node, and this one 4: scale_up_domain_size" in each for each in notices)


@pytest.mark.thorough
def test_a_sweep_of_nodes_scales_each() -> None:
    sizes = {"number_of_accelerators_per_node": [4, 8]}
    found = amped.explore("default", vary=sizes, system="DGX H100", number_of_accelerators=16, top=200)
    assert {row["number_of_accelerators_per_node"] for row in found.best} <= {4, 8}
    row = next(row for row in found.best if row["number_of_accelerators_per_node"] == 4)
    inside = [row[f"intra_node_{kind}_parallel_degree"] for kind in ("data", "tensor", "pipeline", "context")]
    assert inside[0] * inside[1] * inside[2] * inside[3] == 4
