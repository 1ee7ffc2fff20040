"""Two configurations side by side: which inputs differ, and which results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from amped.estimation.estimation import OPTIONAL_RESULTS, RESULTS, Estimation
from amped.estimation.one_list import costs_not_compared
from amped.estimation.parts import STEP_PARTS
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM

# Inputs whose change makes another experiment, and not another way to run the same one.
EXPERIMENT = (
    "batch_size", "context", "tokens_to_train", "weight_precision", "activation_precision",
    "gradient_precision", "optimizer_state_precision", "matrix_precision", "optimizer", "dropout",
)  # fmt: skip
KINDS = {NETWORK: "model", MAPPING: "mapping", SYSTEM: "system", ACCELERATOR: "accelerator"}


@dataclass(frozen=True)
class Difference:
    """One input or result that differs.

    Attributes:
        name: canonical name, or the name of a category's row.
        kind: "experiment", "model", "mapping", "system", "accelerator", "formulas" or "result".
        unit: the canonical unit; "choice" for a text.
        one, other: the two values; None if a configuration does not have the quantity.
    """

    name: str
    kind: str
    unit: str
    one: float | str | None
    other: float | str | None

    @property
    def ratio(self) -> float | None:
        """The other value divided by the one, if both are numbers and the one is not zero."""
        if isinstance(self.one, float) and isinstance(self.other, float) and self.one:
            return self.other / self.one
        return None

    @property
    def change(self) -> float:
        """The other value minus the one; 0 if they are not numbers."""
        if isinstance(self.one, float) and isinstance(self.other, float):
            return self.other - self.one
        return 0.0


def inputs_that_differ(one: Estimation, other: Estimation) -> list[Difference]:
    """The inputs with different values: given, looked up, default, or following from choices and degrees."""
    return [d for d in _inputs(one, other) if d.one != d.other]


def results(one: Estimation, other: Estimation) -> list[Difference]:
    """All results of both, equal or not."""
    names = [*RESULTS, *(n for n in OPTIONAL_RESULTS if n in one and n in other)]
    units = {name: one.scenario.catalogue[name].mark.unit for name in names}
    return [Difference(name, "result", unit, one=one[name], other=other[name]) for name, unit in units.items()]


def as_json(one: Estimation, other: Estimation) -> dict[str, Any]:
    """The inputs that differ, all results, notices on preliminary rows, and why costs are not compared, as plain data for JSON."""
    tables = {"inputs": inputs_that_differ(one, other), "results": results(one, other)}
    notices = [*dict.fromkeys(notice for e in (one, other) for notice in e.scenario.sources.preliminary)]
    reason = costs_not_compared((one, other))
    parts: dict[str, Any] = {name: [asdict(each) for each in differences] for name, differences in tables.items()}
    return parts | ({"notices": notices} if notices else {}) | ({"costs_not_compared": reason} if reason else {})


def step_parts(one: Estimation, other: Estimation) -> list[Difference]:
    """The parts of both step times, the one that changes most first, without parts that both lack."""
    parts = [d for d in results(one, other) if d.name in STEP_PARTS and (d.one or d.other)]
    return sorted(parts, key=lambda d: -abs(d.change))


def _inputs(one: Estimation, other: Estimation) -> Iterator[Difference]:
    """The rows and the inputs of two estimates, equal or not; inputs that neither has are left out."""
    for category, kind in KINDS.items():
        rows = (e.scenario.sources.rows.get(category) for e in (one, other))
        whose = "software" if category == MAPPING else kind
        one_row, other_row = (row.name if row else None for row in rows)
        yield Difference(f"{whose} row", kind, "choice", one=one_row, other=other_row)
    for name, quantity in one.scenario.catalogue.items():
        is_input = quantity.category or name in EXPERIMENT or quantity.is_selector
        if is_input and quantity.mark.kind != "records":
            first, second = (_value(e, name) for e in (one, other))
            if first is not None or second is not None:
                kind = kind_of_input(name, quantity.category)
                yield Difference(name, kind, quantity.mark.unit, one=first, other=second)


def kind_of_input(name: str, category: str | None) -> str:
    """The kind of an input: model, mapping, system, accelerator, experiment, or formulas."""
    return "experiment" if name in EXPERIMENT else KINDS.get(category or "", "formulas")


def _value(e: Estimation, name: str) -> float | str | None:
    """The choice, the result or the given value of a name; None if the estimate has none."""
    if name in e.choices:
        return e.choices[name]
    if name in e and e.scenario.catalogue[name].mark.kind != "records":
        return e[name]
    return e.scenario.sources.given.get(name)
