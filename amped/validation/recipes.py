"""What a source that wrote no recipe is taken to have run: of what its columns leave open, the fastest that fits.

Published throughputs are of tuned runs. Only micro-batch, virtual stages and, with them, the overlap of data parallelism
are chosen so, and the row tells it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from amped.errors import AmpedError
from amped.estimation import Estimation, estimated
from amped.quantity import MAPPING
from amped.scenario import read_scenario

MICROBATCH, STAGES, OVERLAP = "microbatch_size", "virtual_pipeline_stages", "overlap_data_communication"
OPEN = (MICROBATCH, STAGES, OVERLAP)
WHOSE = "not stated; the fastest that fits"


def tuned(
    config: Mapping[str, Any], values: Mapping[str, Any], blank: set[str], tables: str | Path | None
) -> dict[str, int]:
    """What a recipe would say where it is blank, as the fastest estimate that fits has it; nothing where none does.

    Args:
        config: the config of the row.
        values: its parameters by name.
        blank: which of `OPEN` the row leaves open.
        tables: a folder of lookup tables to layer over the shipped ones.
    """
    best: dict[str, int] = {}
    least = float("inf")
    for choice in _choices(values, blank):
        changed = copy.deepcopy(dict(config))
        for name, value in choice.items():
            changed[MAPPING]["parameters"][name] = {"value": value}
        try:
            e = estimated(read_scenario(changed, lookup_tables=tables), Estimation)
        except AmpedError:
            continue
        if e["fits_in_memory"] and e["step_time"] < least:
            best, least = choice, e["step_time"]
    return best


def _choices(values: Mapping[str, Any], blank: set[str]) -> Iterator[dict[str, int]]:
    """Powers of two that divide a replica's sequences; no virtual stages, or a layer each."""
    stages = values.get("pipeline_parallel_degree", 1)
    model = values.get("tensor_parallel_degree", 1) * stages * values.get("context_parallel_degree", 1)
    sequences = values.get("batch_size", 1) * model // max(values.get("number_of_accelerators", 1), 1)
    sizes = [n for n in (1, 2, 4, 8, 16, 32) if sequences % n == 0] if MICROBATCH in blank else [None]
    each = values["layers"] // stages
    chunks = sorted({1, each}) if STAGES in blank and stages > 1 else [None]
    if not blank & {MICROBATCH, STAGES}:
        return
    overlaps = [True] if OVERLAP in blank else [None]
    for size, chunk, overlap in product(sizes, chunks, overlaps):
        choice = {MICROBATCH: size, STAGES: chunk, OVERLAP: overlap}
        yield {name: value for name, value in choice.items() if value is not None}
