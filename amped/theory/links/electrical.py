"""Time of a collective on electrical networks: a latency for each step and a bandwidth that its group and size allow.

A group of n accelerators, `intra` in each of `inter` nodes, moves V·(n−1)/n of a payload V to gather or to scatter, and
twice that to reduce to all, by ring and tree alike. A ring crosses between two nodes over as many links as the group has
accelerators in a node, so the bandwidth across grows with them until the fast network bounds it.
"""

import numpy as np

from amped.theory.link_records import Algorithms, Links, durations_on
from amped.theory.quantity import family, records
from amped.theory.records import fastest

# --- what a network has ----------------------------------------------------------------------------------------------


@records(choice="collective_algorithm", value="automatic")
def all_reduce_algorithms__automatic(in_switch_reduction):
    """All-reduces run by the fastest algorithm; in the switch where it can add. Source: NCCL src/graph/tuning.cc."""
    return (Algorithms("automatic", 1, 1, 1, in_switch_reduction),)


@family(NAME=("ring", "tree", "hierarchical", "in_switch"))
@records(choice="collective_algorithm", value="NAME")
def all_reduce_algorithms__NAME():
    """All-reduces run by one algorithm alone. Source: definition."""
    return (Algorithms("NAME", *(1 * (name == "NAME") for name in ("ring", "tree", "hierarchical", "in_switch"))),)


@records(choice="network_kind", value="electrical")
def network_links__electrical(
    inter_accelerator_bandwidth,
    inter_accelerator_efficiency,
    inter_accelerator_latency,
    inter_accelerator_ramp_bytes,
    inter_node_bandwidth_per_accelerator,
    inter_node_efficiency,
    inter_node_latency,
    inter_node_ramp_bytes,
    collective_overhead_time,
    tree_bandwidth_fraction,
    in_switch_efficiency,
    all_reduce_algorithms,
):
    """All that the time of a collective depends on beside its group and payload, as one record. Source: definition.

    There are none on optical circuits: what asks for them there, and has no formula of its own for circuits, is refused.
    """
    (algorithms,) = all_reduce_algorithms
    return (
        Links(
            name="network_links",
            fast=inter_accelerator_bandwidth * inter_accelerator_efficiency,
            slow=inter_node_bandwidth_per_accelerator * inter_node_efficiency,
            fast_latency=inter_accelerator_latency,
            slow_latency=inter_node_latency,
            fast_ramp=inter_accelerator_ramp_bytes,
            slow_ramp=inter_node_ramp_bytes,
            overhead=collective_overhead_time,
            tree=tree_bandwidth_fraction,
            switch=in_switch_efficiency / inter_accelerator_efficiency,
            allows_ring=algorithms.allows_ring,
            allows_tree=algorithms.allows_tree,
            allows_hierarchy=algorithms.allows_hierarchy,
            allows_switch=algorithms.allows_switch,
        ),
    )


# --- equations -------------------------------------------------------------------------------------------------------


def bandwidth_of(c, links):
    """What a ring through the group has: across nodes as many links as the group has accelerators in a node.

    Source: arXiv 2410.00273, section 3.
    """
    return np.where(c.inter > 1, np.minimum(c.intra * links.slow, links.fast), links.fast)


def ramp_of(c, links):
    """Bytes that a message loses until it has the bandwidth of its slowest link. Source: the row of kernel_efficiencies."""
    return np.where(c.inter > 1, links.slow_ramp, links.fast_ramp)


def ring_gather_time(c, links):
    """Time to gather or scatter once round a ring. Source: arXiv 2410.00273, section 3; Thakur et al., IJHPCA 19(1)."""
    size = c.intra * c.inter
    latency = (c.inter - 1) * links.slow_latency + (size - c.inter) * links.fast_latency
    return latency + ((size - 1) / size * c.volume + ramp_of(c, links)) / bandwidth_of(c, links)


def tiered_gather_time(c, links):
    """Time to gather or scatter in the node, and across nodes what that leaves to each. Source: arXiv 1807.11205."""
    near = ((c.intra - 1) / c.intra * c.volume + links.fast_ramp) / links.fast + (c.intra - 1) * links.fast_latency
    far = (c.inter - 1) / c.inter * c.volume / c.intra + links.slow_ramp
    return near * (c.intra > 1) + (far / links.slow + (c.inter - 1) * links.slow_latency) * (c.inter > 1)


def tree_time(c, links):
    """Time to reduce up a tree and send down: a chain in each node, a double binary tree across them.

    Source: NCCL src/graph/tuning.cc; Sanders et al., Parallel Computing 35(12), 2009.
    """
    size = c.intra * c.inter
    latency = 2 * (np.log2(c.inter) * links.slow_latency + (c.intra - 1) * links.fast_latency)
    moved = 2 * ((size - 1) / size * c.volume + ramp_of(c, links))
    return latency + moved / (bandwidth_of(c, links) * links.tree)


def switch_time(c, links):
    """Time of an all-reduce in the switch: shares up, the sum down, each V·(1 + 1/n) in both directions at once.

    Across nodes the shares go round a ring. Source: arXiv 2007.13904 (SHARP); NVIDIA NVLink SHARP.
    """
    near = (1 + 1 / c.intra) * c.volume + 2 * links.fast_ramp
    far = 2 * ((c.inter - 1) / c.inter * c.volume / c.intra + links.slow_ramp)
    across = far / links.slow + 2 * (c.inter - 1) * links.slow_latency
    inside = near / (links.fast * links.switch) + 2 * links.fast_latency
    return inside * (c.intra > 1) + across * (c.inter > 1)


def all_reduce_time(c, links):
    """Time of the fastest algorithm that is considered; each passes the payload twice. Source: NCCL src/graph/tuning.cc."""
    ring, tiers = 2 * ring_gather_time(c, links), 2 * tiered_gather_time(c, links)
    tree, switch = tree_time(c, links), switch_time(c, links)
    ways = ((links.allows_ring, ring), (links.allows_tree, tree), (links.allows_hierarchy, tiers))
    return fastest(*ways, (links.allows_switch, switch))


def gather_time(c, links):
    """Time of an all-gather or a reduce-scatter: by a ring, or in two tiers where that is considered and faster.

    Source: NCCL src/graph/tuning.cc.
    """
    return fastest((1, ring_gather_time(c, links)), (links.allows_hierarchy, tiered_gather_time(c, links)))


def chain_time(c, links):
    """Time to broadcast or reduce along a chain of accelerators, in pieces that follow one another.

    Source: Thakur et al., IJHPCA 19(1), 2005.
    """
    latency = (c.inter - 1) * links.slow_latency + (c.intra - 1) * c.inter * links.fast_latency
    return latency + (c.volume + ramp_of(c, links)) / bandwidth_of(c, links)


def all_to_all_time(c, links):
    """Time in which each sends every other its share of the payload, inside and across nodes at once.

    Where nodes hand on what reaches them, all of it passes inside once. Source: arXiv 2006.16668, section 3;
    deepseek-ai/DeepEP, README (NVLink and RDMA forwarding).
    """
    passing = (1 + c.forwarded * (c.inter - 1)) / (c.intra * c.inter)
    near = ((c.intra - 1) * passing * c.volume + links.fast_ramp) / links.fast + (c.intra - 1) * links.fast_latency
    far = (c.inter - 1) / c.inter * c.volume * c.crossing + links.slow_ramp
    far = far / links.slow + (c.inter - 1) * links.slow_latency
    return np.maximum(near * (c.intra > 1), far * (c.inter > 1))


def send_time(c, links):
    """Time to hand a payload to a neighbor, across nodes if any neighbor is there. Source: Hockney, 1994 (α–β)."""
    near = links.fast_latency + (c.volume + links.fast_ramp) / links.fast
    far = links.slow_latency + (c.volume + links.slow_ramp) / links.slow
    return np.where(c.inter > 1, far, near)


TIMES = {
    "all_reduce": all_reduce_time,
    "all_gather": gather_time,
    "reduce_scatter": gather_time,
    "reduce": chain_time,
    "broadcast": chain_time,
    "all_to_all": all_to_all_time,
    "send_receive": send_time,
}


def collective_durations(collectives, links):
    """The time of one call of each collective, with the overhead of a call; none in a group of one or of nothing.

    Source: NCCL src/graph/tuning.cc (a base latency for each call).
    """
    return durations_on(links[0], TIMES, collectives)


@family(KIND=("tensor", "context", "grid_column", "expert", "expert_tensor"))
@records()
def KIND_durations(KIND_collectives, network_links):
    """Time of each collective of a parallelism in a layer. Source: the equations of its kinds on this page."""
    return collective_durations(KIND_collectives, network_links)


@records()
def output_head_panel_durations(output_head_panels, network_links):
    """Time of what SUMMA sends for the output head. Source: `chain_time`."""
    return collective_durations(output_head_panels, network_links)


@records()
def pipeline_durations(pipeline_collectives, stage_send_gather_collectives, network_links):
    """Time to hand a micro-batch over a stage boundary, and to gather its parts. Source: `send_time`, `gather_time`."""
    return collective_durations(pipeline_collectives + stage_send_gather_collectives, network_links)


@records()
def data_durations(sharding_collectives, expert_sharding_collectives, network_links):
    """Time of each collective of data parallelism. Source: `all_reduce_time`, `gather_time`."""
    return collective_durations(sharding_collectives + expert_sharding_collectives, network_links)
