"""Rails, leaf switches and a narrow spine, worked by hand; and the list that explains the words."""

import json
from pathlib import Path

import pytest

from amped.theory.language.catalogue import catalogue
from tests.helpers.cli import amped as command
from tests.helpers.round_machine import trained

# Two nodes of two accelerators, each with a card of 1 byte a second; data parallelism alone crosses nodes.
NODES = {"layers": 2, "dimensionality": 8, "attention_heads": 2, "vocabulary_size": 32, "context": 8, "batch_size": 4,
         "data_parallel_degree": 4, "microbatch_size": 1, "bandwidth_per_network_card": 1,
         "overlap_data_communication": False}  # fmt: skip


def waited(**network: object) -> float:
    return trained(NODES, network)["exposed_data_communication_time"]


def test_a_narrow_spine_slows_what_passes_it_and_a_leaf_switch_that_joins_all_servers_keeps_it_away() -> None:
    full = waited()
    assert full > 0
    assert waited(oversubscription=2) == pytest.approx(2 * full)
    assert waited(oversubscription=2, leaf_switch_ports=2) == full  # a rail joins both servers


def test_without_rails_a_leaf_has_all_cards_of_fewer_servers() -> None:
    """Two ports: both cards of one server. Four hold both servers."""
    shared = {"oversubscription": 2, "rail_optimized": False}
    assert waited(leaf_switch_ports=2, **shared) == pytest.approx(2 * waited())
    assert waited(leaf_switch_ports=4, **shared) == waited()


def test_a_given_bandwidth_of_servers_is_what_they_have() -> None:
    given = {"inter_node_bandwidth": 2, "leaf_switch_ports": 2, "oversubscription": 4}
    assert waited(**given) == waited()


def test_the_words_of_networks_are_listed_with_what_sets_them(tmp_path: Path) -> None:
    listed = json.loads(command("list", "topologies", "--json", folder=tmp_path).stdout)
    words = {line["word"]: line for line in listed}
    assert {"rails", "spine", "leaf", "fast domain", "segment", "circuits", "GB200 NVL72"} <= words.keys()
    known = catalogue()
    for word in ("rails", "spine", "leaf", "fast domain", "segment", "circuits"):
        assert words[word]["changes"]
        assert all(name in known and known[name].category for name in words[word]["set by"].split(", "))
    assert "oversubscription" in words["spine"]["set by"]
    assert "scale_up_domain_size 72" in words["GB200 NVL72"]["set by"]
