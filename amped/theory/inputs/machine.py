"""The machine: its servers, the electrical networks inside and across them, and their hosts. Bandwidths are per direction."""

from amped.theory.quantity import SYSTEM, parameter, quantity, selector


@selector("electrical", "optical_circuit_switched", category=SYSTEM)
def network_kind():
    """Network across nodes: electrical packet switches, or optical circuits set for each step of a collective.

    Source: arXiv 2211.15226 (both compared).
    """
    return "electrical"


@parameter("count", category=SYSTEM)
def number_of_accelerators_per_node():
    """Accelerators of one server. Source: definition."""


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


# --- the host --------------------------------------------------------------------------------------------------------


@parameter("1", category=SYSTEM, above=0, at_most=1)
def host_link_efficiency():
    """Share of the link's bandwidth that large copies from and to pinned memory reach.

    Source: nvbandwidth on A100 SXM, 24.8 of 31.5 GB/s (NVIDIA developer forum, topic 352186), assumed for others.
    """
    return 0.79


@parameter("byte/s", category=SYSTEM, above=0)
def host_memory_bandwidth():
    """Bandwidth of the memory of one server, over all its sockets.

    Source: two sockets of eight channels DDR4-3200 (EPYC 7742 datasheet), where the system does not say.
    """
    return 409.6e9


@parameter("byte", category=SYSTEM, above=0)
def host_memory_capacity():
    """Memory of one server beside that of its accelerators. Source: the server's datasheet."""


@parameter("1", category=SYSTEM, above=0, at_most=1)
def host_optimizer_efficiency():
    """Share of the host's memory bandwidth that an optimizer reaches there.

    Source: arXiv 2101.06840, CPU-Adam on DGX-2: 10 billion parameters of 28 bytes in 2.57 s, 109 of 256 GB/s (from
    memory, unverified).
    """
    return 0.43


# --- what is not left for training -----------------------------------------------------------------------------------


@parameter("byte", category=SYSTEM)
def reserved_memory_bytes():
    """Memory that driver, libraries and the gaps of the allocator take from every accelerator.

    Source: CUDA context, cuBLAS workspaces and NCCL buffers of PyTorch, about 1 GB (from memory, unverified).
    """
    return 1e9
