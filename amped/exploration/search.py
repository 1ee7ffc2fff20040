"""Evaluates the design space in blocks, one broadcast run each, and keeps the best: no loop over candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.axes import JointAxis
from amped.errors import AmpedError, ConfigError, Problem, did_you_mean
from amped.estimation import STEP_PARTS
from amped.evaluate import Results, run
from amped.exploration.space import JOINT, PLACED, Array, Machine, blocks, mappings
from amped.resolve import Plan, plan
from amped.scenario import Scenario
from amped.sources import Given, Sources
from amped.values import read_values

BLOCK_ROWS = 16_384
COLUMNS = (
    "training_time", "step_time", "tokens_per_second_per_accelerator", "model_flops_utilization",
    "hardware_flop_rate_per_accelerator", "memory_per_accelerator_bytes", "fits_in_memory", "data_parallel_degree",
    "tensor_parallel_degree", "pipeline_parallel_degree", "number_of_microbatches_per_minibatch", *STEP_PARTS,
)  # fmt: skip
SEARCHED = (
    *(f"{place}{kind}_parallel_degree" for kind in PLACED for place in ("", "intra_node_", "inter_node_")),
    "microbatch_size", "number_of_microbatches_per_minibatch",
)  # fmt: skip
Row = dict[str, float | bool]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Exploration:
    """What an exploration found.

    Attributes:
        candidates: mappings whose degrees multiply and divide, times the swept values; each was evaluated in full.
        feasible: those that keep every rule and fit in memory; `keeping_rules` those that keep every rule.
        removed: for each rule (and fits_in_memory) how many candidates break it.
        elapsed_time: seconds.
        best: the best feasible candidates, every swept parameter and result by name; if none fits, the best that do not.
        swept: names of the columns that were swept.
    """

    candidates: int
    feasible: int
    keeping_rules: int
    removed: dict[str, int]
    elapsed_time: float
    best: list[Row]
    swept: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"candidates": self.candidates, "feasible": self.feasible, "removed": self.removed,
                "elapsed_time": self.elapsed_time, "best": self.best}  # fmt: skip


@dataclass
class _Best:
    """The best rows so far, and the counts."""

    top: int
    rows: list[tuple[tuple[float, ...], Row]] = field(default_factory=list)
    unfit: list[tuple[tuple[float, ...], Row]] = field(default_factory=list)
    candidates: int = 0
    feasible: int = 0
    keeping_rules: int = 0
    removed: dict[str, int] = field(default_factory=dict)

    def take(self, ranked: Iterator[tuple[tuple[float, ...], Row]], fits: bool) -> None:
        """Merges a block's best; ties go to the smaller memory, then to the earlier candidate."""
        kept = self.rows if fits else self.unfit
        kept.extend(ranked)
        kept.sort(key=lambda pair: pair[0])
        del kept[self.top :]


def explored(
    scenario: Scenario, top: int, vary: Mapping[str, Sequence[object]], progress: Progress | None = None
) -> Exploration:
    """Evaluates every valid mapping of the scenario.

    Args:
        scenario: the config; its degrees and micro-batch are searched, all else is kept.
        top: how many of the best to keep.
        vary: further swept names, over the lists of the config.
        progress: called with the number of candidates done.

    Raises:
        ConfigError: for a sweep that cannot be; MappingError if no mapping multiplies and divides.
    """
    started = time.perf_counter()
    sources, sweeps = _prepared(scenario, vary)
    sizes = tuple(int(v) for v in sweeps.pop("batch_size", None) or (_given(sources, "batch_size"),))
    machine = _machine(scenario, sources)
    axes = {name: np.array(values, dtype=np.float64) for name, values in sweeps.items()}
    chosen = _plan(scenario, sources, axes)
    best = _Best(top)
    held = _held(scenario.sources)
    for columns in blocks(_kept(mappings(machine, sizes), held), max(1, BLOCK_ROWS // _cells(axes))):
        results = run(chosen, sources.given, JointAxis(columns), axes, frozenset(chosen.targets))
        _rank(results, best, columns, axes)
        if progress:
            progress(best.candidates)
    if not best.candidates:
        raise ConfigError("no mapping multiplies and divides", "the batch must divide by a data-parallel degree"
                          + (f"; {', '.join(held)} is held" if held else ""))  # fmt: skip
    found = [row for _, row in (best.rows or best.unfit)]
    return Exploration(best.candidates, best.feasible, best.keeping_rules, best.removed,
                       time.perf_counter() - started, found, (*JOINT, *axes))  # fmt: skip


def _prepared(scenario: Scenario, vary: Mapping[str, Sequence[object]]) -> tuple[Sources, dict[str, tuple[Any, ...]]]:
    """The sources without what is searched, and all sweeps."""
    known, sweeps, problems = scenario.catalogue, dict(scenario.sources.sweeps), []
    for name, values in vary.items():
        if name not in known or known[name].mark.kind == "records":
            problems.append(Problem(f"--vary: unknown parameter '{name}'", advice=did_you_mean(name, known)))
            continue
        try:
            sweeps[name] = read_values(known[name], list(values))
        except AmpedError as error:
            problems += error.at(f"--vary {name}")
    for name in sweeps:
        if known[name].is_selector:
            problems.append(
                Problem(f"a sweep of the choice '{name}' needs one run for each", advice=f"use --set {name}=…")
            )
        if name in SEARCHED:
            problems.append(Problem(f"'{name}' is always searched", advice="leave its list out"))
    problems += [Problem(f"a sweep of the rows of {c} needs one run for each", advice="use --model, --system or --accelerator")
                 for c in scenario.sources.row_sweeps]  # fmt: skip
    if problems:
        raise ConfigError(problems, file=scenario.label)
    given = {n: v for n, v in scenario.sources.given.items() if n not in SEARCHED and n not in sweeps}
    return replace(scenario.sources, given=given), sweeps


def _held(sources: Sources) -> dict[str, float]:
    """What is searched but was set by the caller, who wants it held."""
    return {
        name: sources.given[name]
        for name in SEARCHED
        if isinstance(origin := sources.origins.get(name), Given) and origin.where.startswith("--set")
    }


def _kept(mappings: Iterator[dict[str, Array]], held: Mapping[str, float]) -> Iterator[dict[str, Array]]:
    """The mappings that have what is held."""
    for columns in mappings:
        known = dict(columns)
        for kind in PLACED:
            part = f"{kind}_parallel_degree"
            known[part] = columns[f"intra_node_{part}"] * columns[f"inter_node_{part}"]
        share = columns["batch_size"] / known["data_parallel_degree"]
        known["number_of_microbatches_per_minibatch"] = share / columns["microbatch_size"]
        keep = np.logical_and.reduce([known[name] == value for name, value in held.items()], initial=True)
        if np.all(keep):
            yield columns
        elif np.any(keep):
            yield {name: column[keep] for name, column in columns.items()}


def _given(sources: Sources, name: str) -> float:
    if name not in sources.given:
        raise ConfigError(f"'{name}' is missing", f"give it in the config, with --set {name}=… or --vary {name}=…")
    return sources.given[name]


def _machine(scenario: Scenario, sources: Sources) -> Machine:
    """The size of the machine: given, else from nodes, else what the config's own degrees multiply to."""
    names = ("number_of_accelerators", "scale_up_domain_size", "context_parallel_degree",
             "intra_node_context_parallel_degree")  # fmt: skip
    own = plan(scenario.catalogue, names, scenario.sources)
    values = run(own, scenario.sources.given)
    machine = Machine(*(int(values.number(name)) for name in names))
    sources.given["number_of_accelerators"] = float(machine.accelerators)
    sources.origins.setdefault(
        "number_of_accelerators", Given(float(machine.accelerators), machine.accelerators, "explore")
    )
    return machine


def _plan(scenario: Scenario, sources: Sources, axes: Mapping[str, Any]) -> Plan:
    names = dict.fromkeys((*JOINT, *axes), 1.0)
    known = scenario.catalogue
    planned = replace(sources, given=sources.given | names)
    return plan(known, (*COLUMNS, *known.constraints), planned)


def _cells(axes: Mapping[str, NDArray[np.float64]]) -> int:
    return int(np.prod([len(axis) for axis in axes.values()], dtype=np.int64)) if axes else 1


def _rank(results: Results, best: _Best, columns: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
    """Counts what the rules remove, and keeps the block's best."""
    keeps = np.ones(results.shape, dtype=bool)
    for name in (n for n in results.plan.targets if n not in COLUMNS):
        holds = results.whole(name) > 0
        broken = holds.size - int(np.count_nonzero(holds))
        if broken:
            best.removed[name] = best.removed.get(name, 0) + broken
        keeps &= holds
    fits = results.whole("fits_in_memory") > 0
    if unfit := int(np.count_nonzero(keeps & ~fits)):
        best.removed["fits_in_memory"] = best.removed.get("fits_in_memory", 0) + unfit
    best.keeping_rules += int(np.count_nonzero(keeps))
    best.feasible += int(np.count_nonzero(keeps & fits))
    for mask, fit in ((keeps & fits, True), (keeps & ~fits, False)):
        best.take(_block_best(results, mask, best, columns, axes), fit)
    best.candidates += keeps.size


def _block_best(
    results: Results, mask: NDArray[np.bool_], best: _Best, columns: Mapping[str, Any], axes: Mapping[str, Any]
) -> Iterator[tuple[tuple[float, ...], Row]]:
    """The `top` best cells under the mask, with the key by which they are ranked."""
    cells = np.flatnonzero(mask)
    times = results.whole("training_time").reshape(-1)[cells]
    if len(cells) > best.top:
        least = np.partition(times, best.top - 1)[best.top - 1]
        cells, times = cells[times <= least], times[times <= least]
    memory = results.whole("memory_per_accelerator_bytes").reshape(-1)[cells]
    for place in np.lexsort((cells, memory, times))[: best.top]:
        cell = int(cells[place])
        where = np.unravel_index(cell, results.shape)
        row: Row = {name: float(columns[name][where[0]]) for name in JOINT}
        row |= {name: float(axis[where[1 + i]]) for i, (name, axis) in enumerate(axes.items())}
        row |= {name: float(results.whole(name)[where]) for name in COLUMNS}
        row["fits_in_memory"] = bool(row["fits_in_memory"])
        yield (float(times[place]), float(memory[place]), float(best.candidates + cell)), row
