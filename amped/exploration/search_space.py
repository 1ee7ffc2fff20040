"""Which names an exploration searches by itself, and with which values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from amped.base.errors import ConfigError, did_you_mean
from amped.base.record import dataclass
from amped.theory.nouns.parallelisms import OF_TOKENS, PLACED
from amped.theory.nouns.shardings import SHARDINGS

MICROBATCH, BATCH, CHUNKS = "microbatch_size", "batch_size", "virtual_pipeline_stages"
# What a candidate leaves free, as a share of what it needs and beside it; and what it needs with both.
HEADROOM, HEADROOM_BYTES = "memory_headroom_fraction", "memory_headroom_bytes"
WITH_HEADROOM = "memory_with_headroom_bytes"
SWITCH = (0.0, 1.0)
RECOMPUTATION = ("none", "selective", "full")


@dataclass(frozen=True)
class Space:
    """What is searched besides the degrees and the micro-batch.

    Attributes:
        every_placement: whether each placement of the degrees in the fast domain is a mapping of its own; else the
            formulas of `placement.py` place them.
        largest_microbatch: the largest micro-batch that is tried.
        largest_context: the largest context-parallel degree that is tried; 0 if only given or listed degrees are.
        chunks: whether virtual pipeline stages are searched.
        experts: whether the degrees of experts are searched, where the network has any. (The columns of a tensor-parallel
            grid are searched in every space, where the strategy has a grid.)
        policies: further names and their values.
        pruned: whether values of policies that are shown to be no better are left out (`dominance.py`).
        held: what is not searched, in words.
        balanced: whether stages have the balanced layout; else the best one of many.
    """

    every_placement: bool
    largest_microbatch: float
    largest_context: int
    chunks: bool
    experts: bool
    policies: Mapping[str, tuple[object, ...]]
    pruned: bool
    held: str
    balanced: bool = False


POLICIES = {
    "activation_recomputation": RECOMPUTATION, "zero_stage": tuple(map(float, range(len(SHARDINGS)))),
    "sequence_parallel": SWITCH, "flash_attention": SWITCH,
}  # fmt: skip
# The shares of activations or states that may be offloaded.
SHARES = (0.0, 0.5, 1.0)
# The space that is searched if nothing fits in another one.
WHERE_NOTHING_FITS = {"default": "memory"}
# What several spaces leave out, in words.
LAYOUTS = (
    "layouts but the one that amped finds, up to 16 stages and 32 chunks, where layers are unlike or do not divide"
)
STRATEGY = "tensor-parallel strategy and panels of SUMMA"
LIMITS = f"{STRATEGY}; micro-batch and context degree above 16; {LAYOUTS}"
SHARED = "expert tensor degrees between 1 and that of other layers"
SPACES = {
    "default": Space(False, 16, 16, True, True, POLICIES, False,
        f"placement (by its order), overlap, schedule, offload, precisions; {SHARED}; {LIMITS}"),
    "full": Space(True, 16, 16, True, True, POLICIES | {
        "overlap_tensor_communication": SWITCH, "overlap_pipeline_communication": SWITCH,
        "overlap_data_communication": SWITCH, "activation_function_recomputation": SWITCH,
    }, True, f"placement of experts (by its order), schedule, offload, precisions; {LIMITS}"),
    "memory": Space(False, 16, 16, True, True, POLICIES | {
        "activation_function_recomputation": SWITCH, "norm_recomputation": SWITCH,
        "optimizer_offload": SHARES, "activation_offload": SHARES,
    }, False, f"placement (by its order), overlap, schedule, offload of weights, precisions; {SHARED}; {LIMITS}"),
    "quick": Space(False, 4, 0, False, True,
        {"activation_recomputation": RECOMPUTATION, "zero_stage": (1.0, 3.0)}, True,
        f"placement (by its order), overlap, schedule, virtual stages, context degree, offload, precisions; {SHARED}; "
        f"{STRATEGY}; micro-batch above 4; {LAYOUTS}", balanced=True),
    "degrees": Space(True, float("inf"), 0, False, False, {}, False,
        "everything but the degrees of data, tensor and pipeline parallelism (of a grid, also its columns), their placement and the "
        f"micro-batch: {STRATEGY}, context and expert degrees, stages with unequal numbers of like layers, virtual stages, schedule, recomputation, ZeRO stage, "
        "sequence parallelism, overlap, offload, precisions"),
}  # fmt: skip
# Policies that change nothing if this degree is 1; then only their first value is tried.
IDLE_WITHOUT = {
    "sequence_parallel": "tensor_parallel_degree", "overlap_tensor_communication": "tensor_parallel_degree",
    "overlap_pipeline_communication": "pipeline_parallel_degree",
}  # fmt: skip


def wholes(kinds: tuple[str, ...] = PLACED) -> tuple[str, ...]:
    """The names of the degrees."""
    return tuple(f"{kind}_parallel_degree" for kind in kinds)


def parts(kinds: tuple[str, ...] = PLACED) -> tuple[str, ...]:
    """The names of the degrees inside the node and across nodes."""
    return tuple(f"{place}_node_{kind}_parallel_degree" for kind in kinds for place in ("intra", "inter"))


def wholes_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The degrees whose two parts are both among the names, with these parts."""
    found = {whole: (f"intra_node_{whole}", f"inter_node_{whole}") for whole in wholes((*PLACED, "expert"))}
    return {whole: two for whole, two in found.items() if {*two} <= {*names}}


# What splits sequences is searched and shown only if its degree is not 1.
PARTS = parts(tuple(kind for kind in PLACED if kind not in OF_TOKENS))


def space_of(name: str) -> Space:
    """The space with that name.

    Raises:
        ConfigError: for an unknown name.
    """
    if name not in SPACES:
        raise ConfigError(
            f"there is no space '{name}'", did_you_mean(name, SPACES) or f"it is one of {', '.join(SPACES)}"
        )
    return SPACES[name]
