"""Chooses what the row of a table does not say, by the chooser of every estimate.

A blank cell is what `amped estimate` takes for the same words. Published throughputs come from tuned runs. A row of a
table names what its source leaves open: the micro-batch, virtual stages, the overlap of data parallelism, sequence
parallelism, recomputation. All else is held as the row and the chooser have it. A run that was measured did fit; if no
choice is estimated to fit, the one that lacks least is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario, read_scenario
from amped.drafting.asking import Asking
from amped.drafting.chooser import MAPPED, TODAY
from amped.drafting.fastest import Fastest, fastest
from amped.engine.evaluate import Results, run
from amped.engine.resolve import plan
from amped.exploration.search_space import CHUNKS, HEADROOM, HEADROOM_BYTES, MICROBATCH, wholes
from amped.exploration.sweep_axes import MICROBATCHES
from amped.pipeline_layouts.laying_out import ENDS
from amped.tables.table_files import LookupTables
from amped.theory.nouns.parallelisms import PLACED

OVERLAP = "overlap_data_communication"
AGAIN, SEQUENCE = "activation_recomputation", "sequence_parallel"
LAYERS, OFFLOAD = "number_of_recomputed_layers", "activation_offload"
# The parameters that a table may leave open.
OPEN = (MICROBATCH, CHUNKS, OVERLAP, AGAIN, SEQUENCE, LAYERS, OFFLOAD)
# What the chooser searches by itself. It is held where the row does not leave it open.
DEGREES = wholes(tuple(kind for kind in PLACED if kind != "data"))
HELD = (*DEGREES, "expert_parallel_degree", "expert_tensor_parallel_degree", "zero_stage", CHUNKS, MICROBATCH)
SIZES = (1, 2, 4, 8, 16, 32)
WHOSE = "not stated; the fastest that fits"
RAN = "not stated; none is estimated to fit, and this one lacks least"
Choice = dict[str, Any]
# What the time and the memory of a step depend on, of what the chooser takes where nobody gives it.
CHOSEN = ("system", "software", "number_of_accelerators", "matrix_precision", "batch_size", *TODAY, *MAPPED)
AS_ESTIMATED = "not stated; as amped estimate takes it"


def as_estimated(settings: Mapping[str, Any], names: Sequence[str], tables: LookupTables) -> Choice:
    """The values that `amped estimate` would choose for this row, by name; empty if nothing is left to choose.

    Args:
        settings: the values that the row gives, in the form of `--set`.
        names: names to leave out, because they are chosen in another way.
        tables: a folder of lookup tables that overrule the shipped ones.

    Raises:
        AmpedError: if there is no estimate for these words.
    """
    given = {*settings, *names, *([MICROBATCH] if MICROBATCHES in settings else [])}
    if {*CHOSEN} <= given:
        return {}
    chosen = Asking(None, settings, tables).completed().question.overrides
    # Headroom is what a planner keeps free; a run that was measured kept none for an error of amped's.
    left_out = {*settings, *names, HEADROOM, HEADROOM_BYTES}
    return {name: _whole(value) for name, value in chosen.items() if name not in left_out}


def tuned(settings: Mapping[str, Any], names: Sequence[str], tables: LookupTables) -> tuple[Choice, str]:
    """The likely values of the parameters that a row leaves open, by name, and a sentence on where they come from.

    They are those of the fastest estimate that fits. Empty if the row has no estimate.

    Args:
        settings: the values that the row gives, in the form of `--set`.
        names: which of `OPEN` the row leaves open.
        tables: a folder of lookup tables that overrule the shipped ones.
    """
    try:
        scenario = read_scenario({}, settings, tables)
        row_values = _row_values(scenario)
        held = {**settings, **_held(scenario, row_values, names), **_switches(row_values, names)}
        ways = list(_ways(held, _swept(scenario, row_values, names), names, tables))
    except AmpedError:
        return {}, WHOSE  # the estimate of the row will report the problem
    best = min(ways, key=lambda way: (not way.fits, way.time if way.fits else way.lacking))
    chosen = {**_switches(row_values, names), **{name: _whole(v) for name, v in best.settings.items() if name in names}}
    return chosen, WHOSE if best.fits else RAN


def _row_values(scenario: Scenario) -> Results:
    """The row's values of all parameters that could be searched, and of the sizes that bound them, where these are known."""
    names = (*HELD, "batch_size", "data_parallel_degree", "layers")
    optional = tuple(name for name in names if name in scenario.catalogue)
    return run(plan(scenario.catalogue, (), scenario.sources, optional), scenario.sources.given)


def _held(scenario: Scenario, values: Results, names: Sequence[str]) -> Choice:
    """The values, by name, to fix in the search: those of the row or its software for parameters that `names` do not leave open."""
    given = scenario.question.overrides
    free = {*given, *names, *([MICROBATCH] if MICROBATCHES in given else [])}
    held: Choice = {name: values.number(name) for name in HELD if name in values and name not in free}
    return held if AGAIN in free else {**held, AGAIN: scenario.sources.choices.get(AGAIN, "none")}


def _switches(values: Results, names: Sequence[str]) -> Choice:
    """The open switches that a tuned run has on, each as True by its name."""
    on = {OVERLAP: True, SEQUENCE: _number(values, "tensor_parallel_degree") > 1}
    return {name: True for name, is_on in on.items() if is_on and name in names}


def _swept(scenario: Scenario, row_values: Results, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """The values to try for the open names: micro-batch sizes and chunks per stage.

    Micro-batch sizes are powers of two that divide the batch of a replica. Chunks are one per stage, or one per layer.
    """
    given, stages = scenario.sources.given, int(_number(row_values, "pipeline_parallel_degree"))
    share = _number(row_values, "batch_size") // _number(row_values, "data_parallel_degree")
    ends = [int(given[end]) for end in ENDS if end in given]
    most = min([int(row_values.number("layers")) // stages, *ends]) if stages > 1 else 1
    swept = {MICROBATCH: [n for n in SIZES if share % n == 0], CHUNKS: sorted({1, most})}
    return {name: tuple(map(float, values)) for name, values in swept.items() if name in names}


def _ways(
    settings: Choice, swept: Mapping[str, tuple[float, ...]], names: Sequence[str], tables: LookupTables
) -> Iterator[Fastest]:
    """The fastest mapping and, if it recomputes activations or does not fit, the fastest with each finer way to save memory.

    The finer ways are recomputation of some layers only, and offload of some activations.
    """
    scenario = read_scenario({}, settings, tables)
    yield (first := fastest(scenario, swept))
    if AGAIN not in names or (first.fits and first.settings[AGAIN] == "none"):
        return
    layers = int(scenario.sources.given["layers"] // scenario.sources.given.get("pipeline_parallel_degree", 1))
    for name, mode, unit in ((LAYERS, "block", 1), (OFFLOAD, "none", layers)):
        values = tuple(number / unit for number in range(1, layers))
        if name in names and values:
            way = fastest(read_scenario({}, {**settings, AGAIN: mode}, tables), {**swept, name: values})
            yield replace(way, settings={AGAIN: mode, **way.settings})


def _number(values: Results, name: str) -> float:
    """A number of the row; 1.0 if the row has none."""
    return values.number(name) if name in values else 1.0


def _whole(value: Any) -> Any:
    """A value as tables write it: an int if it is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
