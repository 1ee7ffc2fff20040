"""Chooses the parameters that a source leaves open: the fastest choice that fits in memory.

Published throughputs come from tuned runs. A row of a table names what its source leaves open: the micro-batch, virtual
stages, the overlap of data parallelism, sequence parallelism, recomputation. If nothing fits otherwise and
recomputation is open, as few layers as necessary are recomputed or offloaded. A run that was measured did fit; if no
choice is estimated to fit, the fastest one is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario, read_scenario
from amped.engine.axes import JointAxis
from amped.engine.evaluate import NO_TUPLES, run
from amped.engine.resolve import plan
from amped.estimation.estimation import with_layout
from amped.theory.parallelisms import PLACED

MICROBATCH, STAGES, OVERLAP = "microbatch_size", "virtual_pipeline_stages", "overlap_data_communication"
AGAIN, SEQUENCE = "activation_recomputation", "sequence_parallel"
LAYERS, OFFLOAD = "number_of_recomputed_layers", "activation_offload"
# The parameters that a table may leave open.
OPEN = (MICROBATCH, STAGES, OVERLAP, AGAIN, SEQUENCE, LAYERS, OFFLOAD)
ENDS = ("number_of_first_stage_layers", "number_of_last_stage_layers")
SIZES = (1, 2, 4, 8, 16, 32)
WHOSE = "not stated; the fastest that fits"
RAN = "not stated; the fastest, of which none is estimated to fit"
TIME, FITS = "step_time", "fits_in_memory"
Choice = dict[str, Any]
Tried = tuple[float, bool, Choice]


def tuned(settings: Mapping[str, Any], names: Sequence[str], tables: str | Path | None) -> tuple[Choice, str]:
    """The likely values of the parameters that a row leaves open (those of the fastest estimate that fits), and why.

    Args:
        settings: what the row gives, in the form of `--set`.
        names: which of `OPEN` the row leaves open.
        tables: a folder of lookup tables that overrule the shipped ones.
    """
    try:
        choices = list(_choices(read_scenario({}, settings, tables), set(names)))
    except AmpedError:
        return {}, WHOSE  # the estimate of the row will report the problem
    plain = _tried(settings, choices, tables)
    for tried in chain([plain], _keeping_less(settings, choices, set(names), tables)):
        if fitting := [each for each in tried if each[1]]:
            return min(fitting, key=itemgetter(0))[2], WHOSE
    return (min(plain, key=itemgetter(0))[2], RAN) if plain else ({}, WHOSE)


def _choices(scenario: Scenario, names: set[str]) -> Iterator[Choice]:
    """Micro-batches that are powers of two and divide a replica's batch; one chunk a stage or, if open, one a layer."""
    given = scenario.sources.given
    degrees = {kind: int(given.get(f"{kind}_parallel_degree", 1)) for kind in PLACED if kind != "data"}
    tensor, stages = degrees["tensor"], degrees["pipeline"]
    replicas = max(int(given.get("number_of_accelerators", 1)) // prod(degrees.values()), 1)
    sizes = [n for n in SIZES if given.get("batch_size", 1) // replicas % n == 0] if MICROBATCH in names else [None]
    ends = [int(given[end]) for end in ENDS if end in given]
    chunks = sorted({1, min([int(given["layers"]) // stages, *ends])}) if STAGES in names and stages > 1 else [None]
    for size, chunk in product(sizes, chunks):
        choice = {
            MICROBATCH: size, STAGES: chunk, OVERLAP: True if OVERLAP in names else None,
            SEQUENCE: True if SEQUENCE in names and tensor > 1 else None,
        }  # fmt: skip
        yield {name: value for name, value in choice.items() if value is not None}


def _keeping_less(
    settings: Mapping[str, Any], choices: list[Choice], names: set[str], tables: str | Path | None
) -> Iterator[list[Tried]]:
    """The choices with less and less kept for the backward pass; each way is tried only when somebody asks for it."""
    if AGAIN not in names:
        return
    yield _tried(settings, [{**choice, AGAIN: "selective"} for choice in choices], tables)
    scenario = read_scenario({}, settings, tables)
    every = int(scenario.sources.given["layers"] // scenario.sources.given.get("pipeline_parallel_degree", 1))
    some = range(1, every)
    ways: dict[str, list[Choice]] = {
        LAYERS: [{AGAIN: "block", LAYERS: n} for n in some], OFFLOAD: [{OFFLOAD: n / every} for n in some],
    }  # fmt: skip
    yield [
        fewest
        for choice in choices
        for name, way in ways.items()
        if name in names
        for fewest in [each for each in _tried(settings, [choice | n for n in way], tables) if each[1]][:1]
    ]
    yield _tried(settings, [{**choice, AGAIN: "full"} for choice in choices], tables)


def _tried(settings: Mapping[str, Any], choices: Sequence[Choice], tables: str | Path | None) -> list[Tried]:
    """For each choice that can run: its time, and whether it fits.

    Choices with equal virtual stages are tried together.
    """
    alike: dict[object, list[Choice]] = {}
    for choice in choices:
        alike.setdefault(choice.get(STAGES), []).append(choice)
    return [tried for own in alike.values() for tried in _tried_at_once(settings, own, tables)]


def _tried_at_once(settings: Mapping[str, Any], choices: Sequence[Choice], tables: str | Path | None) -> list[Tried]:
    """For each choice of one structure that can run: its time, and whether it fits; evaluated at once."""
    try:
        scenario = with_layout(read_scenario({}, {**settings, **choices[0]}, tables))
        known = scenario.catalogue
        chosen = plan(known, (TIME, FITS, *known.constraints), scenario.sources)
        rules = [name for name in known.constraints if name in chosen.by_name]
        numbers = [name for name, value in choices[0].items() if not isinstance(value, str)]
        axis = {name: np.array([float(choice[name]) for choice in choices]) for name in numbers}
        joint = JointAxis(axis, worthwhile=0.0) if axis else NO_TUPLES
        found = run(chosen, scenario.sources.given, joint, keep=frozenset((TIME, FITS, *rules)))
    except AmpedError:
        return []
    time, fits, *kept = (np.broadcast_to(found[name].reshape(-1), (len(choices),)) for name in (TIME, FITS, *rules))
    runs = np.logical_and.reduce([np.isfinite(time), *(rule > 0 for rule in kept)])
    return [(float(time[i]), bool(fits[i]), choice) for i, choice in enumerate(choices) if runs[i]]
