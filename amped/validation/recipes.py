"""What a source that wrote no recipe is taken to have run: of what its columns leave open, the fastest that fits.

Published throughputs are of tuned runs. Only micro-batch, virtual stages and, with them, the overlap of data parallelism
are chosen so, sequence parallelism where the framework has it, recomputation where nothing fits without; the row tells it.
What ran fits, whatever is estimated: where nothing does, the fastest is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

from amped.errors import AmpedError
from amped.estimation import Estimation, estimated
from amped.quantity import MAPPING
from amped.scenario import read_scenario
from amped.validation.splits import FIRST, LAST

MICROBATCH, STAGES, OVERLAP = "microbatch_size", "virtual_pipeline_stages", "overlap_data_communication"
AGAIN, SEQUENCE = "activation_recomputation", "sequence_parallel"
OPEN = (MICROBATCH, STAGES, OVERLAP, AGAIN, SEQUENCE)
# What only some frameworks have.
OFFERED = (STAGES, SEQUENCE)
WHOSE = "not stated; the fastest that fits"
RAN = "not stated; the fastest, of which none is estimated to fit"
# What computes most again keeps least.
RECOMPUTATIONS = ("selective", "full")


def tuned(
    config: Mapping[str, Any], values: Mapping[str, Any], blank: set[str], tables: str | Path | None
) -> tuple[dict[str, Any], str]:
    """What a recipe would say where it is blank, as the fastest estimate that fits has it, and why.

    Args:
        config: the config of the row.
        values: its parameters by name.
        blank: which of `OPEN` the row leaves open.
        tables: a folder of lookup tables to layer over the shipped ones.
    """
    fastest: list[tuple[float, dict[str, Any]]] = []
    for again in (None, *RECOMPUTATIONS) if AGAIN in blank else (None,):
        added = {} if again is None else {AGAIN: again}
        tried = list(_tried(config, ({**choice, **added} for choice in _choices(values, blank)), tables))
        if fitting := [(time, choice) for fits, time, choice in tried if fits]:
            return min(fitting, key=itemgetter(0))[1], WHOSE
        fastest += [(time, choice) for _, time, choice in tried if again is None]
    return (min(fastest, key=itemgetter(0))[1], RAN) if fastest else ({}, WHOSE)


def _tried(
    config: Mapping[str, Any], choices: Iterable[dict[str, Any]], tables: str | Path | None
) -> Iterator[tuple[bool, float, dict[str, Any]]]:
    """For each choice that can run: whether it fits, and its time."""
    for choice in choices:
        changed = copy.deepcopy(dict(config))
        for name, value in choice.items():
            changed[MAPPING]["parameters"][name] = {"value": value}
        try:
            e = estimated(read_scenario(changed, lookup_tables=tables), Estimation)
        except AmpedError:
            continue
        yield bool(e["fits_in_memory"]), e["step_time"], choice


def _choices(values: Mapping[str, Any], blank: set[str]) -> Iterator[dict[str, Any]]:
    """Powers of two that divide a replica's sequences; no virtual stages, or a layer each (of the smallest stage)."""
    stages = values.get("pipeline_parallel_degree", 1)
    model = values.get("tensor_parallel_degree", 1) * stages * values.get("context_parallel_degree", 1)
    sequences = values.get("batch_size", 1) * model // max(values.get("number_of_accelerators", 1), 1)
    sizes = [n for n in (1, 2, 4, 8, 16, 32) if sequences % n == 0] if MICROBATCH in blank else [None]
    ends = [values[end] for end in (FIRST, LAST) if end in values]
    chunks = sorted({1, min([values["layers"] // stages, *ends])}) if STAGES in blank and stages > 1 else [None]
    if not blank & {MICROBATCH, STAGES, AGAIN, SEQUENCE}:
        return
    overlap = True if OVERLAP in blank and blank & {MICROBATCH, STAGES} else None
    split = True if SEQUENCE in blank and values.get("tensor_parallel_degree", 1) > 1 else None
    for size, chunk in product(sizes, chunks):
        uneven = True if ends and chunk and chunk > 1 else None
        choice = {MICROBATCH: size, STAGES: chunk, OVERLAP: overlap, SEQUENCE: split, "uneven_chunks": uneven}
        yield {name: value for name, value in choice.items() if value is not None}
