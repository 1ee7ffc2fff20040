"""The machine: how many accelerators, and the networks inside and across nodes. Bandwidths are per direction."""

import numpy as np

from amped.quantity import SYSTEM, parameter, quantity


@parameter("count", category=SYSTEM)
def number_of_accelerators_per_node():
    """Accelerators of one server. Source: definition."""


@quantity("count", category=SYSTEM, replaces=("number_of_nodes",))
def number_of_accelerators(
    data_parallel_degree, tensor_parallel_degree, pipeline_parallel_degree, context_parallel_degree
):
    """Accelerators that train: the product of the degrees. Source: arXiv 2104.04473, section 3.1 (n = p·t·d)."""
    return data_parallel_degree * tensor_parallel_degree * pipeline_parallel_degree * context_parallel_degree


@quantity("count", category=SYSTEM, when_given=("number_of_nodes",))
def number_of_accelerators__of_nodes(number_of_nodes, number_of_accelerators_per_node):
    """Accelerators that train: all of the cluster. Source: definition."""
    return number_of_nodes * number_of_accelerators_per_node


@quantity("count", category=SYSTEM, replaces=("number_of_accelerators",))
def number_of_nodes(number_of_accelerators, number_of_accelerators_per_node):
    """Servers that the accelerators fill. Source: definition."""
    return np.ceil(number_of_accelerators / number_of_accelerators_per_node)


@quantity("byte/s", category=SYSTEM)
def inter_accelerator_bandwidth(inter_node_bandwidth_per_accelerator):
    """Bandwidth of one accelerator inside the node, over all its links; without a fast network, that of its cards.

    Source: definition.
    """
    return inter_node_bandwidth_per_accelerator


@parameter("s", category=SYSTEM)
def inter_accelerator_latency():
    """Time of one step of a collective inside the node. Source: NCCL src/graph/tuning.cc, ring over NVLink."""
    return 3.4e-6


@parameter("1", category=SYSTEM, above=0, at_most=1.2)
def inter_accelerator_efficiency():
    """Share of the bandwidth inside the node that large collectives reach.

    Source: nccl-tests on 8 A100, 234.9 of 300 GB/s, assumed for others.
    """
    return 0.78


@quantity("count", category=SYSTEM, replaces=("inter_node_bandwidth",))
def number_of_network_cards_per_node(number_of_accelerators_per_node):
    """Network cards of one server: one for each accelerator unless given.

    Source: NVIDIA DGX A100 and H100 datasheets.
    """
    return number_of_accelerators_per_node


@parameter("byte/s", category=SYSTEM, above=0, replaces=("inter_node_bandwidth",))
def bandwidth_per_network_card():
    """Bandwidth of one network card. Source: 100 Gbit/s Ethernet, IEEE 802.3ba, where the system does not say."""
    return 12.5e9


@parameter("1", category=SYSTEM, at_least=1)
def oversubscription():
    """Factor by which the network above the servers is narrower than their cards. Source: full bisection is assumed where the system does not say."""
    return 1


@quantity("byte/s", category=SYSTEM)
def inter_node_bandwidth(number_of_network_cards_per_node, bandwidth_per_network_card, oversubscription):
    """Bandwidth of one server into the network, over all its cards, per direction. Source: AMPeD, system parameters."""
    return number_of_network_cards_per_node * bandwidth_per_network_card / oversubscription


@quantity("byte/s", choice="network_kind", value="electrical")
def inter_node_bandwidth_per_accelerator__electrical(inter_node_bandwidth, number_of_accelerators_per_node):
    """Share of the server's bandwidth that one accelerator has when all communicate.

    Source: arXiv 2410.00273, section 3.
    """
    return inter_node_bandwidth / number_of_accelerators_per_node


@parameter("s", category=SYSTEM)
def inter_node_latency():
    """Time of one step of a collective across nodes. Source: NCCL src/graph/tuning.cc, ring over a network."""
    return 9.6e-6


@parameter("1", category=SYSTEM, above=0, at_most=1.2)
def inter_node_efficiency():
    """Share of the bandwidth across nodes that large collectives reach.

    Source: all-reduce over InfiniBand HDR, assumed for others.
    """
    return 0.85
