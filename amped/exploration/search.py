"""An exploration as a list of independent parts, evaluated in blocks; any executor may take them in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import count, product
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
from amped.exploration.best_of_block import AVAILABLE, MEMORY, Keeper, Wanted
from amped.exploration.cases import CASE, Family, families
from amped.exploration.constraints import Wish, read_wishes
from amped.exploration.dominance import Dominance
from amped.exploration.grouping import Cells, OfCases
from amped.exploration.mappings import DIVIDES, Mappings, Sieve, of_rows
from amped.exploration.objectives import read_objective
from amped.exploration.request import Request
from amped.exploration.results import Found
from amped.exploration.search_space import HEADROOM, HEADROOM_BYTES, IDLE_WITHOUT, WITH_HEADROOM, space_of, wholes
from amped.exploration.searched_layouts import Postponed
from amped.exploration.simplicity import mechanisms_of_rows
from amped.exploration.sweep_axes import swept

# The cells of one evaluation (most arrays lack some of the axes, so that they fit in the cache), the cells of a part,
# and the share of distinct rows up to which finding equal rows is worth it.
BLOCK_CELLS, PART_CELLS, WORTHWHILE = 98_304, 4_194_304, 0.3
# The rows of a part up to which values of the part before are looked for: to tell more rows apart costs more than it saves.
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
    """Rows that try the same values of every axis. If a degree is 1, a policy that only acts on it has one value."""

    columns: Columns
    axes: Columns

    @property
    def rows(self) -> int:
        return len(self.columns[CASE])


@dataclass(frozen=True)
class Branch:
    """The cases of one structure, and how they are searched.

    Attributes:
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
        """Reads the request, unless its scenario is known; `postponed` says which layouts are sought.

        Raises:
            AmpedError: for an impossible request.
        """
        options = request.options
        if not isinstance(options.top, int) or options.top < 1:
            raise ConfigError(f"top = {options.top} asks for nothing", "ask for one at least, a whole number")
        self.request, self.scenario = request, scenario or asked_again(request.question)
        known, self.space = self.scenario.catalogue, space_of(options.space)
        self.catalogue = known
        given = self.scenario.sources.given
        self.has_headroom = any(given.get(name, 0.0) > 0 for name in (HEADROOM, HEADROOM_BYTES))
        self.wishes = (*read_wishes(options.where, known), *([HEADROOM_WISH] if self.has_headroom else []))
        self.objective = read_objective(options.objective, options.largest, known)
        self.front = tuple(read_objective(name, None, known) for name in options.pareto or ())
        self.sweeps = swept(self.scenario, request.vary, self.space)
        self.branches = [self._branch(family) for family in families(self.scenario, self.sweeps, self.space, postponed)]
        self._known: dict[tuple[int, int], list[_Region]] = {}
        self._rows = Counter[int]()  # of each chunk, in all branches together
        self._shared = Known()

    def _branch(self, family: Family) -> Branch:
        """How a family is searched. Policies of the space that its formulas do not use are left out."""
        known, options, space = self.catalogue, self.request.options, self.space
        axes = {name: np.array(values, dtype=np.float64) for name, values in self.sweeps.axes.items()}
        sieve = Sieve(known, family, axes)
        names = [o.name for o in (self.objective, *self.front)]
        names += [name for wish in self.wishes for name in wish.quantities]
        chosen = plan(known, dict.fromkeys((*COLUMNS, *names, AVAILABLE, *sieve.late())), family.sources)
        idle = self.sweeps.policies - set(chosen.leaves)
        changed = {name: known[name].mark.constrains for name in chosen.targets}
        told = tuple(name for name in changed if not changed[name] and name not in {AVAILABLE} - {*names})
        dividing = tuple(name for name in changed if changed[name] in DIVIDES)
        rules = tuple(name for name in changed if changed[name] and name not in dividing)
        dominance = Dominance(known, family, chosen, (self.objective, *self.front), self.wishes)
        if space.pruned:
            axes |= {name: axes[name][-1:] for name in self.sweeps.policies & {*dominance.hiding}}
        return Branch(family, Mappings(family, self.sweeps, space, sieve), chosen,
                      {name: values for name, values in axes.items() if name not in idle},
                      Wanted(options.top, self.objective, self.front, self.wishes, rules, dividing, told),
                      dominance)  # fmt: skip

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """The names of all columns that are swept, in the order in which they are shown."""
        own = [name for branch in self.branches for name in (*branch.family.told, *branch.family.cases[0].outer)]
        axes = [name for branch in self.branches for name in branch.axes]
        return tuple(dict.fromkeys((*own, *axes)))

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
        found, self._rows = 0, Counter[int]()
        for number, branch in enumerate(self.branches):
            for chunk in range(len(branch.mappings.chunks)):
                for region in self._regions(number, chunk):
                    self._rows[chunk] += region.rows
                    found += region.rows * prod(len(axis) for axis in region.axes.values())
        if not found:
            raise ConfigError(*self._why_empty())
        return found

    def listed(self) -> Iterator[Part]:
        """The parts one by one, without counting the candidates of the whole space first."""
        numbers = count()
        for number, branch in enumerate(self.branches):
            for chunk in range(len(branch.mappings.chunks)):
                for place, region in enumerate(self._regions(number, chunk)):
                    for slices in _slices(region.axes, self._most_cells(region)):
                        cells = prod(stop - start for start, stop in slices)
                        rows = max(1, PART_CELLS // cells)
                        for start in range(0, region.rows, rows):
                            stop = min(start + rows, region.rows)
                            size = (stop - start) * cells
                            yield Part(next(numbers), number, chunk, place, start, stop, slices, size)

    def order(self, part: Part) -> tuple[int, ...]:
        """The place of a part in the order of evaluation: parts with equal mappings follow one another.

        They are of different branches. If the mappings of all branches are too many to remember, each branch is alone.
        """
        few = max(self._rows.values(), default=0) <= REMEMBERED_ROWS
        alike = (self.branches[part.branch].family.stages, part.chunk, part.region, part.start, part.stop)
        return (*alike, part.number) if few else (part.number,)

    def _most_cells(self, region: _Region) -> int:
        """The number of open cells of one part.

        If open axes make groups, it is so small that each group lies in one part.
        """
        return max(1, PART_CELLS // region.rows) if set(self.request.options.each) & region.axes.keys() else PART_CELLS

    def _why_empty(self) -> tuple[str, str]:
        """What is told of an empty space: which given degree is impossible, else which rules drop how many mappings."""
        from amped.exploration.impossible import advice  # only where it is asked

        told = "no mapping is possible"
        if sentence := advice(self.scenario):
            return f"{told}: {sentence}", ""
        dropped = sum((branch.mappings.sieve.dropped for branch in self.branches), Counter[str]())
        change = f"; give another value, or none, of {', '.join(self.sweeps.held)}" if self.sweeps.held else ""
        rules = "; ".join(f"{name} drops {count:,} of them" for name, count in dropped.most_common())
        return f"{told}: each breaks a rule", (rules or "the batch must divide by a data-parallel degree") + change

    def _regions(self, branch: int, chunk: int) -> list[_Region]:
        """The regions of a chunk: its rows, grouped by which degrees that a policy acts on are 1.

        The latest are remembered.
        """
        wanted = (branch, chunk)
        if wanted not in self._known:
            regions = list(self._split(self.branches[branch], chunk))
            held = sum(region.rows for known in (*self._known.values(), regions) for region in known)
            self._known = {} if held > REMEMBERED_ROWS else self._known
            self._known[wanted] = regions
        return self._known[wanted]

    def _split(self, branch: Branch, chunk: int) -> Iterator[_Region]:
        columns, axes = branch.mappings.columns(chunk), branch.axes
        own = self.sweeps.policies & axes.keys()
        degrees = sorted({IDLE_WITHOUT.get(name, "pipeline_parallel_degree") for name in own})
        alone = [columns[degree] == 1 for degree in degrees]
        codes = np.zeros(len(columns[CASE]), dtype=np.intp)
        for place, mask in enumerate(alone):
            codes += mask.astype(np.intp) << place
        good = self._enough(branch, columns)
        for code in np.flatnonzero(np.bincount(codes)):
            own_rows = codes == code
            rows = of_rows(columns, own_rows)
            idle = {degree for place, degree in enumerate(degrees) if code >> place & 1}
            values = {name: axis[:1] if name in own and IDLE_WITHOUT.get(name) in idle else axis
                      for name, axis in axes.items()}  # fmt: skip
            values |= {n: branch.mappings.sieve.kept_values(rows, n) for n in own if len(values[n]) > 1}
            if all(len(axis) for axis in values.values()):
                yield from _pruned(_Region(rows, values), {policy: mask[own_rows] for policy, mask in good.items()})

    def _enough(self, branch: Branch, columns: Columns) -> dict[str, Mask]:
        """For each policy of which the last value is shown to be enough in some rows, these rows."""
        open_axes = {name for name in self.sweeps.policies & branch.axes.keys() if len(branch.axes[name]) > 1}
        compared = open_axes & {*branch.dominance.compared} if self.space.pruned and len(columns[CASE]) else ()
        return {policy: branch.dominance.as_good(columns, branch.axes, policy) for policy in sorted(compared)}

    def mappings(self, part: Part) -> tuple[Branch, Columns, Columns]:
        """The branch of a part, its mappings by column, and the values of its open axes."""
        region = self._regions(part.branch, part.chunk)[part.region]
        columns = of_rows(region.columns, slice(part.start, part.stop))
        axes = {name: axis[slice(*cut)] for (name, axis), cut in zip(region.axes.items(), part.slices, strict=True)}
        return self.branches[part.branch], columns, axes

    def evaluate(self, part: Part, keep: Keep | None = None) -> Found:
        """The finding of one part; `keep` sees every candidate of it.

        Raises:
            EvaluationError: for a result that is not a finite number.
        """
        branch, columns, axes = self.mappings(part)
        family, chosen = branch.family, branch.plan
        cells = self._cells(part.number, family, columns, axes)
        keeper = Keeper(branch.wanted, cells, keep)
        known = self._shared if len(self.branches) > 1 and part.stop - part.start <= SHARED_ROWS else None
        joint = (known.axis if known else JointAxis)(columns, WORTHWHILE, family.tied)
        rows = max(1, BLOCK_CELLS // cells.beside)
        blocks = run_in_blocks(chosen, family.sources.given, joint, axes, frozenset(chosen.targets), rows, known)
        for start, results in zip(range(0, joint.size, rows), blocks, strict=True):
            keeper.take(results, start)
        return keeper.found()

    def _cells(self, part: int, family: Family, columns: Columns, axes: Columns) -> Cells:
        """The cells of a part. Groups may also be of whole degrees, where rows hold these by their two factors."""
        rows: dict[str, Any] = {name: columns[name] for name in family.told}
        case = columns[CASE].astype(np.intp)
        for name in family.cases[0].outer:
            rows[name] = OfCases(np.array([each.outer[name] for each in family.cases]), case)
        wider = {name: columns[name] for name in wholes() if name in columns} | rows
        used = mechanisms_of_rows(columns, [each.outer for each in family.cases], case)
        return Cells(part, rows, case, axes, self.request.options.each, wider, used)


def _pruned(region: _Region, enough: Mapping[str, Mask]) -> Iterator[_Region]:
    """A region, or two: the rows where a value of a policy is shown to be unnecessary, and the other rows."""
    compared = [policy for policy in enough if len(region.axes[policy]) > 1]
    if not compared:
        yield region
        return
    (policy,) = compared
    for rows, axis in ((enough[policy], region.axes[policy][-1:]), (~enough[policy], region.axes[policy])):
        if rows.any():
            yield _Region(of_rows(region.columns, rows), {**region.axes, policy: axis})


def _slices(axes: Columns, most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """The open axes in pieces. No combination of pieces has more cells than `most`; the first axes are cut first."""
    lengths, pieces = [len(axis) for axis in axes.values()], []
    for place, length in enumerate(lengths):
        step = min(length, max(1, most // prod(lengths[place + 1 :])))
        pieces.append([(start, min(start + step, length)) for start in range(0, length, step)])
    return product(*pieces)
