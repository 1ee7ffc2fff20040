"""The gate that every estimate passes: laws that hold for each training run, whatever its mapping.

A broken law is a mistake of amped's, unless the user gave a quantity that is otherwise calculated, or a formula for it:
then it is told beside the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from amped.base.errors import ConfigError, WrongResultError
from amped.base.record import dataclass
from amped.configuring.gathering import ROW_NAMES
from amped.configuring.scenario import Scenario
from amped.configuring.sources import Given, LookedUp
from amped.engine.evaluate import Results
from amped.estimation.parts import HIDDEN_PARTS, MEMORY_PARTS, STEP_PARTS
from amped.theory.language.catalogue import catalogue

# Sums and quotients of floating-point numbers may be off by a few rounding errors.
ROUNDING = 1e-9
MFU, HFU = (f"{kind}_flops_utilization_counting_causal_scores" for kind in ("model", "hardware"))


@dataclass(frozen=True)
class Law:
    """A statement that is true of every training run.

    Attributes:
        says: the law in words.
        reads: the names of the quantities that it is about.
        holds: whether it is true of their values.
    """

    says: str
    reads: tuple[str, ...]
    holds: Callable[..., bool]


def _none_negative(*values: float) -> bool:
    """Whether no value is below 0, apart from rounding."""
    return min(values) >= -ROUNDING * max(map(abs, values))


def _sums_up(whole: float, *parts: float) -> bool:
    """Whether the parts add up to the whole, apart from rounding."""
    return abs(sum(parts) - whole) <= ROUNDING * abs(whole)


def _rises(*values: float) -> bool:
    """Whether no value is smaller than the one before it."""
    return all(one <= other * (1 + ROUNDING) for one, other in pairwise(values))


LAWS = (
    Law("a step takes time", ("step_time",), lambda time: time > 0),
    Law("no part of a step is negative", STEP_PARTS, _none_negative),
    Law("the parts of a step sum up to its time", ("step_time", *STEP_PARTS), _sums_up),
    Law("no more communication is hidden than there is", HIDDEN_PARTS, _none_negative),
    Law("the utilization is above 0", (MFU,), lambda share: share > 0),
    Law("the model needs no more FLOPs than are computed", (MFU, HFU), _rises),
    Law("no accelerator is faster than its peak", (HFU,), lambda share: share <= 1 + ROUNDING),
    Law("no more parameters are active than there are", ("active_parameters", "number_of_parameters"), _rises),
    Law("an accelerator needs memory", ("memory_per_accelerator_bytes",), lambda memory: memory > 0),
    Law("no part of the memory is negative", MEMORY_PARTS, _none_negative),
    Law("the parts of the memory sum up to it", ("memory_per_accelerator_bytes", *MEMORY_PARTS), _sums_up),
)


def given_from_inside(scenario: Scenario, results: Results) -> list[str]:
    """The names of quantities that amped calculates unless they are given, and that the user or a row of the user gave."""
    marks = {name: scenario.catalogue[name].mark for name in results.plan.leaves if name in scenario.catalogue}
    given = {name for name, origin in scenario.sources.origins.items() if isinstance(origin, Given | LookedUp)}
    return [n for n, mark in marks.items() if n in given and mark.kind == "quantity" and mark.category is None]


def formulas_of_the_user(scenario: Scenario, results: Results) -> list[str]:
    """The names of amped's quantities that a formula of the user computes."""
    shipped = catalogue()
    if scenario.catalogue is shipped:
        return []
    formulas = ((f, shipped[f.name].formulas) for f in results.plan.by_name.values() if f.name in shipped)
    return [f.name for f, of_amped in formulas if f.function not in [other.function for other in of_amped]]


def broken_laws(results: Results) -> Iterator[str]:
    """For each law that the results break, a text of the law and its numbers."""
    for law in LAWS:
        values = [results.number(name) for name in law.reads]
        if not law.holds(*values):
            numbers = ", ".join(f"{name} = {value:.12g}" for name, value in zip(law.reads, values, strict=True))
            yield f"{law.says}: {numbers}"


def _faster_than_its_peak(given: list[str], utilization: float) -> ConfigError:
    """The error for given values with which the accelerators would be faster than their peak."""
    what = f"with what is given ({', '.join(given)}) the model FLOPs are {utilization:.4g} times the peak of the accelerators"
    return ConfigError(
        what, f"no run is faster than 1: leave {given[0]} out, so that it is predicted, or check its unit"
    )


def pass_gate(scenario: Scenario, results: Results) -> None:
    """Raises an error if the results break a law.

    Broken laws are accepted if the user gave the value or the formula of a quantity that amped calculates.

    Raises:
        ConfigError: for given values with which an accelerator is faster than its peak.
        WrongResultError: for a broken law; with the values of the config, to be sent with a report.
    """
    given = given_from_inside(scenario, results)
    if given and results.number(MFU) > 1 + ROUNDING:
        raise _faster_than_its_peak(given, results.number(MFU))
    broken, rows = [*broken_laws(results)], scenario.sources.rows
    if broken and not (given or formulas_of_the_user(scenario, results)):
        named = {name: rows[category].name for name, category in ROW_NAMES.items() if category in rows}
        origins = scenario.sources.origins.items()
        raise WrongResultError(broken, named | {n: o.written for n, o in origins if isinstance(o, Given)})
