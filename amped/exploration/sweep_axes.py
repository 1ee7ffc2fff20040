"""What an exploration sweeps, each name in its place: in the outer loop, on the joint axis, or on an own axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import chain
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, Problem, collected, did_you_mean, quoted
from amped.base.record import dataclass
from amped.configuring.gathering import ROW_NAMES
from amped.configuring.scenario import Scenario
from amped.configuring.sources import Given
from amped.configuring.values import read_values
from amped.exploration.search_space import BATCH, CHUNKS, MICROBATCH, Space, parts, wholes
from amped.theory.language.doors import inside

MICROBATCHES = "number_of_microbatches_per_minibatch"
SEARCHED = (*wholes(), *parts(), MICROBATCH, MICROBATCHES)
# The names that say how large the machine is, and how large its fast domains.
MACHINE = ("number_of_accelerators", "scale_up_domain_size", "number_of_nodes", "number_of_accelerators_per_node")
COLUMNS_OF_GRID, EXPERT_TENSOR, EXPERTS = (
    "tensor_parallel_columns",
    "expert_tensor_parallel_degree",
    "expert_parallel_degree",
)
# Names that only some networks and strategies need, and that are searched for these; each depends on the names before. For
# each: the names that leave nothing to search for it if one of them is set or listed.
SETTLES = {
    COLUMNS_OF_GRID: (COLUMNS_OF_GRID, "tensor_parallel_rows"), EXPERT_TENSOR: (EXPERT_TENSOR,),
    EXPERTS: (EXPERTS, *parts(("expert",))),
}  # fmt: skip
# Other names that must divide something, so that they lie on the joint axis if they are listed.
BESIDE = (*chain(*SETTLES.values()), "intra_node_tensor_parallel_rows")
# The place of each name that does not have an axis of its own.
PLACES = {
    **dict.fromkeys(MACHINE, "machines"), **dict.fromkeys((*SEARCHED, CHUNKS, BATCH), "listed"),
    **dict.fromkeys(BESIDE, "beside"),
}  # fmt: skip
# What the values of some units are: texts that no sweep takes.
ONE_RUN_EACH = {"layout": "layout", "kernel_table": "table of kernels"}
# Values by name.
Values = dict[str, tuple[float, ...]]


@dataclass
class Swept:
    """The names that have more than one value, grouped by the place where they are varied.

    Attributes:
        space: what is searched where nothing is swept.
        rows, choices: what the outer loop goes through, as it is written.
        machines: numbers that the outer loop goes through.
        listed: for names that are searched, the only values that are allowed; this includes values that are set.
        beside: further names on the joint axis.
        axes: names with an axis of their own.
        policies: the axes that come from the space and not from the user.
        settled: the names that only some networks need and that the user sets or sweeps.
        written: the names that the user sweeps, in order.
    """

    space: Space
    rows: dict[str, tuple[object, ...]] = field(default_factory=dict)
    choices: dict[str, tuple[object, ...]] = field(default_factory=dict)
    machines: Values = field(default_factory=dict)
    listed: Values = field(default_factory=dict)
    beside: Values = field(default_factory=dict)
    axes: Values = field(default_factory=dict)
    policies: frozenset[str] = frozenset()
    held: tuple[str, ...] = ()
    settled: frozenset[str] = frozenset()
    written: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """Every swept name that is a number."""
        return {*self.machines, *self.listed, *self.beside, *self.axes}

    @property
    def by_user(self) -> dict[str, tuple[object, ...]]:
        """The names and values that the user sweeps, without those that the space adds."""
        values = {**self.rows, **self.choices, **self.machines, **self.listed, **self.beside, **self.axes}
        return {name: values[name] for name in self.written}


def swept(scenario: Scenario, vary: Mapping[str, object], space: Space) -> Swept:
    """All sweeps: those of the scenario, the further ones, and those of the space.

    Raises:
        ConfigError: for impossible sweeps, all at once.
    """
    sweeping, sources = Swept(space), scenario.sources
    listed, problems = _read(scenario, vary)
    row_names = {category: name for name, category in ROW_NAMES.items()}
    sweeping.rows = {row_names[category]: rows for category, rows in sources.row_sweeps.items()}
    sweeping.rows |= {name: values for name, values in listed.items() if name in ROW_NAMES}
    sweeps = sources.sweeps | {name: values for name, values in listed.items() if name not in ROW_NAMES}
    problems += [
        Problem(f"a sweep of the {ONE_RUN_EACH[unit]} '{name}' needs one run for each", advice="give one by --set")
        for name in sweeps
        if (unit := scenario.catalogue[name].mark.unit) in ONE_RUN_EACH
    ]
    sweeping.written = (*sweeping.rows, *sweeps)
    open_policies = (name for name in space.policies if name not in sweeps and not is_set(scenario, name))
    policies = {name: _offered(scenario, name, space.policies[name]) for name in open_policies}
    for name, values in (sweeps | policies).items():
        place = "choices" if scenario.catalogue[name].is_selector else PLACES.get(name, "axes")
        getattr(sweeping, place)[name] = values
    sweeping.policies = frozenset(sweeping.axes.keys() & policies.keys())
    held = {n: (sources.given[n],) for n in (*SEARCHED, CHUNKS) if n not in sweeping.listed and is_set(scenario, n)}
    sweeping.listed |= held
    sweeping.held = tuple(held)
    sweeping.settled = frozenset(
        name for name, others in SETTLES.items() if any(n in sweeps or is_set(scenario, n) for n in others)
    )
    if problems:
        raise ConfigError(problems, file=scenario.label)
    return sweeping


def _offered(scenario: Scenario, name: str, values: tuple[object, ...]) -> tuple[object, ...]:
    """The values of a policy that the software has: of ZeRO stages those of its row, the next one for one that it has not."""
    if name != "zero_stage":
        return values
    offered = scenario.offered_zero_stages
    stages = (float(str(value)) for value in values)
    return tuple(dict.fromkeys(float(min(stage for stage in offered if stage >= value)) for value in stages))


def _read(scenario: Scenario, vary: Mapping[str, object]) -> tuple[dict[str, tuple[Any, ...]], list[Problem]]:
    """The further sweeps by canonical name, and the problems with them."""
    sweeps: dict[str, tuple[Any, ...]] = {}
    problems: list[Problem] = []
    catalogue, names = scenario.catalogue, [*scenario.catalogue.numbers, *ROW_NAMES]
    given = {aliases().canonical(name) for name, value in scenario.question.overrides.items() if value is not None}
    for written, of_user in vary.items():
        with collected(problems, f"--vary {written}"):
            name, values = aliases().listed(written, of_user)
            if name in catalogue.inside:
                problems.append(inside(name, catalogue, "--vary"))
            elif name not in names:
                problems.append(Problem(f"unknown parameter '{written}'", "--vary", did_you_mean(written, names)))
            elif not isinstance(values, list | tuple):
                raise ConfigError(f"{quoted(values)} is not a list", "give a list of values")
            elif name in given:
                raise ConfigError(f"'{name}' is swept and given one value", "keep one of the two")
            elif name in sweeps:
                raise ConfigError(f"'{name}' is swept twice", "give all its values at once")
            else:
                sweeps[name] = _rows(values) if name in ROW_NAMES else read_values(catalogue[name], values)
    return sweeps, problems


def _rows(values: list[Any] | tuple[Any, ...]) -> tuple[str, ...]:
    if not values or len(set(map(str, values))) < len(values):
        raise ConfigError("the list is empty or has a row twice", "name each row once")
    return tuple(str(value) for value in values)


def is_set(scenario: Scenario, name: str) -> bool:
    """Whether the caller set the value, so that it must be held."""
    origin = scenario.sources.origins.get(name)
    return isinstance(origin, Given) and origin.where.startswith("--set")
