"""Which parameters of a configuration are varied, and to which values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from amped.base.errors import ConfigError, Problem
from amped.configuring.scenario import Scenario
from amped.configuring.sources import Given, Sources
from amped.configuring.values import Value
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.estimation.comparison import kind_of_input
from amped.estimation.estimation import Estimation
from amped.theory.language.catalogue import Formula, Quantity
from amped.theory.language.quantity import Mark

# The step from zero for each canonical unit; for other units, one.
STEPS = {"1": 0.01, "s": 1e-6, "byte": 1e6, "byte/s": 1e9, "flop/s": 1e12, "dollar/s": 1 / 3600}
# The step from zero for times that every entry of a tensor takes.
STEPS_OF = {"elementary_function_time": 1e-12, "random_number_time": 1e-12}
DATA_DEGREES = frozenset(f"{place}data_parallel_degree" for place in ("", "intra_node_", "inter_node_"))
Lists = Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True)
class Variation:
    """A parameter, its value, and the values to try. Neighbors are found later.

    Attributes:
        calculated: whether the value comes from a formula; then the result of the formula is flipped.
    """

    name: str
    kind: str
    mark: Mark
    value: float
    varied: str
    values: Sequence[float]
    calculated: bool = False


def first_of_lists(scenario: Scenario) -> tuple[Scenario, Lists]:
    """The scenario with the first value of each list, and the lists that have several values.

    Raises:
        ConfigError: for lists of choices or of rows, because they change formulas or many values at once.
    """
    own, sweeps = scenario.sources, scenario.sources.sweeps
    problems = [Problem(f"the rows of {category} are a list, and sensitivity takes one", advice="give one row; `amped explore` ranks several")
                for category in own.row_sweeps]  # fmt: skip
    problems += [Problem(f"the choice '{name}' is a list, and sensitivity takes one", advice="give one; `amped compare` tells what another changes")
                 for name in sweeps if scenario.catalogue[name].is_selector]  # fmt: skip
    if problems:
        raise ConfigError(problems, file=scenario.label)
    sources = replace(own, given=dict(own.given), choices=dict(own.choices), origins=dict(own.origins), sweeps={})
    for name, (value, *_) in sweeps.items():
        sources.add(name, Given(value, value, f"the first value of {name}"))
    return replace(scenario, sources=sources), {name: values for name, values in sweeps.items() if values[1:]}


def on_the_same_machine(base: Estimation, lists: Lists) -> Sources:
    """The sources with a fixed number of accelerators.

    The data-parallel degree follows from the other degrees if it can.
    """
    sources = base.scenario.sources
    if DATA_DEGREES & lists.keys():  # then the lists decide how large the machine is
        return sources
    given = dict(sources.given)
    if "number_of_nodes" not in given:
        given["number_of_accelerators"] = base["number_of_accelerators"]
    left = replace(sources, given={name: value for name, value in given.items() if name not in DATA_DEGREES})
    degrees = run(plan(base.scenario.catalogue, sorted(DATA_DEGREES), left), left.given)
    same = all(degrees.number(name) == base[name] for name in DATA_DEGREES)
    return left if same else replace(sources, given=given)


def variations(
    base: Estimation,
    formulas: Mapping[str, Formula],
    sources: Sources,
    lists: Lists,
    kinds: Collection[str],
    step: float,
) -> Iterator[Variation]:
    """Every parameter of these kinds that is given, looked up or a default, and every switch that a formula sets."""
    for name, quantity in base.scenario.catalogue.items():
        kind, formula, calculated = kind_of_input(name, quantity.category), formulas.get(name), False
        if kind not in kinds or quantity.is_selector or quantity.mark.kind == "records" or quantity.mark.constrains:
            continue
        if name in sources.given and not isinstance(sources.given[name], str):
            value = sources.given[name]
        elif formula is not None and not formula.arguments and not _defined(formula):
            value = float(formula.function())
        elif formula is not None and quantity.mark.unit == "boolean" and name in base:
            value, calculated = base[name], True
        else:
            continue
        varied, values = _varied(quantity, value, lists.get(name), step)
        yield Variation(
            name=name,
            kind=kind,
            mark=quantity.mark,
            value=value,
            varied=varied,
            values=values,
            calculated=calculated,
        )


def _defined(formula: Formula) -> bool:
    """Whether the value is a definition (such as two operations for a multiply-accumulate) and not a property."""
    return formula.text["source"].startswith("definition") and formula.mark.unit == "flop"


def _varied(
    quantity: Quantity, value: float, listed: tuple[Value, ...] | None, step: float
) -> tuple[str, Sequence[float]]:
    """How a parameter of this value is varied, and its other values."""
    mark = quantity.mark
    if listed:
        return "list", sorted(map(float, listed[1:]))
    if mark.unit == "boolean" or (mark.or_boolean and value in (0, 1)):
        return "switch", [1 - value]
    if mark.unit == "count":
        return "neighbor", []
    if value == 0:
        from_zero = STEPS_OF.get(quantity.name, STEPS.get(mark.unit, 1.0))
        return "step", [min(from_zero, mark.at_most or float("inf"))]
    return "relative", [v for v in (value * (1 - step), value * (1 + step)) if _allowed(mark, v)]


def _allowed(mark: Mark, value: float) -> bool:
    """Whether a user might give the value."""
    most = float("inf") if mark.at_most is None else mark.at_most
    return (mark.at_least or 0.0) <= value <= most and (mark.above is None or value > mark.above)
