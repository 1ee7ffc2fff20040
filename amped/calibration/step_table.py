"""The numbers that are fitted to steps with what is behind each, as a small table that comes with amped."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from amped.base.files import shipped_text
from amped.calibration.all_rows import AllRows, groups_of, is_moved
from amped.calibration.step_fit import weights
from amped.engine.evaluate import Array

FILE = "numbers_fitted_to_steps.csv"
BETWEEN, IS = "; ", " = "


@dataclass(frozen=True)
class Behind:
    """A number that is fitted to steps, and the rows that it is known from.

    Attributes:
        table, row, column: the place of the number.
        value: the value in the tables, in the canonical unit.
        fitted: the value from the fit to all rows.
        parent: the value that the number is drawn to.
        rows, groups: how many rows, and how many different configurations, depend on the number.
        error_fraction: the mean absolute error of these rows with the fitted numbers.
        error_fraction_without: their mean absolute error with `parent` in place of this number.
        without_source: the value in the fit without each of the sources whose rows depend on the number.
    """

    table: str
    row: str
    column: str
    value: float
    fitted: float
    parent: float
    rows: int
    groups: int
    error_fraction: float
    error_fraction_without: float
    without_source: Mapping[str, float] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources whose rows depend on the number."""
        return tuple(self.without_source)


def behind(fit: AllRows, without_source: Mapping[tuple[str, ...], Array]) -> list[Behind]:
    """For each fitted number, how many rows depend on it, and their errors with it and without it.

    Args:
        fit: the fit to all rows.
        without_source: the values of the numbers in the fit without each source, by the source alone.
    """
    frozen, values = fit.frozen, fit.values
    is_moved_by, parents = is_moved(frozen, values), frozen.drawn.parents(values)
    errors = frozen.errors(np.concatenate([values[None], np.where(np.eye(len(values), dtype=bool), parents, values)]))
    groups = groups_of(frozen)
    numbers = []
    for i, number in enumerate(fit.numbers):
        weight = weights(groups, is_moved_by[:, i].tolist())
        with_it, without_it = (
            float(weight @ np.abs(np.expm1(errors[row])) / max(weight.sum(), 1)) for row in (0, i + 1)
        )
        rows = [step.residual for step, is_behind in zip(frozen.steps, is_moved_by[:, i], strict=True) if is_behind]
        numbers.append(Behind(
            **asdict(number.key), value=number.value, fitted=float(values[i]), parent=float(parents[i]), rows=len(rows),
            groups=round(weight.sum()), error_fraction=with_it, error_fraction_without=without_it,
            without_source=_values_without(without_source, {r.measurement.source for r in rows}, i),
        ))  # fmt: skip
    return numbers


def _values_without(refitted: Mapping[tuple[str, ...], Array], names: set[str], place: int) -> dict[str, float]:
    """The value of one number in each fit that left out one of these names, by the name."""
    return {name: float(values[place]) for (name,), values in refitted.items() if name in names}


def as_csv(numbers: Sequence[Behind]) -> str:
    """The table as the file that `shipped_numbers` reads."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(Behind.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    for number in numbers:
        writer.writerow({name: _written(value) for name, value in asdict(number).items()})
    return stream.getvalue()


def _written(value: Any) -> str:
    """The text of a cell, which `READERS` can read: a mapping becomes `name = value` pairs."""
    if isinstance(value, dict):
        return BETWEEN.join(f"{name}{IS}{part:.4g}" for name, part in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_csv(text: str) -> list[Behind]:
    """The numbers of a text that `as_csv` has written."""
    lines = csv.DictReader(io.StringIO(text))
    return [
        Behind(**{column.name: READERS[str(column.type)](line[column.name]) for column in fields(Behind)})
        for line in lines
    ]


@lru_cache(maxsize=1)
def shipped_numbers() -> tuple[Behind, ...]:
    """The numbers of the table that comes with amped."""
    return tuple(read_csv(shipped_text("lookup_tables", FILE)))


def _values(text: str) -> dict[str, float]:
    """The mapping from names to numbers that `_written` has written as a text."""
    return {name: float(value) for name, _, value in (pair.rpartition(IS) for pair in text.split(BETWEEN) if pair)}


# The function that reads a cell, by the type of its field.
READERS: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "Mapping[str, float]": _values,
}


def beside(path: Path) -> Path:
    """The path for a table of numbers next to a file of rows: the same name with the ending .csv."""
    return path.with_suffix(".csv")
