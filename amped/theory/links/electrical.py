"""Time of a collective on electrical networks: a latency for each step and a bandwidth that its group and size allow.

A group of n accelerators, `intra` in each of `inter` nodes, moves V·(n−1)/n of a payload V to gather or to scatter, and
twice that to reduce to all, by ring and tree alike. A ring crosses between two nodes over as many links as the group
has accelerators in a node, so the bandwidth across grows with them until the fast network bounds it.
"""

import numpy as np

from amped.theory.link_records import Algorithm, Link, Links
from amped.theory.quantity import family, quantity, records

# --- algorithms of an all-reduce: each passes the payload twice ------------------------------------------------------


def bandwidth_of(c, links):
    """What a ring through the group has: across nodes as many links as the group has accelerators in a node.

    Source: arXiv 2410.00273, section 3.
    """
    fast, slow = links.inside.bandwidth, links.across.bandwidth
    return np.where(c.inter > 1, np.minimum(c.intra * slow, fast), fast)


def ramp_of(c, links):
    """Bytes that a message loses until it has the bandwidth of its slowest link.

    Source: the row of kernel_efficiencies.
    """
    return np.where(c.inter > 1, links.across.ramp, links.inside.ramp)


def ring_time(c, passes, links):
    """Time to go round a ring so many times. Source: arXiv 2410.00273, section 3; Thakur et al., IJHPCA 19(1)."""
    size = c.group.degree
    latency = (c.inter - 1) * links.across.latency + (size - c.inter) * links.inside.latency
    return passes * (latency + ((size - 1) / size * c.volume + ramp_of(c, links)) / bandwidth_of(c, links))


def tiered_time(c, passes, links):
    """Time to gather or scatter in the node, and across nodes what that leaves to each. Source: arXiv 1807.11205."""
    near = links.inside.time((c.intra - 1) / c.intra * c.volume, c.intra - 1)
    far = links.across.time((c.inter - 1) / c.inter * c.volume / c.intra, c.inter - 1)
    return passes * (near * (c.intra > 1) + far * (c.inter > 1))


def tree_time(c, passes, links):
    """Time to reduce up a tree and send down: a chain in each node, a double binary tree across them.

    Source: NCCL src/graph/tuning.cc; Sanders et al., Parallel Computing 35(12), 2009.
    """
    size = c.group.degree
    latency = passes * (np.log2(c.inter) * links.across.latency + (c.intra - 1) * links.inside.latency)
    moved = passes * ((size - 1) / size * c.volume + ramp_of(c, links))
    return latency + moved / (bandwidth_of(c, links) * links.tree)


def switch_time(c, passes, links):
    """Time of an all-reduce in the switch: shares up, the sum down, each V·(1 + 1/n) in both directions at once.

    Across nodes the shares go round a ring. Source: arXiv 2007.13904 (SHARP); NVIDIA NVLink SHARP.
    """
    near = (1 + 1 / c.intra) * c.volume + passes * links.inside.ramp
    far = passes * ((c.inter - 1) / c.inter * c.volume / c.intra + links.across.ramp)
    across = far / links.across.bandwidth + passes * (c.inter - 1) * links.across.latency
    inside = near / (links.inside.bandwidth * links.switch) + passes * links.inside.latency
    return inside * (c.intra > 1) + across * (c.inter > 1)


RING = Algorithm("ring", ring_time)
ALGORITHMS = {
    each.name: each
    for each in (
        RING,
        Algorithm("tree", tree_time, gathers=False),
        Algorithm("hierarchical", tiered_time),
        Algorithm("in_switch", switch_time, gathers=False),
    )
}

# --- collectives -----------------------------------------------------------------------------------------------------


def all_reduce_time(c, links):
    """Time of the fastest algorithm that is considered. Source: NCCL src/graph/tuning.cc."""
    return links.fastest(c, 2, links.algorithms)


def gather_time(c, links):
    """Time of an all-gather or a reduce-scatter: by a ring, or by another algorithm that is considered and faster.

    Source: NCCL src/graph/tuning.cc.
    """
    gathering = {each.name: each for each in (RING, *links.algorithms) if each.gathers}
    return links.fastest(c, 1, gathering.values())


def chain_time(c, links):
    """Time to broadcast or reduce along a chain of accelerators, in pieces that follow one another.

    Source: Thakur et al., IJHPCA 19(1), 2005.
    """
    latency = (c.inter - 1) * links.across.latency + (c.intra - 1) * c.inter * links.inside.latency
    return latency + (c.volume + ramp_of(c, links)) / bandwidth_of(c, links)


def all_to_all_time(c, links):
    """Time in which each sends every other its share of the payload, inside and across nodes at once.

    Where nodes hand on what reaches them, all of it passes inside once. Source: arXiv 2006.16668, section 3;
    deepseek-ai/DeepEP, README (NVLink and RDMA forwarding).
    """
    passing = (1 + c.forwarded * (c.inter - 1)) / c.group.degree
    near = links.inside.time((c.intra - 1) * passing * c.volume, c.intra - 1)
    far = links.across.time((c.inter - 1) / c.inter * c.volume * c.crossing, c.inter - 1)
    return np.maximum(near * (c.intra > 1), far * (c.inter > 1))


def send_time(c, links):
    """Time to hand a payload to a neighbor, across nodes if any neighbor is there. Source: Hockney, 1994 (α–β)."""
    return np.where(c.inter > 1, links.across.time(c.volume), links.inside.time(c.volume))


TIMES = {
    "all_reduce": all_reduce_time,
    "all_gather": gather_time,
    "reduce_scatter": gather_time,
    "reduce": chain_time,
    "broadcast": chain_time,
    "all_to_all": all_to_all_time,
    "send_receive": send_time,
}

# --- the network -----------------------------------------------------------------------------------------------------


@records(choice="collective_algorithm", value="automatic")
def all_reduce_algorithms__automatic(in_switch_reduction):
    """All-reduces run by the fastest algorithm; in the switch where it can add. Source: NCCL src/graph/tuning.cc."""
    in_switch = ALGORITHMS["in_switch"].where(in_switch_reduction)
    return tuple((ALGORITHMS | {"in_switch": in_switch}).values())


@family(NAME=tuple(ALGORITHMS))
@records(choice="collective_algorithm", value="NAME")
def all_reduce_algorithms__NAME():
    """All-reduces run by one algorithm alone. Source: definition."""
    return (ALGORITHMS["NAME"],)


@quantity("count")
def number_of_nodes_below_spine(leaf_switch_ports, rail_optimized, number_of_network_cards_per_node):
    """Servers that reach one another without the spine: one for each port of a rail, or for as many as it has cards.

    Source: NVIDIA DGX SuperPOD reference architecture (a scalable unit shares its leaf switches).
    """
    ports_of_a_node = np.where(rail_optimized > 0, 1, number_of_network_cards_per_node)
    return np.maximum(np.floor(leaf_switch_ports / ports_of_a_node), 1)


@quantity("1")
def bandwidth_factor_below_spine(oversubscription, number_of_nodes_below_spine, number_of_nodes):
    """Bandwidth of a run that stays below the spine for each that passes it: it is not oversubscribed.

    Assumes that such a run lies below one group of leaf switches. Source: definition.
    """
    return np.where(number_of_nodes <= number_of_nodes_below_spine, oversubscription, 1.0)


@quantity("byte/s")
def network_bandwidth_per_accelerator(inter_node_bandwidth_per_accelerator, bandwidth_factor_below_spine):
    """Bandwidth across nodes that one accelerator has when all communicate, below or above the spine.

    Source: definition.
    """
    return inter_node_bandwidth_per_accelerator * bandwidth_factor_below_spine


@family(PLACE=("accelerator", "node"), BANDWIDTH=("inter_accelerator_bandwidth", "network_bandwidth_per_accelerator"))
@records()
def inter_PLACE_link(BANDWIDTH, inter_PLACE_efficiency, inter_PLACE_latency):
    """The link of one accelerator that is named after its inter_PLACE_latency; its ramp is left out.

    Source: definition.
    """
    return (Link("inter_PLACE_link", BANDWIDTH * inter_PLACE_efficiency, inter_PLACE_latency),)


@records(choice="network_kind", value="electrical")
def network__electrical(
    inter_accelerator_link,
    inter_accelerator_ramp_bytes,
    inter_node_link,
    inter_node_ramp_bytes,
    collective_overhead_time,
    tree_bandwidth_fraction,
    in_switch_efficiency,
    inter_accelerator_efficiency,
    all_reduce_algorithms,
):
    """All that the time of a collective depends on beside its group and payload. Source: definition."""
    links = Links(
        name="electrical",
        times=TIMES,
        algorithms=all_reduce_algorithms,
        overhead=collective_overhead_time,
        inside=inter_accelerator_link[0].losing(inter_accelerator_ramp_bytes),
        across=inter_node_link[0].losing(inter_node_ramp_bytes),
        tree=tree_bandwidth_fraction,
        switch=in_switch_efficiency / inter_accelerator_efficiency,
    )
    return (links,)
