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
        held: what is not searched, in words.
        policies: further names and their values.
        every_placement: whether each placement of the degrees in the fast domain is a mapping of its own; else the
            formulas of `placement.py` place them.
        largest_microbatch: the largest micro-batch that is tried.
        largest_context: the largest context-parallel degree that is tried; 0 if only given or listed degrees are.
        chunks: whether virtual pipeline stages are searched.
        experts: whether the degrees of experts are searched, where the network has any. (The columns of a tensor-parallel
            grid are searched in every space, where the strategy has a grid.)
        pruned: whether values of policies that are shown to be no better are left out (`dominance.py`).
        balanced: whether stages have the balanced layout; else the best one of many.
    """

    held: str
    policies: Mapping[str, tuple[object, ...]]
    every_placement: bool = False
    largest_microbatch: float = 16
    largest_context: int = 16
    chunks: bool = True
    experts: bool = True
    pruned: bool = False
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
    "default": Space(f"placement (by its order), overlap, schedule, offload, precisions; {SHARED}; {LIMITS}", POLICIES),
    "full": Space(
        f"placement of experts (by its order), schedule, offload, precisions; {LIMITS}",
        POLICIES | dict.fromkeys((
            "overlap_tensor_communication", "overlap_pipeline_communication", "overlap_data_communication",
            "activation_function_recomputation",
        ), SWITCH),
        every_placement=True, pruned=True,
    ),
    "memory": Space(
        f"placement (by its order), overlap, schedule, offload of weights, precisions; {SHARED}; {LIMITS}",
        POLICIES | {
            "activation_function_recomputation": SWITCH, "norm_recomputation": SWITCH,
            "optimizer_offload": SHARES, "activation_offload": SHARES,
        },
    ),
    "quick": Space(
        f"placement (by its order), overlap, schedule, virtual stages, context degree, offload, precisions; {SHARED}; "
        f"{STRATEGY}; micro-batch above 4; {LAYOUTS}",
        {"activation_recomputation": RECOMPUTATION, "zero_stage": (1.0, 3.0)},
        largest_microbatch=4, largest_context=0, chunks=False, pruned=True, balanced=True,
    ),
    "degrees": Space(
        "everything but the degrees of data, tensor and pipeline parallelism (of a grid, also its columns), their placement and the "
        f"micro-batch: {STRATEGY}, context and expert degrees, stages with unequal numbers of like layers, virtual stages, schedule, recomputation, ZeRO stage, "
        "sequence parallelism, overlap, offload, precisions",
        {}, every_placement=True, largest_microbatch=float("inf"), largest_context=0, chunks=False, experts=False,
    ),
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


def wholes_of(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The degrees whose two parts are both among the names, with these parts."""
    degrees = {f"{kind}_parallel_degree": parts((kind,)) for kind in (*PLACED, "expert")}
    return {whole: of_whole for whole, of_whole in degrees.items() if {*of_whole} <= {*names}}


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
