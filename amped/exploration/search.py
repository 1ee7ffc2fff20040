"""An exploration as a list of independent parts, evaluated in blocks; any executor may take them in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, count, product
from math import prod
from typing import Any

import numpy as np

from amped.base.errors import ConfigError
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario, asked_again
from amped.engine.axes import JointAxis
from amped.engine.evaluate import Columns, Mask, run_in_blocks
from amped.engine.known import Known
from amped.engine.resolve import Plan, plan
from amped.estimation.parts import STEP_PARTS
from amped.exploration.all_candidates import FITS, Keep
from amped.exploration.best_of_block import AVAILABLE, MEMORY, Block, Wanted
from amped.exploration.cases import CASE, Family, families
from amped.exploration.constraints import Wish, read_wishes
from amped.exploration.dominance import COMPARED, HIDING, Dominance
from amped.exploration.grouping import Cells, OfCases
from amped.exploration.mappings import DIVIDES, Mappings, Sieve, of_rows
from amped.exploration.objectives import read_objective
from amped.exploration.request import Request
from amped.exploration.results import Finding
from amped.exploration.search_space import HEADROOM, HEADROOM_BYTES, IDLE_WITHOUT, WITH_HEADROOM, space_of, wholes
from amped.exploration.searched_layouts import Postponed
from amped.exploration.sweep_axes import swept

# The most cells of one evaluation (most arrays lack some of the axes, so that they fit in the cache), the most cells of a
# part, and the largest share of distinct rows for which equal rows are evaluated only once.
BLOCK_CELLS, PART_CELLS, WORTHWHILE = 98_304, 4_194_304, 0.3
# The most rows of a part for which values of the part before are used again: to compare more rows takes longer.
SHARED_ROWS = 8192
# How many mappings are remembered between the listing of the parts and their evaluation.
REMEMBERED_ROWS = 262_144
# The wish of a search with headroom, in words.
HEADROOM_WISH = Wish(WITH_HEADROOM, "<=", 0.0, "the memory headroom (--headroom)", AVAILABLE)
# The quantities that are computed for every candidate.
COLUMNS = (
    "training_time", "step_time", *STEP_PARTS, "tokens_per_second_per_accelerator", "model_flops_utilization",
    "hardware_flop_rate_per_accelerator", MEMORY, FITS,
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A piece of the space that is evaluated on its own; it holds only plain numbers.

    Attributes:
        number: the place in the list of parts, from 0.
        branch, chunk: the number of the branch, and of the chunk of its mappings.
        region, start, stop: the number of the chunk's region, and the range of its rows.
        slices: for each open axis, the range of its values.
        candidates: the number of cells.
    """

    number: int
    branch: int
    chunk: int
    region: int
    start: int
    stop: int
    slices: tuple[tuple[int, int], ...]
    candidates: int


@dataclass(frozen=True)
class _Region:
    """Rows of a chunk that try the same values of every axis. If a degree is 1, a policy that only acts on it has one value.

    Attributes:
        columns: the variables of the joint axis, by name.
        axes: the values of the open axes, by name.
    """

    columns: Columns
    axes: Columns

    @property
    def rows(self) -> int:
        return len(self.columns[CASE])


@dataclass(frozen=True)
class Branch:
    """The cases of one structure, and how they are searched.

    Attributes:
        family: the cases.
        mappings: the valid mappings of the family.
        plan: the formulas that are computed for every candidate.
        axes: the open axes; a policy is one only if the formulas use it.
        wanted: what is kept of the candidates.
        dominance: which values of policies need not be tried.
    """

    family: Family
    mappings: Mappings
    plan: Plan
    axes: Columns
    wanted: Wanted
    dominance: Dominance


class Search:
    """The space of a request as a list of independent parts, and the evaluation of each.

    In two processes, equal requests have equal parts, and equal parts have equal findings.
    """

    def __init__(self, request: Request, scenario: Scenario | None = None, postponed: Postponed | None = None) -> None:
        """Reads the request, and plans each branch.

        Args:
            request: the request.
            scenario: the scenario of the request; None: the config is read again.
            postponed: which layouts of pipelines are sought; None: all.

        Raises:
            AmpedError: for an impossible request.
        """
        options = request.options
        if not isinstance(options.top, int) or options.top < 1:
            raise ConfigError(f"top = {options.top} asks for nothing", "ask for one at least, a whole number")
        self.request, self.scenario = request, scenario or asked_again(request.question)
        self.catalogue = self.scenario.catalogue
        self.space, given = space_of(options.space), self.scenario.sources.given
        self.has_headroom = any(given.get(name, 0.0) > 0 for name in (HEADROOM, HEADROOM_BYTES))
        self.wishes = (*read_wishes(options.where, self.catalogue), *([HEADROOM_WISH] if self.has_headroom else []))
        self.objective = read_objective(options.objective, options.largest, self.catalogue)
        self.front = tuple(read_objective(name, None, self.catalogue) for name in options.pareto or ())
        self.objectives = (self.objective, *self.front)
        self.sweeps = swept(self.scenario, request.vary, self.space)
        self.branches = [self._branch(family) for family in families(self.scenario, self.sweeps, postponed)]
        self._remembered: dict[tuple[int, int], list[_Region]] = {}
        self._rows = Counter[int]()  # of each chunk, in all branches together
        self._shared = Known()

    def _branch(self, family: Family) -> Branch:
        """The branch of a family. Policies of the space that the formulas of the family do not use are left out."""
        axes = {name: np.array(values, dtype=np.float64) for name, values in self.sweeps.axes.items()}
        sieve = Sieve(self.catalogue, family, axes)
        names = [objective.name for objective in self.objectives]
        names += [name for wish in self.wishes for name in wish.quantities]
        late_rules = (name for name in sieve.needs if name not in sieve.early)  # checked in the evaluation
        branch_plan = plan(self.catalogue, dict.fromkeys((*COLUMNS, *names, AVAILABLE, *late_rules)), family.sources)
        idle = self.sweeps.policies - set(branch_plan.leaves)
        constrained = {name: self.catalogue[name].mark.constrains for name in branch_plan.targets}
        columns = tuple(name for name in constrained if not constrained[name] and name not in {AVAILABLE} - {*names})
        dividing = tuple(name for name in constrained if constrained[name] in DIVIDES)
        rules = tuple(name for name in constrained if constrained[name] and name not in dividing)
        dominance = Dominance(self.catalogue, family, branch_plan, self.objectives, self.wishes)
        if self.space.pruned and HIDING in self.sweeps.policies and dominance.hides:
            axes[HIDING] = axes[HIDING][-1:]
        return Branch(
            family=family,
            mappings=Mappings(sieve, self.sweeps),
            plan=branch_plan,
            axes={name: values for name, values in axes.items() if name not in idle},
            wanted=Wanted(
                top=self.request.options.top,
                objective=self.objective,
                front=self.front,
                wishes=self.wishes,
                rules=rules,
                dividing=dividing,
                columns=columns,
            ),
            dominance=dominance,
        )

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """The names of all columns that are swept, in the order in which they are shown."""
        families = [branch.family for branch in self.branches]
        names = (name for family in families for name in (*family.told, *family.cases[0].outer))
        return tuple(dict.fromkeys(chain(names, *(branch.axes for branch in self.branches))))

    @cached_property
    def parts(self) -> list[Part]:
        """Every part, in order; the candidates of all parts, in this order, are those of the space.

        Raises:
            ConfigError: if the degrees of no mapping multiply and divide as they must.
        """
        return list(self.listed()) if self.candidates else []

    @cached_property
    def candidates(self) -> int:
        """The number of cells of all parts, counted without listing the parts.

        Raises:
            ConfigError: if the degrees of no mapping multiply and divide as they must.
        """
        candidates, self._rows = 0, Counter[int]()
        for _, chunk, _, region in self._all_regions():
            self._rows[chunk] += region.rows
            candidates += region.rows * prod(map(len, region.axes.values()))
        if not candidates:
            raise self._empty()
        return candidates

    def listed(self) -> Iterator[Part]:
        """The parts one by one; the candidates of the whole space are not counted first."""
        numbers = count()
        for branch, chunk, place, region in self._all_regions():
            for slices in _slices(region.axes, self._most_cells(region)):
                cells = prod(stop - start for start, stop in slices)
                for start, stop in _pieces(region.rows, PART_CELLS // cells):
                    yield Part(
                        number=next(numbers),
                        branch=branch,
                        chunk=chunk,
                        region=place,
                        start=start,
                        stop=stop,
                        slices=slices,
                        candidates=(stop - start) * cells,
                    )

    def _all_regions(self) -> Iterator[tuple[int, int, int, _Region]]:
        """For each region the numbers of its branch and of its chunk, its number in the chunk, and the region."""
        for number, branch in enumerate(self.branches):
            for chunk in range(len(branch.mappings.chunks)):
                for place, region in enumerate(self._regions(number, chunk)):
                    yield number, chunk, place, region

    def order(self, part: Part) -> tuple[int, ...]:
        """The key that sorts parts for evaluation: parts of different branches with equal mappings follow one another.

        If the rows of a chunk are too many to be remembered, parts are evaluated branch by branch.
        """
        is_remembered = max(self._rows.values(), default=0) <= REMEMBERED_ROWS
        place_of_mappings = (self.branches[part.branch].family.stages, part.chunk, part.region, part.start, part.stop)
        return (*place_of_mappings, part.number) if is_remembered else (part.number,)

    def _most_cells(self, region: _Region) -> int:
        """The largest number of combinations of open axes in one part.

        If open axes make groups, all rows of the region fit in a part, so that each group lies in one part.
        """
        return PART_CELLS // region.rows if {*self.request.options.each} & region.axes.keys() else PART_CELLS

    def _empty(self) -> ConfigError:
        """The error of an empty space: which given degree is impossible, else which rules drop how many mappings."""
        from amped.exploration.impossible import advice  # only where it is asked

        dropped = sum((branch.mappings.sieve.dropped for branch in self.branches), Counter[str]())
        if sentence := advice(self.scenario, dropped):
            return ConfigError(f"no mapping is possible: {sentence}")
        change = f"; give another value, or none, of {', '.join(self.sweeps.held)}" if self.sweeps.held else ""
        rules = "; ".join(f"{name} drops {count:,} of them" for name, count in dropped.most_common())
        reason = rules or "the batch must divide by a data-parallel degree"
        return ConfigError("no mapping is possible: each breaks a rule", reason + change)

    def _regions(self, branch: int, chunk: int) -> list[_Region]:
        """The regions of a chunk, from memory or computed. The latest regions are remembered."""
        place = (branch, chunk)
        if place not in self._remembered:
            regions = [*self._split(self.branches[branch], chunk)]
            if sum(region.rows for region in chain(regions, *self._remembered.values())) > REMEMBERED_ROWS:
                self._remembered.clear()
            self._remembered[place] = regions
        return self._remembered[place]

    def _split(self, branch: Branch, chunk: int) -> Iterator[_Region]:
        """The regions of a chunk: its rows, grouped by which of the degrees that a policy acts on are 1."""
        columns, axes = branch.mappings.columns(chunk), branch.axes
        policies = self.sweeps.policies & axes.keys()
        degrees = sorted({IDLE_WITHOUT.get(name, "pipeline_parallel_degree") for name in policies})
        codes = np.zeros(len(columns[CASE]), dtype=np.intp)
        for place, degree in enumerate(degrees):
            codes += (columns[degree] == 1).astype(np.intp) << place
        enough = self._enough(branch, columns)
        for code in np.flatnonzero(np.bincount(codes)):
            rows = of_rows(columns, codes == code)
            idle = {degree for place, degree in enumerate(degrees) if code >> place & 1}
            values = {name: axis[:1] if name in policies and IDLE_WITHOUT.get(name) in idle else axis
                      for name, axis in axes.items()}  # fmt: skip
            values |= {n: branch.mappings.sieve.kept_values(rows, n) for n in policies if len(values[n]) > 1}
            if all(map(len, values.values())):
                yield from _pruned(_Region(rows, values), enough[codes == code])

    def _enough(self, branch: Branch, columns: Columns) -> Mask:
        """The rows in which only the last value of the policy COMPARED is tried, as it is shown to be the best."""
        rows, values = len(columns[CASE]), branch.axes.get(COMPARED, ())
        is_open = COMPARED in self.sweeps.policies and len(values) > 1
        if is_open and self.space.pruned and rows and branch.dominance.compares:
            return branch.dominance.as_good(columns, branch.axes)
        return np.zeros(rows, dtype=bool)

    def mappings(self, part: Part) -> tuple[Branch, Columns, Columns]:
        """The branch of a part, its mappings by column, and the values of its open axes."""
        region = self._regions(part.branch, part.chunk)[part.region]
        columns = of_rows(region.columns, slice(part.start, part.stop))
        axes = {name: axis[slice(*cut)] for (name, axis), cut in zip(region.axes.items(), part.slices, strict=True)}
        return self.branches[part.branch], columns, axes

    def evaluate(self, part: Part, keep: Keep | None = None) -> Finding:
        """The finding of one part. `keep` gets every candidate of the part.

        Raises:
            EvaluationError: for a result that is not a finite number.
        """
        branch, columns, axes = self.mappings(part)
        given, targets = branch.family.sources.given, frozenset(branch.plan.targets)
        cells = self._cells(part.number, branch.family, columns, axes)
        shared = self._shared if len(self.branches) > 1 and part.stop - part.start <= SHARED_ROWS else None
        joint = (shared.axis if shared else JointAxis)(columns, WORTHWHILE, branch.family.tied)
        rows, finding = max(1, BLOCK_CELLS // cells.beside), Finding(branch.wanted.top)
        blocks = run_in_blocks(branch.plan, given, joint, axes, targets, rows, shared)
        starts = count(0, rows)
        for results in blocks:
            block = Block(results, branch.wanted, cells, next(starts))
            finding = block.added_to(finding)
            if keep is not None:
                keep.take(block.candidates())
            del results, block  # else they stay in memory until the next block is computed
        return finding

    def _cells(self, part: int, family: Family, columns: Columns, axes: Columns) -> Cells:
        """The cells of a part.

        Groups may also be made by degrees whose rows show only their parts inside the node and across nodes.
        """
        rows: dict[str, Any] = {name: columns[name] for name in family.told}
        case = columns[CASE].astype(np.intp)
        for name in family.cases[0].outer:
            rows[name] = OfCases(np.array([of_case.outer[name] for of_case in family.cases]), case)
        degrees = {name: columns[name] for name in wholes() if name in columns}
        return Cells(part, case, rows, degrees, axes, self.request.options.each)


def _pruned(region: _Region, enough: Mask) -> Iterator[_Region]:
    """The region, or two: the rows that try only the last value of the policy COMPARED, and the other rows.

    Args:
        region: the region.
        enough: the rows for which the last value is shown to be the best.
    """
    axis = region.axes.get(COMPARED, np.empty(0))
    if len(axis) < 2 or not enough.any():
        yield region
        return
    for rows, values in ((enough, axis[-1:]), (~enough, axis)):
        if rows.any():
            yield _Region(of_rows(region.columns, rows), {**region.axes, COMPARED: values})


def _pieces(length: int, most: int) -> list[tuple[int, int]]:
    """Where the pieces of a range of `length` places begin and end; a piece has at most `most` places, and at least one."""
    step = max(1, most)
    return [(start, min(start + step, length)) for start in range(0, length, step)]


def _slices(axes: Columns, most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Each combination of pieces of the open axes: for each axis, where its piece begins and ends.

    No combination has more than `most` cells, if they are at least 1. The first axes are cut first.
    """
    lengths = [*map(len, axes.values())]
    return product(*(_pieces(length, most // prod(lengths[n + 1 :])) for n, length in enumerate(lengths)))
