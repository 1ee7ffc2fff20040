"""What a source that wrote no recipe is taken to have run: of what its columns leave open, the fastest that fits.

Published throughputs are of tuned runs. Only micro-batch, virtual stages and, with them, the overlap of data parallelism
are chosen so, sequence parallelism where the framework has it, and where nothing fits otherwise recomputation, or
offloaded activations, of as few layers as will do where the framework can choose them; the row tells it.
What ran fits, whatever is estimated: where nothing does, the fastest is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, product
from operator import itemgetter
from pathlib import Path
from typing import Any

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.theory.quantity import MAPPING
from amped.validation.uneven_layers import FIRST, LAST

MICROBATCH, STAGES, OVERLAP = "microbatch_size", "virtual_pipeline_stages", "overlap_data_communication"
AGAIN, SEQUENCE = "activation_recomputation", "sequence_parallel"
LAYERS, OFFLOAD = "number_of_recomputed_layers", "activation_offload"
OPEN = (MICROBATCH, STAGES, OVERLAP, AGAIN, SEQUENCE)
# What only some frameworks have.
OFFERED = (STAGES, SEQUENCE)
# What is open where another is, if the framework has it.
BESIDE = {LAYERS: AGAIN, OFFLOAD: AGAIN}
WHOSE = "not stated; the fastest that fits"
RAN = "not stated; the fastest, of which none is estimated to fit"
# What some of a stage's layers do to keep less on the accelerator, as few of them as will do.
BY_LAYERS: Mapping[str, Callable[[int, int], dict[str, Any]]] = {
    LAYERS: lambda some, _: {AGAIN: "block", LAYERS: some},
    OFFLOAD: lambda some, every: {OFFLOAD: some / every},
}
Tried = tuple[bool, float, dict[str, Any]]


def tuned(
    config: Mapping[str, Any], values: Mapping[str, Any], blank: set[str], tables: str | Path | None
) -> tuple[dict[str, Any], str]:
    """What a recipe would say where it is blank, as the fastest estimate that fits has it, and why.

    Args:
        config: the config of the row.
        values: its parameters by name.
        blank: which of `OPEN` and `BESIDE` the row leaves open.
        tables: a folder of lookup tables to layer over the shipped ones.
    """
    choices = list(_choices(values, blank))
    plain = list(_tried(config, choices, tables))
    for tried in chain([plain], _keeping_less(config, choices, values, blank, tables)):
        if fitting := [(time, choice) for fits, time, choice in tried if fits]:
            return min(fitting, key=itemgetter(0))[1], WHOSE
    return (min(plain, key=itemgetter(1))[2], RAN) if plain else ({}, WHOSE)


def _keeping_less(
    config: Mapping[str, Any], choices: list[dict[str, Any]], values: Mapping[str, Any], blank: set[str],
    tables: str | Path | None,
) -> Iterator[Iterable[Tried]]:  # fmt: skip
    """The same choices keeping less and less for the backward pass, each way tried only once it is asked for."""
    if AGAIN in blank:
        yield _tried(config, ({**choice, AGAIN: "selective"} for choice in choices), tables)
        ways = [way for name, way in BY_LAYERS.items() if name in blank]
        yield (found for choice in choices for way in ways for found in _fewest(config, choice, values, way, tables))
        yield _tried(config, ({**choice, AGAIN: "full"} for choice in choices), tables)


def _fewest(
    config: Mapping[str, Any], choice: dict[str, Any], values: Mapping[str, Any],
    way: Callable[[int, int], dict[str, Any]], tables: str | Path | None,
) -> list[Tried]:  # fmt: skip
    """The choice with the fewest layers that makes it fit, if any number does: the more there are, the less is kept."""
    found: list[Tried] = []
    every = values["layers"] // values.get("pipeline_parallel_degree", 1)
    too_few, enough = 0, every
    while too_few + 1 < enough:
        some = (too_few + enough) // 2
        tried = list(_tried(config, [choice | way(some, every)], tables))
        if tried and tried[0][0]:
            found, enough = tried, some
        else:
            too_few = some
    return found


def _tried(config: Mapping[str, Any], choices: Iterable[dict[str, Any]], tables: str | Path | None) -> Iterator[Tried]:
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
