"""Time of a collective on electrical networks: a latency for each step, and a bandwidth that depends on group and size.

A group has n accelerators, `intra` in each of `inter` nodes. A gather or a scatter of a payload V moves V·(n−1)/n, and
an all-reduce moves twice that, with a ring and with a tree. A ring crosses from node to node over as many links as the
group has accelerators in a node. Its bandwidth across nodes therefore grows with them, up to that of the fast network.

In all functions `collective` is a record of `Collective`, and `links` is a record of `Links`, the network.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.link_records import Algorithm, Link, Links

# --- the links inside the node that a group can use -----------------------------------------------------------------


def share_of_mesh(members, mesh):
    """The share of an accelerator's bandwidth inside the node that a group of g accelerators can use.

        min((g − 1)/(n − 1), 1) in a full mesh of n accelerators, 1 with a switch (n = 1)

    In a full mesh each accelerator has one link (or the same number of links) to each other accelerator. A group uses
    only the links between its own accelerators. Groups beside one another use different links. The share is 1 for a
    group with one accelerator in the node (g = 1), because it sends nothing there.

    Source: AMD Instinct MI300X platform data sheet (7 links of 64 GB/s, one to each peer); measured in
    stas00/ml-engineering network: 47.7 GB/s with 2 accelerators, 312.9 GB/s with 8.
    Differs: messages that pass through a third accelerator are left out; RCCL and HCCL send none.
    """
    return np.where(members > 1, np.minimum((members - 1) / np.maximum(mesh - 1, 1), 1.0), 1.0)


def link_inside(members, links):
    """The link inside the node as a group reaches it that has `members` accelerators there. Source: definition."""
    return links.inside.having(bandwidth=links.inside.bandwidth * share_of_mesh(members, links.mesh))


# --- algorithms of an all-reduce: each passes the payload twice ------------------------------------------------------


def bandwidth_of(collective, links):
    """The bandwidth of a ring through all accelerators of a group.

        min(intra · slow, fast) if the group spans several nodes, else fast

    `intra` is the number of accelerators of the group in a node. Each of them gives the ring one link across nodes, of
    bandwidth `slow`. `fast` is the bandwidth inside the node that the group can use.

    Source: arXiv 2410.00273, section 3.
    """
    fast, slow = link_inside(collective.intra, links).bandwidth, links.across.bandwidth
    return np.where(collective.inter > 1, np.minimum(collective.intra * slow, fast), fast)


def ramp_of(collective, links):
    """The bytes by which a message counts as longer than it is, because short messages are slower.

    If the group spans several nodes, it is the value for the links across nodes, else for the links inside the node.

    Source: the row of the accelerator in the table kernel_efficiencies.
    """
    return np.where(collective.inter > 1, links.across.ramp, links.inside.ramp)


def ring_time(collective, passes, links):
    """The time to pass the shares of a payload around a ring `passes` times.

        passes · ((nodes − 1) · latency across + (n − nodes) · latency inside + ((n − 1)/n · V + ramp) / bandwidth)

    V is the number of bytes of the payload, n the number of accelerators of the group, and `ramp` the bytes by which a
    message counts as longer than it is. `passes` is 1 for an all-gather or a reduce-scatter, and 2 for an all-reduce.

    Source: arXiv 2410.00273, section 3; Thakur et al., IJHPCA 19(1).
    """
    size = collective.group.degree
    latency = (collective.inter - 1) * links.across.latency + (size - collective.inter) * links.inside.latency
    moved = (size - 1) / size * collective.volume + ramp_of(collective, links)
    return passes * (latency + moved / bandwidth_of(collective, links))


def tiered_time(collective, passes, links):
    """The time of an all-gather or reduce-scatter (`passes` = 1) or an all-reduce (2) in two tiers.

        passes · (inside((i − 1)/i · V) + across((m − 1)/m · V/i))

    A payload of V bytes passes around a ring of the i accelerators in each node, and then across the m nodes: there
    each accelerator sends the V/i bytes that it has. `inside` and `across` are the times of these bytes on the two
    kinds of links.

    Source: arXiv 1807.11205, section on improvements of communication strategies (hierarchical all-reduce).
    """
    intra, inter = collective.intra, collective.inter
    near = link_inside(intra, links).time((intra - 1) / intra * collective.volume, intra - 1)
    far = links.across.time((inter - 1) / inter * collective.volume / intra, inter - 1)
    return passes * (near * (intra > 1) + far * (inter > 1))


def tree_time(collective, passes, links):
    """The time to reduce a payload up a tree and to send the sum down: `passes` is 2.

    The tree is a chain inside each node and a double binary tree across nodes.

    Source: NCCL src/graph/tuning.cc;
    Sanders et al., Parallel Computing 35(12), 2009.
    """
    size = collective.group.degree
    latency = passes * (
        np.log2(collective.inter) * links.across.latency + (collective.intra - 1) * links.inside.latency
    )
    moved = passes * ((size - 1) / size * collective.volume + ramp_of(collective, links))
    return latency + moved / (bandwidth_of(collective, links) * links.tree)


def switch_time(collective, passes, links):
    """The time of an all-reduce that the switch inside the node computes.

    The n accelerators of a node send their shares to the switch and receive the sum: V·(1 + 1/n) bytes in each
    direction for a payload of V bytes, both directions at the same time. Across nodes the shares pass around a ring, as
    in a reduce-scatter and an all-gather.

    Source: Klenk et al., An in-network architecture for accelerating shared-memory multiprocessor collectives, ISCA
    2020; NVIDIA NVLink SHARP.
    """
    intra, inter = collective.intra, collective.inter
    near = (1 + 1 / intra) * collective.volume + passes * links.inside.ramp
    far = passes * ((inter - 1) / inter * collective.volume / intra + links.across.ramp)
    across = far / links.across.bandwidth + passes * (inter - 1) * links.across.latency
    inside = near / (link_inside(intra, links).bandwidth * links.switch) + passes * links.inside.latency
    return inside * (intra > 1) + across * (inter > 1)


RING = Algorithm("ring", ring_time)
ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        RING,
        Algorithm("tree", tree_time, gathers=False),
        Algorithm("hierarchical", tiered_time),
        Algorithm("in_switch", switch_time, gathers=False),
    )
}

# --- collectives -----------------------------------------------------------------------------------------------------


def all_reduce_time(collective, links):
    """The time of an all-reduce by the fastest of the algorithms that may be used. Source: NCCL src/graph/tuning.cc."""
    return links.fastest(collective, 2, links.algorithms)


def gather_time(collective, links):
    """The time of an all-gather or a reduce-scatter: by a ring, or by another algorithm that may be used and is faster.

    Source: NCCL src/graph/tuning.cc.
    """
    gathering = {algorithm.name: algorithm for algorithm in (RING, *links.algorithms) if algorithm.gathers}
    return links.fastest(collective, 1, gathering.values())


def chain_time(collective, links):
    """The time of a broadcast or a reduce along a chain of accelerators.

    The payload is cut into slices that follow one another, so that all links of the chain are busy at the same time. In
    each step a whole slice is handed on, which takes `chain` seconds besides the latency of the link.

    Source: Thakur et al., IJHPCA 19(1), 2005; NCCL src/graph/tuning.cc (reduce and broadcast).
    """
    near, far = links.inside.latency + links.chain, links.across.latency + links.chain
    latency = (collective.inter - 1) * far + (collective.intra - 1) * collective.inter * near
    return latency + (collective.volume + ramp_of(collective, links)) / bandwidth_of(collective, links)


def all_to_all_time(collective, links):
    """The time of an all-to-all: the longer of the messages inside the node and of those across nodes.

        max(near / bandwidth inside, (m − 1)/m · V · crossing / bandwidth across)
        near = (i − 1)/(i·m) · V, or if nodes forward messages (i − 1)/i · V

    The equation leaves latency out. An accelerator sends V bytes in all, to the accelerators of m nodes, with i
    accelerators of the group in each node. `crossing` is the share of the bytes that must cross nodes. If nodes forward
    messages, those from other nodes also pass over the links inside the node.

    Source: arXiv 2006.16668, section 3; deepseek-ai/DeepEP, README (NVLink and RDMA forwarding).
    """
    intra, inter = collective.intra, collective.inter
    passing = (1 + collective.forwarded * (inter - 1)) / collective.group.degree
    near = link_inside(intra, links).time((intra - 1) * passing * collective.volume, intra - 1)
    far = links.across.time((inter - 1) / inter * collective.volume * collective.crossing, inter - 1)
    return np.maximum(near * (intra > 1), far * (inter > 1))


def send_time(collective, links):
    """The time to send a payload to a neighbor: over links across nodes if the group has several nodes, else inside.

    Sender and receiver are a group of 2: in a full mesh they use only the link between them.

    Source: Hockney, 1994 (α–β).
    """
    near = link_inside(2, links).time(collective.volume)
    return np.where(collective.inter > 1, links.across.time(collective.volume), near)


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
    """The algorithms that an all-reduce may use; in_switch is one of them only if the switch can reduce.

    Source: NCCL src/graph/tuning.cc.
    """
    in_switch = ALGORITHMS["in_switch"].having(allowed=in_switch_reduction)
    return tuple((ALGORITHMS | {"in_switch": in_switch}).values())


@family(
    named=(
        "all_reduce_algorithms__ring",
        "all_reduce_algorithms__tree",
        "all_reduce_algorithms__hierarchical",
        "all_reduce_algorithms__in_switch",
    ),
    NAME=tuple(ALGORITHMS),
)
@records(choice="collective_algorithm", value="NAME")
def all_reduce_algorithms__NAME(*, name):
    """The only algorithm that an all-reduce may use: NAME. Source: definition."""
    return (ALGORITHMS[name],)


@quantity("count")
def number_of_nodes_below_spine(leaf_switch_ports, rail_optimized, number_of_network_cards_per_node):
    """The number of servers that reach one another through leaf switches only, without the spine switches.

    In a rail-optimized network a server takes one port of a leaf switch. Otherwise a server takes as many ports as it
    has network cards. Source: NVIDIA DGX SuperPOD reference architecture (a scalable unit shares its leaf switches).
    """
    ports_of_a_node = np.where(rail_optimized > 0, 1, number_of_network_cards_per_node)
    return np.maximum(np.floor(leaf_switch_ports / ports_of_a_node), 1)


@quantity("1")
def bandwidth_factor_below_spine(oversubscription, number_of_nodes_below_spine, number_of_nodes):
    """The bandwidth across nodes of a run, divided by the bandwidth of a run that needs spine switches.

    The factor is the oversubscription if the run fits below one group of leaf switches, because the links there are not
    oversubscribed; else it is 1. Assumes that a run that fits is placed there.

    Source: definition.
    """
    return np.where(number_of_nodes <= number_of_nodes_below_spine, oversubscription, 1.0)


@quantity("byte/s")
def network_bandwidth_per_accelerator(inter_node_bandwidth_per_accelerator, bandwidth_factor_below_spine):
    """The bandwidth across nodes for one accelerator while all accelerators communicate.

    It is larger for a run that is small enough to need no spine switch.

    Source: definition.
    """
    return inter_node_bandwidth_per_accelerator * bandwidth_factor_below_spine


@family(
    named=(
        "inter_accelerator_link",
        "inter_node_link",
    ),
    PLACE=("accelerator", "node"),
    BANDWIDTH=("inter_accelerator_bandwidth", "network_bandwidth_per_accelerator"),
)
@records()
def inter_PLACE_link(BANDWIDTH, inter_PLACE_efficiency, inter_PLACE_latency, *, place):
    """The link of one accelerator from PLACE to PLACE: its bandwidth and its latency.

    The record of the network adds the ramp, by which short messages are slower.

    Source: definition.
    """
    return (Link(f"inter_{place}_link", bandwidth=BANDWIDTH * inter_PLACE_efficiency, latency=inter_PLACE_latency),)


@records(choice="network_kind", value="electrical")
def network__electrical(
    inter_accelerator_link,
    inter_accelerator_ramp_bytes,
    inter_node_link,
    inter_node_ramp_bytes,
    collective_overhead_time,
    tree_bandwidth_fraction,
    chain_step_overhead_time,
    in_switch_efficiency,
    inter_accelerator_efficiency,
    full_mesh_size,
    all_reduce_algorithms,
):
    """The electrical network: all values on which the time of a collective depends, except its group and its payload.

    Source: definition.
    """
    links = Links(
        name="electrical",
        times=TIMES,
        algorithms=all_reduce_algorithms,
        overhead=collective_overhead_time,
        inside=inter_accelerator_link[0].having(ramp=inter_accelerator_ramp_bytes),
        across=inter_node_link[0].having(ramp=inter_node_ramp_bytes),
        tree=tree_bandwidth_fraction,
        chain=chain_step_overhead_time,
        switch=in_switch_efficiency / inter_accelerator_efficiency,
        mesh=full_mesh_size,
    )
    return (links,)
