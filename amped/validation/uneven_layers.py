"""Layers that do not divide by the stages and chunks of a row that ran: where a framework puts what is over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

FIRST, LAST = "number_of_first_stage_layers", "number_of_last_stage_layers"
FEWER = "so that the others have equally many"


def splits(values: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """What a config needs besides for layers that divide neither by stages nor by chunks: names, values, and why.

    The stages that have the embedding and the output head have fewer, as Megatron-Core's layouts have it.
    """
    layers, stages = values["layers"], values.get("pipeline_parallel_degree", 1)
    chunks = values.get("virtual_pipeline_stages", 1)
    if stages == 1 or {FIRST, LAST, "pipeline_layout"} & values.keys():
        return
    each = math.ceil(layers / stages)
    over = each * stages - layers
    first, last = each - over // 2, each - math.ceil(over / 2)
    if last < 1:
        return
    if over:
        yield FIRST, first, FEWER
        yield LAST, last, FEWER
    if any(share % chunks for share in (each, first, last)) and last >= chunks:
        yield "uneven_chunks", True, "its layers do not divide by its chunks"
