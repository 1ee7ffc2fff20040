"""One machine and one set of choices to explore: what is swept, what is held, and the sources of all else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from amped.aliases import aliases
from amped.catalogue import Catalogue
from amped.errors import AmpedError, ConfigError, Problem, did_you_mean, quoted
from amped.evaluate import Array, run
from amped.exploration.space import PLACED, Machine
from amped.resolve import plan
from amped.scenario import Scenario
from amped.sources import Given, Sources
from amped.values import Value, read_values

SEARCHED = (
    *(f"{place}{kind}_parallel_degree" for kind in PLACED for place in ("", "intra_node_", "inter_node_")),
    "microbatch_size", "number_of_microbatches_per_minibatch",
)  # fmt: skip
# What the space is built from: one value makes one space.
MACHINE = (
    "number_of_accelerators", "scale_up_domain_size", "context_parallel_degree", "intra_node_context_parallel_degree",
)  # fmt: skip
BUILDS_THE_SPACE = (
    *MACHINE,
    "inter_node_context_parallel_degree",
    "number_of_nodes",
    "number_of_accelerators_per_node",
)


@dataclass(frozen=True)
class Case:
    """One machine and one set of choices, ready to run.

    Attributes:
        sources: everything that is neither searched nor swept.
        machine: what the mappings fill.
        batch_sizes: the global batches to search.
        axes: each other swept name with its values.
        held: searched names that the caller set, with their values.
    """

    catalogue: Catalogue
    sources: Sources
    machine: Machine
    batch_sizes: tuple[int, ...]
    axes: Mapping[str, Array]
    held: Mapping[str, float]


def case(scenario: Scenario, vary: Mapping[str, Sequence[object]]) -> Case:
    """What the scenario and further sweeps ask for.

    Raises:
        ConfigError: for sweeps that cannot be, all at once; ResolveError if the machine's size is not known.
    """
    known, own = scenario.catalogue, scenario.sources
    swept, problems = _read(known, vary)
    sweeps = own.sweeps | swept
    problems += [*_refused(known, sweeps), *(_one_run_each(f"the rows of {c}") for c in own.row_sweeps)]
    if problems:
        raise ConfigError(problems, file=scenario.label)
    dropped = {*SEARCHED, *sweeps, *(name for n in swept for name in known[n].replaces)}
    given = {name: value for name, value in own.given.items() if name not in dropped}
    sizes = sweeps.pop("batch_size", None) or _given(own, "batch_size")
    machine = _machine(scenario, {n: v for n, v in own.given.items() if n not in dropped - set(SEARCHED)})
    given["number_of_accelerators"] = float(machine.accelerators)
    axes = {name: np.array(values, dtype=np.float64) for name, values in sweeps.items()}
    return Case(known, replace(own, given=given), machine, tuple(int(s) for s in sizes), axes, _held(own))


def _read(known: Catalogue, vary: Mapping[str, Sequence[object]]) -> tuple[dict[str, tuple[Value, ...]], list[Problem]]:
    """The further sweeps by canonical name, and what is wrong with them."""
    sweeps: dict[str, tuple[Value, ...]] = {}
    problems: list[Problem] = []
    names = [n for n, q in known.items() if q.mark.kind != "records" and not q.mark.constrains]
    for written, values in vary.items():
        name = aliases().canonical(written)
        if name not in names:
            problems.append(Problem(f"unknown parameter '{written}'", "--vary", did_you_mean(written, names)))
            continue
        if not isinstance(values, list | tuple):
            problems.append(Problem(f"{quoted(values)} is not a list", f"--vary {written}", "give a list of values"))
            continue
        try:
            sweeps[name] = read_values(known[name], values)
        except AmpedError as error:
            problems += error.at(f"--vary {written}")
    return sweeps, problems


def _refused(known: Catalogue, sweeps: Mapping[str, Any]) -> Iterator[Problem]:
    for name in sweeps:
        if known[name].is_selector:
            yield _one_run_each(f"the choice '{name}'")
        elif name in BUILDS_THE_SPACE:
            yield _one_run_each(f"'{name}', which the space is built from,")
        elif name in SEARCHED:
            yield Problem(f"'{name}' is always searched", advice="leave its list out; --set holds one value")


def _one_run_each(what: str) -> Problem:
    return Problem(f"a sweep of {what} needs one run for each", advice="give one value, by --set or its own option")


def _given(sources: Sources, name: str) -> tuple[float, ...]:
    if name not in sources.given:
        raise ConfigError(f"'{name}' is missing", f"give it in the config, with --set {name}=… or --vary {name}=…")
    return (sources.given[name],)


def _machine(scenario: Scenario, given: dict[str, float]) -> Machine:
    """The size of the machine: given, else from nodes, else what the config's own degrees multiply to."""
    values = run(plan(scenario.catalogue, MACHINE, replace(scenario.sources, given=given)), given)
    return Machine(*(int(values.number(name)) for name in MACHINE))


def _held(sources: Sources) -> dict[str, float]:
    """What is searched but was set by the caller, who wants it held."""
    return {
        name: sources.given[name]
        for name in SEARCHED
        if isinstance(origin := sources.origins.get(name), Given) and origin.where.startswith("--set")
    }
