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
from amped.estimation.validated import WITHOUT

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
        without_source, without_accelerator: its value in the fit without each of the sources, and without each of the
            accelerators, whose rows depend on it.
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
    without_accelerator: Mapping[str, float] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources whose rows depend on it."""
        return tuple(self.without_source)


def behind(
    found: AllRows, without_source: Mapping[str, Array], without_accelerator: Mapping[str, Array]
) -> list[Behind]:
    """What is behind each number.

    Args:
        found: the fit to all rows.
        without_source: the numbers of the fit without each source.
        without_accelerator: the numbers of the fit without each accelerator.
    """
    frozen, values = found.frozen, found.values
    told, parents = moves(frozen, values), frozen.drawn.parents(values)
    number = len(values)
    errors = frozen.errors(np.concatenate([values[None], np.where(np.eye(number, dtype=bool), parents, values)]))
    groups = groups_of(frozen)
    made = []
    for i, each in enumerate(found.numbers):
        weight = weights(groups, told[:, i].tolist())
        with_it, without = (float(weight @ np.abs(np.expm1(errors[row])) / max(weight.sum(), 1)) for row in (0, i + 1))
        rows = [step.residual for step, its_own in zip(frozen.steps, told[:, i], strict=True) if its_own]
        sources, accelerators = {r.measurement.source for r in rows}, {r.accelerator for r in rows}
        others = (_of(without_source, sources, i), _of(without_accelerator, accelerators, i))
        made.append(Behind(each.key.table, each.key.row, each.key.column, each.value, float(values[i]), float(parents[i]),
                           len(rows), round(weight.sum()), with_it, without, *others))  # fmt: skip
    return made


def _of(refitted: Mapping[str, Array], names: set[str], place: int) -> dict[str, float]:
    """One number in those fits that left one of these names out."""
    return {name: float(values[place]) for name, values in refitted.items() if name in names}


def as_csv(numbers: Sequence[Behind]) -> str:
    """The table as the file that `shipped_numbers` reads."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(Behind.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    for each in numbers:
        told = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in asdict(each).items()}
        writer.writerow(told | {name: _pairs(getattr(each, name)) for name in WITHOUT})
    return stream.getvalue()


def _pairs(values: Mapping[str, float]) -> str:
    return BETWEEN.join(f"{name}{IS}{value:.4g}" for name, value in values.items())


def read_csv(text: str) -> list[Behind]:
    """The numbers of such a file."""
    return [_read(line) for line in csv.DictReader(io.StringIO(text))]


@lru_cache(maxsize=1)
def shipped_numbers() -> tuple[Behind, ...]:
    """The numbers of the table that comes with amped."""
    return tuple(read_csv(shipped_text("lookup_tables", FILE)))


def _read(line: Mapping[str, str]) -> Behind:
    return Behind(
        line["table"], line["row"], line["column"], float(line["value"]), float(line["fitted"]), float(line["parent"]),
        int(line["rows"]), int(line["groups"]), float(line["error_fraction"]), float(line["error_fraction_without"]),
        *(_values(line[name]) for name in WITHOUT),
    )  # fmt: skip


def _values(text: str) -> dict[str, float]:
    """What `_pairs` wrote."""
    return {name: float(value) for name, _, value in (pair.rpartition(IS) for pair in text.split(BETWEEN) if pair)}


def beside(path: Path) -> Path:
    """The file of this table that is written beside a file of rows."""
    return path.with_suffix(".csv")
