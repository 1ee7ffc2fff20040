"""The machine: its servers, the electrical networks inside and across them, the hosts. Bandwidths: per direction."""

from amped.theory.language.quantity import SYSTEM, quantity


@quantity("byte/s", category=SYSTEM)
def inter_node_bandwidth(number_of_network_cards_per_node, bandwidth_per_network_card, oversubscription):
    """The bandwidth of one server into the network, over all its cards, per direction.

    Source: AMPeD, system parameters.
    """
    return number_of_network_cards_per_node * bandwidth_per_network_card / oversubscription


@quantity("byte/s", choice="network_kind", value="electrical")
def inter_node_bandwidth_per_accelerator__electrical(inter_node_bandwidth, number_of_accelerators_per_node):
    """The share of the server's bandwidth that one accelerator gets while all communicate.

    Source: arXiv 2410.00273, section 3.
    """
    return inter_node_bandwidth / number_of_accelerators_per_node
