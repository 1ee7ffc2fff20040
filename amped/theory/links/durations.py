"""Durations of collectives, on whatever network the machine has; and the algorithm that a user may choose."""

from amped.theory.links import electrical, optical
from amped.theory.quantity import SYSTEM, family, records, selector


@selector("automatic", *(electrical.ALGORITHMS | optical.ALGORITHMS), category=SYSTEM)
def collective_algorithm():
    """Algorithm of an all-reduce; automatic: the fastest that the network has.

    Tree, hierarchical and in_switch run on electrical networks; halving_doubling and k_nomial on optical circuits.
    Source: NCCL src/graph/tuning.cc; Thakur et al., IJHPCA 19(1), 2005.
    """
    return "automatic"


@family(
    KIND=("tensor", "context", "grid_column", "expert", "expert_tensor", "output_head_panel"),
    MESSAGES=(
        "tensor_collectives",
        "context_collectives",
        "grid_column_collectives",
        "expert_collectives",
        "expert_tensor_collectives",
        "output_head_panels",
    ),
)
@records()
def KIND_durations(MESSAGES, network):
    """Time of each message: of the KIND parallelism in a layer, or of SUMMA's panels for the output head.

    Source: the equations of the kinds of collectives (`electrical`, `optical`).
    """
    return network[0].durations(MESSAGES)


@records()
def pipeline_durations(pipeline_collectives, stage_send_gather_collectives, network):
    """Time to hand a micro-batch over a stage boundary, and to gather its parts. Source: as of `tensor_durations`."""
    return network[0].durations(pipeline_collectives + stage_send_gather_collectives)


@records()
def data_durations(sharding_collectives, network):
    """Time of each collective of data parallelism. Source: as of `tensor_durations`."""
    return network[0].durations(sharding_collectives)


@records(choice="feedforward_kind", value="mixture")
def data_durations__mixture(sharding_collectives, expert_sharding_collectives, network):
    """Time of each collective of data parallelism, of the routed experts' states too.

    Source: as of `tensor_durations`.
    """
    return network[0].durations(sharding_collectives + expert_sharding_collectives)
