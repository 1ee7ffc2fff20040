"""Time of a collective on electrical networks: a latency for each step, and a bandwidth that depends on group and size.

A group has n accelerators, `intra` in each of `inter` nodes. A gather or a scatter of a payload V moves V·(n−1)/n, and
an all-reduce moves twice that, with a ring and with a tree. A ring crosses from node to node over as many links as the
group has accelerators in a node. Its bandwidth across nodes therefore grows with them, up to that of the fast network.
"""

import numpy as np

from amped.theory.link_records import Algorithm, Link, Links
from amped.theory.quantity import family, quantity, records

# --- algorithms of an all-reduce: each passes the payload twice ------------------------------------------------------


def bandwidth_of(c, links):
    """The bandwidth of a ring through the group.

    Across nodes the ring has as many links as the group has accelerators in a node, but at most the bandwidth inside:

        min(intra · slow, fast) if the group spans several nodes, else fast

    Source: arXiv 2410.00273, section 3.
    """
    fast, slow = links.inside.bandwidth, links.across.bandwidth
    return np.where(c.inter > 1, np.minimum(c.intra * slow, fast), fast)


def ramp_of(c, links):
    """The bytes that a message loses until it reaches the bandwidth of its slowest link.

    Source: the row of kernel_efficiencies.
    """
    return np.where(c.inter > 1, links.across.ramp, links.inside.ramp)


def ring_time(c, passes, links):
    """The time to pass a payload V around a ring of n accelerators `passes` times.

    That is:

        passes · ((nodes − 1) · latency across + (n − nodes) · latency inside + ((n − 1)/n · V + ramp) / bandwidth)

    Source: arXiv 2410.00273, section 3; Thakur et al., IJHPCA 19(1).
    """
    size = c.group.degree
    latency = (c.inter - 1) * links.across.latency + (size - c.inter) * links.inside.latency
    return passes * (latency + ((size - 1) / size * c.volume + ramp_of(c, links)) / bandwidth_of(c, links))


def tiered_time(c, passes, links):
    """The time to gather or scatter inside each node, and then across nodes the part that each accelerator has left.

    With i accelerators in each of m nodes:

        passes · (inside((i − 1)/i · V) + across((m − 1)/m · V/i))

    Source: arXiv 1807.11205, section on improvements of communication strategies (hierarchical all-reduce).
    """
    near = links.inside.time((c.intra - 1) / c.intra * c.volume, c.intra - 1)
    far = links.across.time((c.inter - 1) / c.inter * c.volume / c.intra, c.inter - 1)
    return passes * (near * (c.intra > 1) + far * (c.inter > 1))


def tree_time(c, passes, links):
    """The time to reduce a payload up a tree and to send the sum down.

    The tree is a chain inside each node and a double binary tree across nodes. Source: NCCL src/graph/tuning.cc;
    Sanders et al., Parallel Computing 35(12), 2009.
    """
    size = c.group.degree
    latency = passes * (np.log2(c.inter) * links.across.latency + (c.intra - 1) * links.inside.latency)
    moved = passes * ((size - 1) / size * c.volume + ramp_of(c, links))
    return latency + moved / (bandwidth_of(c, links) * links.tree)


def switch_time(c, passes, links):
    """The time of an all-reduce that the switch inside the node computes.

    Accelerators send their shares up and receive the sum: V·(1 + 1/n) in each direction, both directions at once.
    Across nodes the shares pass around a ring, as reduce-scatter and all-gather. Source: Klenk et al., An in-network
    architecture for accelerating shared-memory multiprocessor collectives, ISCA 2020; NVIDIA NVLink SHARP.
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
    """The time of an all-reduce by the fastest of the algorithms that are considered.

    Source: NCCL src/graph/tuning.cc.
    """
    return links.fastest(c, 2, links.algorithms)


def gather_time(c, links):
    """The time of an all-gather or a reduce-scatter: by a ring, or by another considered algorithm that is faster.

    Source: NCCL src/graph/tuning.cc.
    """
    gathering = {each.name: each for each in (RING, *links.algorithms) if each.gathers}
    return links.fastest(c, 1, gathering.values())


def chain_time(c, links):
    """The time of a broadcast or a reduce along a chain of accelerators.

    The payload travels in pieces, so that all links of the chain are busy at once. Source: Thakur et al., IJHPCA 19(1),
    2005.
    """
    latency = (c.inter - 1) * links.across.latency + (c.intra - 1) * c.inter * links.inside.latency
    return latency + (c.volume + ramp_of(c, links)) / bandwidth_of(c, links)


def all_to_all_time(c, links):
    """The time in which each accelerator sends every other one its share, inside the node and across nodes at once.

    If nodes forward messages that arrive from other nodes, these messages also pass over the links inside the node.
    With i accelerators in each of m nodes, n = i·m, latency left out:

        max(near / bandwidth inside, (m − 1)/m · V · crossing / bandwidth across)
        near = (i − 1)/n · V, or with forwarding (i − 1)/n · V · m

    Source: arXiv 2006.16668, section 3; deepseek-ai/DeepEP, README (NVLink and RDMA forwarding).
    """
    passing = (1 + c.forwarded * (c.inter - 1)) / c.group.degree
    near = links.inside.time((c.intra - 1) * passing * c.volume, c.intra - 1)
    far = links.across.time((c.inter - 1) / c.inter * c.volume * c.crossing, c.inter - 1)
    return np.maximum(near * (c.intra > 1), far * (c.inter > 1))


def send_time(c, links):
    """The time to send a payload to a neighbor; across nodes, if the group spans several nodes.

    Source: Hockney, 1994 (α–β).
    """
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
    """The algorithms of an all-reduce, of which the fastest counts; in_switch only if the switch can reduce.

    Source: NCCL src/graph/tuning.cc.
    """
    in_switch = ALGORITHMS["in_switch"].where(in_switch_reduction)
    return tuple((ALGORITHMS | {"in_switch": in_switch}).values())


@family(NAME=tuple(ALGORITHMS))
@records(choice="collective_algorithm", value="NAME")
def all_reduce_algorithms__NAME():
    """The algorithm of an all-reduce: NAME only. Source: definition."""
    return (ALGORITHMS["NAME"],)


@quantity("count")
def number_of_nodes_below_spine(leaf_switch_ports, rail_optimized, number_of_network_cards_per_node):
    """The number of servers that reach one another through leaf switches only, without the spine.

    With a rail-optimized network a leaf switch has one port for each server. Otherwise it has as many ports for a
    server as the server has cards. Source: NVIDIA DGX SuperPOD reference architecture (a scalable unit shares its leaf
    switches).
    """
    ports_of_a_node = np.where(rail_optimized > 0, 1, number_of_network_cards_per_node)
    return np.maximum(np.floor(leaf_switch_ports / ports_of_a_node), 1)


@quantity("1")
def bandwidth_factor_below_spine(oversubscription, number_of_nodes_below_spine, number_of_nodes):
    """The bandwidth of a run below the spine as a multiple of the bandwidth through the spine.

    Links below the spine are not oversubscribed. Assumes that a run which fits below one group of leaf switches is
    placed there. Source: definition.
    """
    return np.where(number_of_nodes <= number_of_nodes_below_spine, oversubscription, 1.0)


@quantity("byte/s")
def network_bandwidth_per_accelerator(inter_node_bandwidth_per_accelerator, bandwidth_factor_below_spine):
    """The bandwidth across nodes for one accelerator while all communicate, below the spine or through it.

    Source: definition.
    """
    return inter_node_bandwidth_per_accelerator * bandwidth_factor_below_spine


@family(PLACE=("accelerator", "node"), BANDWIDTH=("inter_accelerator_bandwidth", "network_bandwidth_per_accelerator"))
@records()
def inter_PLACE_link(BANDWIDTH, inter_PLACE_efficiency, inter_PLACE_latency):
    """The link of one accelerator from PLACE to PLACE: its bandwidth and its latency; its ramp is left out.

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
    """The electrical network: all that the time of a collective depends on, except its group and payload.

    Source: definition.
    """
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
