"""The durations of collectives on the network of the machine, and the algorithm that a user may choose."""

from amped.theory.language.quantity import SYSTEM, family, records, selector
from amped.theory.links import electrical, optical
from amped.theory.nouns.parallelisms import IN_LAYERS

# What is exchanged in a layer: by parallelisms, on a grid of tensor parallelism, and among the shares of an expert.
MESSAGES_OF_A_LAYER = (*IN_LAYERS, "grid_column", "expert_tensor")


@selector("automatic", *(electrical.ALGORITHMS | optical.ALGORITHMS), category=SYSTEM)
def collective_algorithm():
    """The algorithm of an all-reduce. With `automatic` it is the fastest one that the network supports.

    An algorithm runs on electrical networks, on optical circuits, or on both. A network that does not have the chosen
    one refuses it, and names those that it has.

    Source: NCCL src/graph/tuning.cc; Thakur et al., IJHPCA 19(1), 2005.
    """
    return "automatic"


@family(
    named=(
        "tensor_durations",
        "context_durations",
        "expert_durations",
        "grid_column_durations",
        "expert_tensor_durations",
        "output_head_panel_durations",
        "tied_embedding_durations",
        "data_durations",
        "optimizer_message_durations",
    ),
    KIND=(*MESSAGES_OF_A_LAYER, "output_head_panel", "tied_embedding", "data", "optimizer_message"),
    MESSAGES=(
        *(f"{kind}_collectives" for kind in MESSAGES_OF_A_LAYER),
        "output_head_panels",
        "tied_embedding_collectives",
        "sharding_collectives",
        "optimizer_collectives",
    ),
)
@records()
def KIND_durations(MESSAGES, network):
    """The time of one call of each collective in MESSAGES.

    Source: the equations of the pages `electrical` and `optical`.
    """
    return network[0].durations(MESSAGES)


@records()
def pipeline_durations(pipeline_collectives, stage_send_gather_collectives, network):
    """The time to send a micro-batch to the next pipeline stage, and the time to gather its parts on that stage.

    Source: the equations of the pages `electrical` and `optical`.
    """
    return network[0].durations(pipeline_collectives + stage_send_gather_collectives)


@records(choice="feedforward_kind", value="mixture")
def data_durations__mixture(sharding_collectives, expert_sharding_collectives, network):
    """The time of each collective of data parallelism, for the routed experts and for all other parameters.

    Source: the equations of the pages `electrical` and `optical`.
    """
    return network[0].durations(sharding_collectives + expert_sharding_collectives)
