"""The table of the sharding strategies: which states of the parameters replicas shard at each ZeRO stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from amped.base.record import dataclass


@dataclass(frozen=True)
class Sharding:
    """A sharding strategy: each flag tells whether the replicas shard this kind of state.

    Sharded gradients are scattered for every micro-batch. Sharded weights are gathered for every pass of a micro-batch.
    """

    optimizer_state: bool
    gradient: bool
    weight: bool


# The index is the number of the ZeRO stage.
SHARDINGS = (
    Sharding(optimizer_state=False, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=False, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=False),
    Sharding(optimizer_state=True, gradient=True, weight=True),
)


def number_of_shards(state: str, zero_stage: Any, degree: Any) -> Any:
    """The number of shares into which replicas split a state of the parameters; 1 if they do not split it.

    Args:
        state: optimizer_state, gradient or weight.
        zero_stage: the ZeRO stage, an array.
        degree: the number of replicas in a sharding group.

    Source: arXiv 1910.02054, section 5.
    """
    return np.where(is_sharded(state, zero_stage), degree, 1)


def is_sharded(state: str, zero_stage: Any) -> Any:
    """Whether replicas shard a state of the parameters, for each ZeRO stage in an array.

    Args:
        state: optimizer_state, gradient or weight.
        zero_stage: the ZeRO stages.

    Source: arXiv 1910.02054, section 5.
    """
    flags = [getattr(sharding, state) for sharding in SHARDINGS]
    return np.take(flags, np.asarray(zero_stage).astype(np.int64), mode="clip")
