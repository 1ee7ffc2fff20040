"""Time of a collective: a latency for each step and a bandwidth that its group and its size allow.

A group has `intra` accelerators in each of `inter` nodes. A ring through all of them crosses between two nodes over as many
links as the group has accelerators in a node, so the bandwidth across grows with them until the fast network bounds it.
"""

from amped.links import Algorithms, Links
from amped.quantity import SYSTEM, parameter, records, selector


@selector("electrical", "optical_circuit_switched", category=SYSTEM)
def network_kind():
    """Network across nodes: electrical packet switches, or optical circuits set for each step of a collective.

    Source: arXiv 2211.15226 (both compared).
    """
    return "electrical"


@selector("automatic", "ring", "tree", "hierarchical", "in_switch", "halving_doubling", "k_nomial", category=SYSTEM)
def collective_algorithm():
    """Algorithm of an all-reduce; automatic: the fastest that the network has.

    Tree, hierarchical and in_switch run on electrical networks; halving_doubling and k_nomial on optical circuits.
    Source: NCCL src/graph/tuning.cc; Thakur et al., IJHPCA 19(1), 2005.
    """
    return "automatic"


@parameter("boolean", category=SYSTEM)
def in_switch_reduction():
    """Whether the switches inside the node can add up what they pass on. Source: NVIDIA NVLink SHARP, NCCL 2.17."""
    return 0


@parameter("1", category=SYSTEM, above=0, at_most=1.2)
def in_switch_efficiency():
    """Share of the bandwidth inside the node that a reducing switch reaches.

    Source: nccl-tests on 8 H200 with NVLS, 480 GB/s bus bandwidth of 450 at 16 GiB.
    """
    return 0.69


@parameter("1", category=SYSTEM, above=0, at_most=1)
def tree_bandwidth_fraction():
    """Bandwidth of a tree as a share of that of a ring. Source: NCCL src/graph/tuning.cc."""
    return 0.92


@records(choice="collective_algorithm", value="automatic")
def all_reduce_algorithms__automatic(in_switch_reduction):
    """All-reduces run by the fastest algorithm; in the switch where it can add. Source: NCCL src/graph/tuning.cc."""
    return (Algorithms("automatic", 0, 0, 0, 1 - in_switch_reduction),)


@records(choice="collective_algorithm", value="ring")
def all_reduce_algorithms__ring():
    """All-reduces run through rings. Source: definition."""
    return (Algorithms("ring", 0, 1, 1, 1),)


@records(choice="collective_algorithm", value="tree")
def all_reduce_algorithms__tree():
    """All-reduces run up and down trees. Source: definition."""
    return (Algorithms("tree", 1, 0, 1, 1),)


@records(choice="collective_algorithm", value="hierarchical")
def all_reduce_algorithms__hierarchical():
    """All-reduces run inside the nodes, across them, and inside again. Source: definition."""
    return (Algorithms("hierarchical", 1, 1, 0, 1),)


@records(choice="collective_algorithm", value="in_switch")
def all_reduce_algorithms__in_switch():
    """All-reduces are added up by the switches inside the nodes. Source: definition."""
    return (Algorithms("in_switch", 1, 1, 1, 0),)


@records(choice="network_kind", value="electrical")
def network_links__electrical(
    inter_accelerator_bandwidth, inter_accelerator_efficiency, inter_accelerator_latency, inter_accelerator_ramp_bytes,
    inter_node_bandwidth_per_accelerator, inter_node_efficiency, inter_node_latency, inter_node_ramp_bytes,
    collective_overhead_time, tree_bandwidth_fraction, in_switch_efficiency, all_reduce_algorithms,
):  # fmt: skip
    """All that the time of a collective depends on beside its group and payload, as one record. Source: definition.

    There are none on optical circuits: what asks for them there, and has no formula of its own for circuits, is refused.
    """
    (algorithms,) = all_reduce_algorithms
    return (Links(
        name="network_links",
        fast=inter_accelerator_bandwidth * inter_accelerator_efficiency,
        slow=inter_node_bandwidth_per_accelerator * inter_node_efficiency,
        fast_latency=inter_accelerator_latency, slow_latency=inter_node_latency,
        fast_ramp=inter_accelerator_ramp_bytes, slow_ramp=inter_node_ramp_bytes,
        overhead=collective_overhead_time,
        tree=tree_bandwidth_fraction, switch=in_switch_efficiency / inter_accelerator_efficiency,
        no_ring=algorithms.no_ring, no_tree=algorithms.no_tree, no_hierarchy=algorithms.no_hierarchy,
        no_switch=algorithms.no_switch,
    ),)  # fmt: skip
