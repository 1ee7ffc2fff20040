"""The outer loop: a case for each combination of rows, choices and machines.

Cases of one structure are run together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
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
from amped.exploration.one_case import Case
from amped.exploration.search_space import BATCH, CHUNKS, MICROBATCH, parts, wholes
from amped.exploration.searched_layouts import Layouts, Postponed, Seen
from amped.exploration.sweep_axes import SEARCHED, SETTLES, Swept
from amped.pipeline_layouts.laying_out import LAYOUT
from amped.theory.language.catalogue import Catalogue
from amped.theory.nouns.divisors import divisors
from amped.theory.nouns.parallelisms import OF_TOKENS, PLACED

CASE = "case"
SIZES = ("number_of_accelerators", "usable_domain_size", "number_of_experts", *wholes(OF_TOKENS))


@dataclass(frozen=True)
class Family:
    """Cases that differ only in numbers: they have one plan, and one joint axis on which `case` is a variable.

    Attributes:
        kinds: the parallelisms that are placed.
        every: as `Space.every_placement`.
        sources: the sources of the first case; its `given` also has the names of joint and open variables.
        tied: the names whose value depends on the case, with the values.
        beside: further variables of the joint axis: the chunks of a stage and those that are listed, with their values;
            and those that some case needs, without values, because these depend on the row.
        stages: the number of pipeline stages if a layout lists them, else 0.
    """

    cases: tuple[Case, ...]
    kinds: tuple[str, ...]
    every: bool
    sources: Sources
    tied: Mapping[str, tuple[str, Array]]
    beside: Mapping[str, tuple[float, ...]]
    stages: int = 0

    @property
    def degrees(self) -> tuple[str, ...]:
        """The degrees of a mapping, in the order of its columns."""
        return (*parts(self.kinds), *wholes(self.kinds)) if self.every else wholes(self.kinds)

    @property
    def joint(self) -> tuple[str, ...]:
        """The variables of the joint axis that are inputs of formulas."""
        return (*self.placed, BATCH, MICROBATCH, *self.beside)

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
        return (*(parts(self.kinds) if self.every else self.placed), MICROBATCH, BATCH, *self.beside)


def families(scenario: Scenario, sweeps: Swept, postponed: Postponed | None = None) -> list[Family]:
    """All cases, grouped by structure, but for postponed layouts.

    Raises:
        AmpedError: for rows that do not exist, a machine of unknown size, or a missing batch size.
    """
    by_structure: dict[object, list[Case]] = {}
    for case in _cases(scenario, sweeps):
        structure = (frozenset(case.sources.given), tuple(sorted(case.sources.choices.items())))
        by_structure.setdefault(structure, []).append(case)
    seen: Seen = {}
    layouts_of = partial(Layouts, scenario.catalogue, sweeps, seen, postponed)
    return [family for cases in by_structure.values() for family in _by_layout(cases, layouts_of, sweeps)]


def _by_layout(cases: list[Case], layouts_of: Callable[[Case], Layouts], sweeps: Swept) -> list[Family]:
    """One family of the cases whose layers divide evenly, and one family for each layout of each case."""
    even, unequal = list[Case](), list[Family]()
    for case in cases:
        layouts, has_even = layouts_of(case).searched()
        even += [case] * has_even
        unequal += [_of_layout(replace(case, sources=laid), stages, sweeps) for stages, laid in layouts]
    return ([_family(tuple(even), sweeps)] if even else []) + unequal


def _of_layout(case: Case, stages: int, sweeps: Swept) -> Family:
    """The family of one case with a layout."""
    chunks = case.sources.given[CHUNKS]
    outer: dict[str, Value] = {**case.outer, LAYOUT: case.sources.choices[LAYOUT]}
    if chunks > 1 and not (sweeps.space.chunks or sweeps.listed.get(CHUNKS)):  # as a layout in letters lists them
        outer[CHUNKS] = chunks
    family = _family((replace(case, outer=outer),), sweeps)
    listed = {CHUNKS: (chunks,)} if CHUNKS in family.beside else {}
    return replace(family, stages=stages, beside={**family.beside, **listed})


def _cases(scenario: Scenario, sweeps: Swept) -> Iterator[Case]:
    """The cases of all combinations of rows, choices and sizes of the machine."""
    nodes = {name: values for name, values in sweeps.machines.items() if name == NODE}  # each has its own fast domain
    outer: dict[str, tuple[object, ...]] = {**sweeps.rows, **sweeps.choices, **nodes}
    sizes = {name: values for name, values in sweeps.machines.items() if name not in nodes}
    numbers = dict(zip(sizes, np.array(list(product(*sizes.values())), dtype=np.float64).T, strict=False))
    for values in product(*outer.values()):
        chosen = dict(zip(outer, values, strict=True))
        further = asked_again(scenario.question, chosen) if chosen else scenario
        shown = {name: float(str(value)) if name in nodes else str(value) for name, value in chosen.items()}
        yield from _cases_of(further, shown, numbers, sweeps)


def _cases_of(scenario: Scenario, outer: Mapping[str, Value], numbers: Columns, sweeps: Swept) -> Iterator[Case]:
    """The cases of all machines; the sizes of the machines are computed together."""
    catalogue = scenario.catalogue
    replaced = _replaced(catalogue, numbers)
    given = {n: v for n, v in scenario.sources.given.items() if n not in replaced} | dict.fromkeys(numbers, 0.0)
    away = (sweeps.names | _replaced(catalogue, sweeps.names)) - numbers.keys() - outer.keys()
    sizing = {name: value for name, value in given.items() if name in SEARCHED or name not in away}
    sized = run(plan(catalogue, SIZES, replace(scenario.sources, given=sizing)), sizing, JointAxis(numbers))
    kept = {name: value for name, value in sizing.items() if name not in SEARCHED}
    one_dimension = chosen_values(catalogue, scenario.sources)["tensor_parallel_strategy"] == "1d"
    batches = tuple(int(batch) for batch in sweeps.listed.get(BATCH) or _batch(given))
    sizes = zip(*(sized.whole(name).astype(int).tolist() for name in SIZES), strict=True)
    for place, (accelerators, domain, experts, *given_degrees) in enumerate(sizes):
        machine: dict[str, Value] = {name: float(column[place]) for name, column in numbers.items()}
        searched = searched_beside(experts, one_dimension, sweeps)
        dropped = _replaced(catalogue, searched).union(searched, *(SETTLES[name] for name in searched))
        given = {name: value for name, value in kept.items() if name not in dropped}
        sources = replace(scenario.sources, given={**given, **machine, "number_of_accelerators": float(accelerators)})
        degrees = {
            kind: _token_degrees(kind, accelerators, degree, sweeps)
            for kind, degree in zip(OF_TOKENS, given_degrees, strict=True)
        }
        yield Case(
            outer={**outer, **machine},
            sources=sources,
            accelerators=accelerators,
            domain=domain,
            token_degrees=degrees,
            batches=batches,
            experts=experts,
            searched=searched,
        )


def _replaced(catalogue: Catalogue, names: Iterable[str]) -> set[str]:
    """The names that are replaced where one of these is given."""
    return {other for name in names for other in catalogue[name].replaces}


def _token_degrees(kind: str, accelerators: int, given: int, sweeps: Swept) -> tuple[int, ...]:
    """The degrees of a parallelism that splits sequences: those that are listed, or searched, or the given one."""
    if listed := sweeps.listed.get(f"{kind}_parallel_degree"):
        return tuple(map(int, listed))
    if sweeps.space.largest_context and not {*parts((kind,))} & {*sweeps.listed}:
        return tuple(d for d in divisors(accelerators) if d <= sweeps.space.largest_context)
    return (given,)


def _batch(given: Mapping[str, float]) -> tuple[float, ...]:
    if BATCH not in given:
        raise ConfigError(f"'{BATCH}' is missing", f"give it in the config, with --set {BATCH}=… or --vary {BATCH}=…")
    return (given[BATCH],)


def _family(cases: tuple[Case, ...], sweeps: Swept) -> Family:
    """The family of cases of one structure."""
    shares = {kind for case in cases for kind, degrees in case.token_degrees.items() if degrees != (1,)}
    kinds = tuple(kind for kind in PLACED if kind not in OF_TOKENS or kind in shares)
    first = cases[0].sources
    values = {name: np.array([case.sources.given[name] for case in cases]) for name in first.given}
    chunks = sweeps.listed.get(CHUNKS) or (_chunks(cases, sweeps) if sweeps.space.chunks else ())
    needed = [name for name in SETTLES if any(name in case.searched for case in cases)]
    family = Family(
        cases=cases,
        kinds=kinds,
        every=sweeps.space.every_placement or bool({*parts()} & {*sweeps.listed}),
        sources=first,
        tied={name: (CASE, column) for name, column in values.items() if np.any(column != column[0])},
        beside={**({CHUNKS: chunks} if chunks else {}), **sweeps.beside, **dict.fromkeys(needed, ())},
    )
    planned = dict.fromkeys((*family.joint, *sweeps.axes), 1.0)
    return replace(family, sources=replace(first, given=first.given | planned))


def _chunks(cases: tuple[Case, ...], sweeps: Swept) -> tuple[float, ...]:
    """The numbers of chunks that may divide the layers of a stage: all divisors of the number of layers."""
    layers = {case.sources.given["layers"] for case in cases if "layers" in case.sources.given}
    layers |= set(sweeps.axes.get("layers", ()))
    return tuple(float(d) for d in sorted({d for number in layers for d in divisors(int(number))}))
