"""Collectives on electrical networks, message by message: all that is sent arrives, and the busiest link is waited for.

Small worlds on a machine without losses, in groups of many shapes; gradients for rings and tiers, tokens for exchanges.
"""

import pytest

from tests.helpers.round_machine import trained
from tests.helpers.simulated.network import Network, exchange, gather_in_tiers, gather_round_rings
from tests.theory.by_hand.test_layer import GPT
from tests.theory.by_hand.test_mixture import MIXTURE

every_group = pytest.mark.parametrize(
    ("intra", "inter"), [(1, 2), (1, 5), (2, 1), (2, 3), (4, 1), (4, 2), (3, 4), (8, 2)]
)
GRADIENT_BYTES = 816 * 4  # of the layer and its final norm


def seconds_of_gradients(net: Network, algorithm: str) -> float:
    """Of one all-reduce of a layer's gradients among all accelerators."""
    e = trained(
        GPT, number_of_accelerators=net.size, batch_size=net.size, zero_stage=0, collective_algorithm=algorithm,
        number_of_accelerators_per_node=net.intra, inter_accelerator_bandwidth=net.inside, bandwidth_per_network_card=net.across,
    )  # fmt: skip
    return e["exposed_data_communication_time"]


@every_group
def test_rings_over_all_cards_of_a_node(intra: int, inter: int) -> None:
    """An all-reduce is a scatter and a gather; inside links are fast enough to be waited for only where nothing crosses."""
    net = Network(intra, inter, 16.0, 1.0)
    gather_round_rings(net, GRADIENT_BYTES)
    assert net.total("sent") == net.total("received") == pytest.approx((net.size - 1) * GRADIENT_BYTES)
    busiest = net.time("across") or net.time("inside")
    assert seconds_of_gradients(net, "ring") == pytest.approx(2 * busiest, rel=1e-12)


@every_group
def test_tiers_one_after_the_other(intra: int, inter: int) -> None:
    net = Network(intra, inter, 16.0, 1.0)
    gather_in_tiers(net, GRADIENT_BYTES)
    assert net.total("sent") == net.total("received") == pytest.approx((net.size - 1) * GRADIENT_BYTES)
    both = net.time("across") + net.time("inside")
    assert seconds_of_gradients(net, "hierarchical") == pytest.approx(2 * both, rel=1e-12)


@every_group
@pytest.mark.parametrize("inside", [0.5, 16.0])
def test_tokens_exchanged_on_both_networks_at_once(intra: int, inter: int, inside: float) -> None:
    """Two visits of each of 8 tokens of 16 bytes, alike to all: dispatch and combine, forward and backward."""
    net = Network(intra, inter, inside, 1.0)
    exchange(net, 2 * 8 * 16)
    assert net.total("sent") == pytest.approx(net.total("received")) == pytest.approx((net.size - 1) * 2 * 8 * 16)
    e = trained(
        MIXTURE, number_of_accelerators=net.size, batch_size=net.size, expert_parallel_degree=net.size,
        number_of_experts=2 * net.size, number_of_accelerators_per_node=intra, inter_accelerator_bandwidth=inside,
        bandwidth_per_network_card=1.0, filled_domain_size=intra,
    )  # fmt: skip
    busiest = max(net.time("across"), net.time("inside"))
    assert e["exposed_expert_communication_time"] == pytest.approx(4 * busiest, rel=1e-12)
