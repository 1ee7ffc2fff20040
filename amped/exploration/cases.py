"""The outer loop: a case for each combination of rows, choices and machines.

Cases of one structure are run together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from amped.base.errors import ConfigError
from amped.base.record import dataclass
from amped.configuring.gathering import NODE
from amped.configuring.scenario import Scenario, asked_again
from amped.configuring.sources import Sources
from amped.configuring.values import Value
from amped.engine.axes import JointAxis
from amped.engine.evaluate import Array, Columns, run
from amped.engine.resolve import chosen_values, plan
from amped.estimation.placement import FILLED, may_leave_places
from amped.exploration.beside import searched_beside
from amped.exploration.search_space import BATCH, CHUNKS, MICROBATCH, Space, parts, wholes
from amped.exploration.searched_layouts import Laid, Postponed, Seen, layouts
from amped.exploration.sweep_axes import SEARCHED, SETTLES, Swept
from amped.pipeline_layouts.laying_out import LAYOUT
from amped.theory.nouns.divisors import divisors
from amped.theory.nouns.parallelisms import OF_TOKENS, PLACED

CASE = "case"
SIZES = ("number_of_accelerators", "usable_domain_size", "number_of_experts", *wholes(OF_TOKENS))


@dataclass(frozen=True)
class Case:
    """One combination of the outer loop.

    Attributes:
        outer: the rows, choices and numbers of the machine that the case is made of, by name.
        sources: all values that are neither searched nor swept.
        accelerators, domain: the number of accelerators, and the size of the fast domain, that mappings fill.
        token_degrees: for each parallelism that splits sequences, the degrees that are tried.
        batches: the global batch sizes.
        experts: routed experts of a layer; 1 in a dense network.
        searched: the names that this network or strategy needs and that nobody gives.
    """

    outer: Mapping[str, Value]
    sources: Sources
    accelerators: int
    domain: int
    token_degrees: Mapping[str, tuple[int, ...]]
    batches: tuple[int, ...]
    experts: int
    searched: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """Cases that differ only in numbers: they have one plan, and one joint axis on which `case` is a variable.

    Attributes:
        kinds: the parallelisms that are placed.
        every: as `Space.every_placement`.
        sources: the sources of the first case; its `given` also has the names of joint and open variables.
        tied: the names whose value depends on the case, with the values.
        beside: further variables of the joint axis: those that are listed, with their values; and those that some case
            needs, without values, because these depend on the row.
        stages: the number of pipeline stages if a layout lists them, else 0.
    """

    cases: tuple[Case, ...]
    kinds: tuple[str, ...]
    every: bool
    sources: Sources
    tied: Mapping[str, tuple[str, Array]]
    chunks: tuple[float, ...]
    beside: Mapping[str, tuple[float, ...]]
    stages: int = 0

    @property
    def degrees(self) -> tuple[str, ...]:
        """The degrees of a mapping, in the order of its columns."""
        return (*parts(self.kinds), *wholes(self.kinds)) if self.every else wholes(self.kinds)

    @property
    def joint(self) -> tuple[str, ...]:
        """The variables of the joint axis that are inputs of formulas."""
        return (*self.placed, BATCH, *((CHUNKS,) if self.chunks else ()), MICROBATCH, *self.beside)

    @property
    def placed(self) -> tuple[str, ...]:
        """The degrees, and (if that is searched) the number of filled places of a fast domain."""
        return (*self.degrees, *((FILLED,) if self.fills else ()))

    @property
    def fills(self) -> bool:
        """Whether some case may be faster if places of its fast domain stay empty."""
        given = FILLED in self.cases[0].sources.given
        return not (self.every or given) and any(may_leave_places(case.accelerators) for case in self.cases)

    @property
    def told(self) -> tuple[str, ...]:
        """The names that describe a mapping, in the order in which they are shown."""
        degrees = parts(self.kinds) if self.every else self.placed
        return (*degrees, MICROBATCH, BATCH, *((CHUNKS,) if self.chunks else ()), *self.beside)


def families(scenario: Scenario, sweeps: Swept, space: Space, postponed: Postponed | None = None) -> list[Family]:
    """All cases, grouped by structure, but for postponed layouts.

    Raises:
        AmpedError: for rows that do not exist, a machine of unknown size, or a missing batch size.
    """
    every = space.every_placement or bool(set(parts()) & set(sweeps.listed))
    found: dict[object, list[Case]] = {}
    for case in _cases(scenario, sweeps, space):
        structure = (frozenset(case.sources.given), tuple(sorted(case.sources.choices.items())))
        found.setdefault(structure, []).append(case)
    seen: Seen = {}
    return [f for cases in found.values() for f in _by_layout(scenario, cases, sweeps, space, every, (seen, postponed))]


def _by_layout(
    scenario: Scenario, cases: list[Case], sweeps: Swept, space: Space, every: bool, seen: tuple[Seen, Postponed | None]
) -> Iterator[Family]:
    """One family of the cases whose layers divide evenly, and one family for each layout of each case."""
    known, even, laid = scenario.catalogue, list[Case](), list[tuple[Case, Laid]]()
    for case in cases:
        machine = (case.accelerators, case.domain, case.experts)
        found, has_even = layouts(known, case.sources, machine, sweeps, space, *seen)
        even += [case] * has_even
        laid += [(case, each) for each in found]
    if even:
        yield _family(tuple(even), sweeps, space, every)
    for case, each in laid:
        told: dict[str, Value] = {LAYOUT: each.text}
        if each.chunks > 1 and not (space.chunks or sweeps.listed.get(CHUNKS)):  # as a layout in letters lists them
            told[CHUNKS] = float(each.chunks)
        own = replace(case, sources=each.sources, outer={**case.outer, **told})
        family = _family((own,), sweeps, space, every)
        yield replace(family, stages=each.stages, chunks=(float(each.chunks),) * bool(family.chunks))


def _cases(scenario: Scenario, sweeps: Swept, space: Space) -> Iterator[Case]:
    nodes = {name: values for name, values in sweeps.machines.items() if name == NODE}  # each has its own fast domain
    outer: dict[str, tuple[object, ...]] = {**sweeps.rows, **sweeps.choices, **nodes}
    sizes = {name: values for name, values in sweeps.machines.items() if name not in nodes}
    numbers = dict(zip(sizes, np.array(list(product(*sizes.values())), dtype=np.float64).T, strict=False))
    for values in product(*outer.values()):
        own = dict(zip(outer, values, strict=True))
        asked = asked_again(scenario.question, own) if own else scenario
        told = {name: float(str(value)) if name in nodes else str(value) for name, value in own.items()}
        yield from _cases_of(asked, told, numbers, sweeps, space)


def _cases_of(
    asked: Scenario, own: Mapping[str, Value], numbers: Columns, sweeps: Swept, space: Space
) -> Iterator[Case]:
    """The cases of all machines; the sizes of the machines are computed together."""
    known = asked.catalogue
    replaced = {other for name in numbers for other in known[name].replaces}
    given = {n: v for n, v in asked.sources.given.items() if n not in replaced} | dict.fromkeys(numbers, 0.0)
    away = sweeps.names.union(*(known[name].replaces for name in sweeps.names)) - numbers.keys() - own.keys()
    sizing = {name: value for name, value in given.items() if name in SEARCHED or name not in away}
    sized = run(plan(known, SIZES, replace(asked.sources, given=sizing)), sizing, JointAxis(numbers))
    kept = {name: value for name, value in sizing.items() if name not in SEARCHED}
    one_dimension = chosen_values(known, asked.sources)["tensor_parallel_strategy"] == "1d"
    batches = tuple(int(batch) for batch in sweeps.listed.get(BATCH) or _batch(given))
    sizes = zip(*(sized.whole(name).astype(int).tolist() for name in SIZES), strict=True)
    for place, (accelerators, domain, experts, *given_degrees) in enumerate(sizes):
        machine: dict[str, Value] = {name: float(column[place]) for name, column in numbers.items()}
        searched = searched_beside(experts, one_dimension, sweeps, space)
        dropped = {n for name in searched for n in (name, *known[name].replaces, *SETTLES[name])}
        given = {name: value for name, value in kept.items() if name not in dropped}
        sources = replace(asked.sources, given={**given, **machine, "number_of_accelerators": float(accelerators)})
        degrees = {
            kind: _token_degrees(kind, accelerators, degree, sweeps, space)
            for kind, degree in zip(OF_TOKENS, given_degrees, strict=True)
        }
        yield Case({**own, **machine}, sources, accelerators, domain, degrees, batches, experts, searched)


def _token_degrees(kind: str, accelerators: int, given: int, sweeps: Swept, space: Space) -> tuple[int, ...]:
    listed = sweeps.listed.get(f"{kind}_parallel_degree")
    if listed:
        return tuple(int(degree) for degree in listed)
    if space.largest_context and not set(parts((kind,))) & set(sweeps.listed):
        return tuple(d for d in divisors(accelerators) if d <= space.largest_context)
    return (given,)


def _batch(given: Mapping[str, float]) -> tuple[float, ...]:
    if BATCH not in given:
        raise ConfigError(f"'{BATCH}' is missing", f"give it in the config, with --set {BATCH}=… or --vary {BATCH}=…")
    return (given[BATCH],)


def _family(cases: tuple[Case, ...], sweeps: Swept, space: Space, every: bool) -> Family:
    shares = {kind for case in cases for kind, degrees in case.token_degrees.items() if degrees != (1,)}
    kinds = tuple(kind for kind in PLACED if kind not in OF_TOKENS or kind in shares)
    first = cases[0].sources
    values = {name: np.array([case.sources.given[name] for case in cases]) for name in first.given}
    tied = {name: (CASE, column) for name, column in values.items() if np.any(column != column[0])}
    chunks = tuple(sweeps.listed.get(CHUNKS) or (_chunks(cases, sweeps) if space.chunks else ()))
    needed = dict.fromkeys((name for name in SETTLES if any(name in case.searched for case in cases)), ())
    family = Family(cases, kinds, every, first, tied, chunks, {**sweeps.beside, **needed})
    planned = dict.fromkeys((*family.joint, *sweeps.axes), 1.0)
    return replace(family, sources=replace(first, given=first.given | planned))


def _chunks(cases: tuple[Case, ...], sweeps: Swept) -> tuple[float, ...]:
    """The numbers of chunks that may divide the layers of a stage: all divisors of the number of layers."""
    layers = {case.sources.given["layers"] for case in cases if "layers" in case.sources.given}
    layers |= set(sweeps.axes.get("layers", ()))
    return tuple(float(d) for d in sorted({d for number in layers for d in divisors(int(number))}))
