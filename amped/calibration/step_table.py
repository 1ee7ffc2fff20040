"""The numbers that are fitted to steps with what is behind each, as a small table that comes with amped."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from amped.base.files import shipped_text
from amped.calibration.all_rows import AllRows, groups_of, moves
from amped.calibration.step_fit import weights
from amped.engine.evaluate import Array

FILE = "numbers_fitted_to_steps.csv"
BETWEEN, IS = "; ", " = "


@dataclass(frozen=True)
class Behind:
    """A number that is fitted to steps, and what is behind it.

    Attributes:
        table, row, column: where it stands.
        value: its value in the tables, in the canonical unit.
        fitted: the value that the fit to all rows gives it.
        parent: the value that it is drawn to.
        rows, groups: how many rows, and how many different configurations, depend on it.
        error_fraction: the mean absolute error of these rows with the fitted numbers.
        error_fraction_without: the same with the parent's value in place of this number.
        without: its value in the fit without each of the sources whose rows depend on it.
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
    without: Mapping[str, float] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources whose rows depend on it."""
        return tuple(self.without)


def behind(found: AllRows, names: Sequence[str], refitted: Array) -> list[Behind]:
    """What is behind each number.

    Args:
        found: the fit to all rows.
        names: the sources.
        refitted: the numbers of the fit without each source.
    """
    frozen, values = found.frozen, found.values
    told, parents = moves(frozen, values), frozen.drawn.parents(values)
    number = len(values)
    errors = frozen.errors(np.concatenate([values[None], np.where(np.eye(number, dtype=bool), parents, values)]))
    sources = np.array([step.residual.measurement.source for step in frozen.steps])
    groups = groups_of(frozen)
    made = []
    for i, each in enumerate(found.numbers):
        weight = weights(groups, told[:, i].tolist())
        with_it, without = (float(weight @ np.abs(np.expm1(errors[row])) / max(weight.sum(), 1)) for row in (0, i + 1))
        own = set(sources[told[:, i]])
        others = {name: float(refitted[place, i]) for place, name in enumerate(names) if name in own}
        made.append(Behind(each.key.table, each.key.row, each.key.column, each.value, float(values[i]), float(parents[i]),
                           int(told[:, i].sum()), round(weight.sum()), with_it, without, others))  # fmt: skip
    return made


def as_csv(numbers: Sequence[Behind]) -> str:
    """The table as the file that `shipped_numbers` reads."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(Behind.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    for each in numbers:
        told = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in asdict(each).items()}
        writer.writerow(told | {"without": BETWEEN.join(f"{name}{IS}{v:.4g}" for name, v in each.without.items())})
    return stream.getvalue()


def read_csv(text: str) -> list[Behind]:
    """The numbers of such a file."""
    return [_read(line) for line in csv.DictReader(io.StringIO(text))]


@lru_cache(maxsize=1)
def shipped_numbers() -> tuple[Behind, ...]:
    """The numbers of the table that comes with amped."""
    return tuple(read_csv(shipped_text("lookup_tables", FILE)))


def _read(line: Mapping[str, str]) -> Behind:
    pairs = (pair.rpartition(IS) for pair in line["without"].split(BETWEEN) if pair)
    return Behind(
        line["table"], line["row"], line["column"], float(line["value"]), float(line["fitted"]), float(line["parent"]),
        int(line["rows"]), int(line["groups"]), float(line["error_fraction"]), float(line["error_fraction_without"]),
        {name: float(value) for name, _, value in pairs},
    )  # fmt: skip


def beside(path: Path) -> Path:
    """The file of this table that is written beside a file of rows."""
    return path.with_suffix(".csv")
