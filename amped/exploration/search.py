"""Evaluates the design space in blocks, one broadcast run each, and keeps the best: no loop over candidates."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.axes import JointAxis
from amped.errors import ConfigError, EvaluationError
from amped.estimation import STEP_PARTS
from amped.evaluate import Array, Results, run_in_blocks
from amped.exploration import space
from amped.exploration.cases import Case, case
from amped.exploration.found import ALL, Found, Ranked, Row, merged
from amped.exploration.request import Options, Request
from amped.exploration.space import JOINT, blocks, mappings
from amped.resolve import Plan, plan
from amped.scenario import Scenario, asked_again

# Rows of one evaluation: more would not lie in the cache. Rows within which distinct combinations are told apart.
BLOCK_ROWS, CHUNK_ROWS = 16_384, 524_288
WORTHWHILE = 0.1
COLUMNS = (
    "training_time", "step_time", "tokens_per_second_per_accelerator", "model_flops_utilization",
    "hardware_flop_rate_per_accelerator", "memory_per_accelerator_bytes", "fits_in_memory", "data_parallel_degree",
    "tensor_parallel_degree", "pipeline_parallel_degree", "number_of_microbatches_per_minibatch", *STEP_PARTS,
)  # fmt: skip
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


@dataclass(frozen=True)
class Part:
    """A piece of the space that is evaluated on its own: its number in the list of parts, and which mappings it has.

    Attributes:
        number: place in the list, from 0.
        chunk: which run of mappings it lies in; `start` and `stop` are its rows there.
        candidates: how many cells it has.
    """

    number: int
    chunk: int
    start: int
    stop: int
    candidates: int


class Search:
    """The space of a request as a list of independent parts, and the evaluation of each.

    What two processes make of the same request has the same parts, and each part the same finding.
    """

    def __init__(self, request: Request) -> None:
        """Reads what is asked.

        Raises:
            ConfigError: for a sweep that cannot be, or if no mapping multiplies and divides.
        """
        options = request.options
        if not isinstance(options.top, int) or options.top < 1:
            raise ConfigError(f"top = {options.top} asks for nothing", "ask for one at least, a whole number")
        self.request = request
        self.case = case(asked_again(request.question), request.vary)
        self.plan = _plan(self.case)
        self.cells = int(np.prod([len(axis) for axis in self.case.axes.values()], dtype=np.int64))

    @cached_property
    def parts(self) -> list[Part]:
        """Every part, in order; their candidates in order are those of the space."""
        found: list[Part] = []
        for chunk, columns in enumerate(self._chunks()):
            rows = len(columns["batch_size"])
            found.append(Part(len(found), chunk, 0, rows, rows * self.cells))
        if not found:
            held = f"; {', '.join(self.case.held)} is held" if self.case.held else ""
            raise ConfigError(
                "no mapping multiplies and divides", f"the batch must divide by a data-parallel degree{held}"
            )
        return found

    def evaluate(self, part: Part) -> Found:
        """What is in one part.

        Raises:
            EvaluationError: for a result that is no number.
        """
        columns = next(islice(self._chunks(), part.chunk, None))
        columns = {name: column[part.start : part.stop] for name, column in columns.items()}
        joint, rows = JointAxis(columns, WORTHWHILE), max(1, BLOCK_ROWS // self.cells)
        wanted = (self.plan, self.case.sources.given, joint, self.case.axes, frozenset(self.plan.targets), rows)
        found = Found(self.request.options.top)
        for start, results in zip(range(0, joint.size, rows), run_in_blocks(*wanted), strict=True):
            own = {n: c[start : start + rows] for n, c in columns.items()}
            found = _ranked(results, found, own, self.case.axes, part.number, start * self.cells)
        return found

    def _chunks(self) -> Iterator[dict[str, Array]]:
        asked = self.case
        return blocks(_kept(mappings(asked.machine, asked.batch_sizes), asked.held), max(1, CHUNK_ROWS // self.cells))


def explored(
    scenario: Scenario, top: int, vary: Mapping[str, Sequence[object]], progress: Progress | None = None
) -> Exploration:
    """Evaluates every valid mapping of the scenario, part by part.

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
    search = Search(Request(scenario.question, {name: tuple(v) for name, v in vary.items()}, Options(top)))
    found = Found(top)
    for part in search.parts:
        found = merged(found, search.evaluate(part))
        if progress:
            progress(found.candidates)
    return answer(search, found, time.perf_counter() - started)


def answer(search: Search, found: Found, elapsed_time: float) -> Exploration:
    """What was found in all parts of a search, as it is told."""
    best = [each.row for each in found.best.get(ALL, ()) or found.unfit]
    asked = search.case
    return Exploration(found.candidates, found.feasible, dict(found.removed), elapsed_time, best, (*JOINT, *asked.axes),
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


def _plan(asked: Case) -> Plan:
    swept = dict.fromkeys((*space.COLUMNS, *asked.axes), 1.0)
    planned = replace(asked.sources, given=asked.sources.given | swept)
    return plan(asked.catalogue, (*COLUMNS, *asked.catalogue.constraints), planned)


def _ranked(
    results: Results, found: Found, columns: Mapping[str, Any], axes: Mapping[str, Any], part: int, first: int
) -> Found:
    """What was found, with a block of a part, whose cells are counted from `first`."""
    keeps = np.ones(results.shape, dtype=bool)
    removed: dict[str, int] = {}
    for name in (n for n in results.plan.targets if n not in COLUMNS):
        holds = results.whole(name) > 0
        if broken := holds.size - int(np.count_nonzero(holds)):
            removed[name] = broken
        keeps &= holds
    _check_numbers(results, keeps)
    fits = results.whole("fits_in_memory") > 0
    if unfit := int(np.count_nonzero(keeps & ~fits)):
        removed["fits_in_memory"] = unfit
    top, have = found.top, found.best.get(ALL, ())
    best = _block_best(results, keeps & fits, top, columns, axes, _bound(have, top), (part, first))
    unfit_best = _block_best(results, keeps & ~fits, top, columns, axes, _bound(found.unfit, top), (part, first))
    own = Found(top, keeps.size, int(np.count_nonzero(keeps & fits)), removed, {ALL: tuple(best)}, tuple(unfit_best))
    return merged(found, own)


def _bound(kept: Sequence[Ranked], top: int) -> float:
    """The time that a row must not exceed to be among the best."""
    return kept[-1].key[0] if len(kept) == top else np.inf


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
    top: int,
    columns: Mapping[str, Any],
    axes: Mapping[str, Any],
    bound: float,
    place_in: tuple[int, int],
) -> Iterator[Ranked]:
    """The `top` best cells under the mask, with the key by which they are ranked."""
    every = results.whole("training_time").reshape(-1)
    cells = np.flatnonzero(mask.reshape(-1) & (every <= bound))
    times = every[cells]
    if len(cells) > top:
        least = np.partition(times, top - 1)[top - 1]
        cells, times = cells[times <= least], times[times <= least]
    memory = results.whole("memory_per_accelerator_bytes").reshape(-1)[cells]
    wholes = {name: results.whole(name) for name in COLUMNS} if len(cells) else {}
    for place in np.lexsort((cells, memory, times))[:top]:
        cell = int(cells[place])
        where = np.unravel_index(cell, results.shape)
        row: Row = {name: float(columns[name][where[0]]) for name in JOINT}
        row |= {name: float(axis[where[1 + i]]) for i, (name, axis) in enumerate(axes.items())}
        row |= {name: float(whole[where]) for name, whole in wholes.items()}
        row["fits_in_memory"] = bool(row["fits_in_memory"])
        part, first = place_in
        yield Ranked((float(times[place]), float(memory[place]), part, first + cell), row)


@lru_cache(maxsize=1)
def _search(pickled: bytes) -> Search:
    return Search(pickle.loads(pickled))


def evaluated(pickled: bytes, number: int) -> Found:
    """One part of a pickled request by its number: what an executor sends to another process, where the search stays."""
    search = _search(pickled)
    return search.evaluate(search.parts[number])
