"""A link between nodes by name: what its row gives, what stays as given, and what is refused."""

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario

OMNI = {"system": "DGX A100", "inter_node_link": "Omni-Path 100"}


def given(**settings):
    return read_scenario({}, OMNI | settings).sources.given


def test_a_link_gives_the_latency_the_efficiency_and_the_bandwidth_of_a_card():
    of_link = given()
    assert of_link["inter_node_efficiency"] == 0.21  # 10.6 of 50 GB/s of a server
    assert of_link["bandwidth_per_network_card"] == 12.5e9
    assert of_link["inter_node_latency"] == pytest.approx(9.6e-6)


def test_what_is_given_by_its_own_name_is_stronger():
    assert given(inter_node_efficiency=0.5)["inter_node_efficiency"] == 0.5
    # The bandwidth of a server is that of four cards; the card's own is then left as the system has it.
    assert given(inter_node_bandwidth="50 GB/s")["inter_node_bandwidth"] == 50e9


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"inter_node_link": "Omni-Path 10"}, "Omni-Path 100"),
        ({"inter_node_bandwidth": "30 GB/s"}, "no whole number of links"),
        ({"bandwidth_per_network_card": "25 GB/s"}, "no whole number of links"),
    ],
)
def test_an_unknown_link_and_a_contradicting_bandwidth_are_refused(settings, told):
    with pytest.raises(AmpedError, match=told):
        given(**settings)
