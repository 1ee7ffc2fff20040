"""Evaluates the design space in blocks, one broadcast run each, and keeps the best: no loop over candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.axes import JointAxis
from amped.errors import ConfigError, EvaluationError
from amped.estimation import STEP_PARTS
from amped.evaluate import Array, Results, run_in_blocks
from amped.exploration import space
from amped.exploration.request import Request, request
from amped.exploration.space import JOINT, blocks, mappings
from amped.resolve import Plan, plan
from amped.scenario import Scenario

# Rows of one evaluation: more would not lie in the cache. Rows within which distinct combinations are told apart.
BLOCK_ROWS, CHUNK_ROWS = 16_384, 524_288
WORTHWHILE = 0.1
COLUMNS = (
    "training_time", "step_time", "tokens_per_second_per_accelerator", "model_flops_utilization",
    "hardware_flop_rate_per_accelerator", "memory_per_accelerator_bytes", "fits_in_memory", "data_parallel_degree",
    "tensor_parallel_degree", "pipeline_parallel_degree", "number_of_microbatches_per_minibatch", *STEP_PARTS,
)  # fmt: skip
Row = dict[str, float | bool]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Exploration:
    """What an exploration found.

    Attributes:
        candidates: mappings whose degrees multiply and divide, times the swept values; each was evaluated in full.
        feasible: those that keep every rule and fit in memory.
        removed: for each rule (and fits_in_memory) how many candidates break it.
        elapsed_time: seconds.
        best: the best feasible candidates, every swept parameter and result by name; if none fits, the best that do not.
        swept: names of the columns that were swept, `units` their canonical units.
    """

    candidates: int
    feasible: int
    removed: dict[str, int]
    elapsed_time: float
    best: list[Row]
    swept: tuple[str, ...]
    units: dict[str, str]

    @property
    def columns(self) -> list[str]:
        """The names of a row of `best`."""
        return [*self.swept, *COLUMNS]

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
    removed: dict[str, int] = field(default_factory=dict)

    def bound(self, fits: bool) -> float:
        """The time that a row must not exceed to be among the best."""
        kept = self.rows if fits else self.unfit
        return kept[-1][0][0] if len(kept) == self.top else np.inf

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
        ConfigError: for a sweep that cannot be, or if no mapping multiplies and divides.
        EvaluationError: for a result that is no number.
    """
    started = time.perf_counter()
    if not isinstance(top, int) or top < 1:
        raise ConfigError(f"top = {top} asks for nothing", "ask for one at least, a whole number")
    asked = request(scenario, vary)
    chosen, best = _plan(asked), _Best(top)
    cells = int(np.prod([len(axis) for axis in asked.axes.values()], dtype=np.int64))
    for columns in blocks(_kept(mappings(asked.machine, asked.batch_sizes), asked.held), max(1, CHUNK_ROWS // cells)):
        joint, rows = JointAxis(columns, WORTHWHILE), max(1, BLOCK_ROWS // cells)
        wanted = (chosen, asked.sources.given, joint, asked.axes, frozenset(chosen.targets), rows)
        for start, results in zip(range(0, joint.size, rows), run_in_blocks(*wanted), strict=True):
            _rank(results, best, {n: c[start : start + rows] for n, c in columns.items()}, asked.axes)
            if progress:
                progress(best.candidates)
    if not best.candidates:
        held = f"; {', '.join(asked.held)} is held" if asked.held else ""
        raise ConfigError("no mapping multiplies and divides", f"the batch must divide by a data-parallel degree{held}")
    found = [row for _, row in (best.rows or best.unfit)]
    return Exploration(best.candidates, best.feasible, best.removed,
                       time.perf_counter() - started, found, (*JOINT, *asked.axes),
                       {name: asked.catalogue[name].mark.unit for name in asked.axes})  # fmt: skip


def _kept(mappings: Iterator[dict[str, Array]], held: Mapping[str, float]) -> Iterator[dict[str, Array]]:
    """The mappings that have what is held."""
    if not held:
        yield from mappings
        return
    for columns in mappings:
        known = dict(columns)
        share = columns["batch_size"] / known["data_parallel_degree"]
        known["number_of_microbatches_per_minibatch"] = share / columns["microbatch_size"]
        keep = np.logical_and.reduce([known[name] == value for name, value in held.items()], initial=True)
        if np.all(keep):
            yield columns
        elif np.any(keep):
            yield {name: column[keep] for name, column in columns.items()}


def _plan(asked: Request) -> Plan:
    swept = dict.fromkeys((*space.COLUMNS, *asked.axes), 1.0)
    planned = replace(asked.sources, given=asked.sources.given | swept)
    return plan(asked.catalogue, (*COLUMNS, *asked.catalogue.constraints), planned)


def _rank(results: Results, best: _Best, columns: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
    """Counts what the rules remove, and keeps the block's best."""
    keeps = np.ones(results.shape, dtype=bool)
    for name in (n for n in results.plan.targets if n not in COLUMNS):
        holds = results.whole(name) > 0
        broken = holds.size - int(np.count_nonzero(holds))
        if broken:
            best.removed[name] = best.removed.get(name, 0) + broken
        keeps &= holds
    _check_numbers(results, keeps)
    fits = results.whole("fits_in_memory") > 0
    if unfit := int(np.count_nonzero(keeps & ~fits)):
        best.removed["fits_in_memory"] = best.removed.get("fits_in_memory", 0) + unfit
    best.feasible += int(np.count_nonzero(keeps & fits))
    for mask, fit in ((keeps & fits, True), (keeps & ~fits, False)):
        best.take(_block_best(results, mask, best, columns, axes, best.bound(fit)), fit)
    best.candidates += keeps.size


def _check_numbers(results: Results, keeps: NDArray[np.bool_]) -> None:
    """Refuses results that are no numbers where every rule is kept.

    Raises:
        EvaluationError: names the first result at fault.
    """
    for name in COLUMNS:
        wrong = keeps & ~np.isfinite(results.whole(name))
        if wrong.any():
            value = results.whole(name)[wrong].flat[0]
            raise EvaluationError(f"'{name}' came out as {value} for {np.count_nonzero(wrong)} mappings that keep every rule",
                                  "`amped explain` one of them to see which input leads there")  # fmt: skip


def _block_best(
    results: Results,
    mask: NDArray[np.bool_],
    best: _Best,
    columns: Mapping[str, Any],
    axes: Mapping[str, Any],
    bound: float,
) -> Iterator[tuple[tuple[float, ...], Row]]:
    """The `top` best cells under the mask, with the key by which they are ranked."""
    every = results.whole("training_time").reshape(-1)
    cells = np.flatnonzero(mask.reshape(-1) & (every <= bound))
    times = every[cells]
    if len(cells) > best.top:
        least = np.partition(times, best.top - 1)[best.top - 1]
        cells, times = cells[times <= least], times[times <= least]
    memory = results.whole("memory_per_accelerator_bytes").reshape(-1)[cells]
    wholes = {name: results.whole(name) for name in COLUMNS} if len(cells) else {}
    for place in np.lexsort((cells, memory, times))[: best.top]:
        cell = int(cells[place])
        where = np.unravel_index(cell, results.shape)
        row: Row = {name: float(columns[name][where[0]]) for name in JOINT}
        row |= {name: float(axis[where[1 + i]]) for i, (name, axis) in enumerate(axes.items())}
        row |= {name: float(whole[where]) for name, whole in wholes.items()}
        row["fits_in_memory"] = bool(row["fits_in_memory"])
        yield (float(times[place]), float(memory[place]), float(best.candidates + cell)), row
