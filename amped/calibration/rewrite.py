"""The tables that come with amped, written again after a fit to all rows: numbers, what is behind each, and errors of rows.

Only the fitted cells of a table change, and the column `fitted_on` of their rows; all else keeps its form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from amped.base.errors import ConfigError
from amped.base.files import shipped_folder, shipped_text
from amped.calibration.all_rows import overlaid
from amped.calibration.calibrate import DIGITS
from amped.calibration.leave_out import LeftOut
from amped.calibration.step_table import FILE as NUMBERS
from amped.calibration.step_table import Behind, as_csv
from amped.calibration.written import as_text
from amped.configuring.values import read_value
from amped.estimation.validated import FILE as ERRORS
from amped.estimation.validated import as_file
from amped.theory.language.catalogue import catalogue
from amped.validation.residuals import residuals, validated_runs

FOLDER = "lookup_tables"
# How `fitted_on` begins, and what follows for each number.
HEAD = "amped calibrate --all, {}, all rows of high and medium confidence and all numbers at once; those that tell: "
BEGINNING = re.compile(r"amped calibrate --all, .*?those that tell: ")
BETWEEN = "; "
VALUE = re.compile(r"(?P<number>[-+.\deE]+)\s*(?P<unit>.*)")


def tables_folder() -> Path:
    """The folder of the tables that come with amped.

    Raises:
        ConfigError: if amped is installed and is not a checkout, so that the tables would change unseen.
    """
    folder = shipped_folder(FOLDER)
    if not (folder.parent / "pyproject.toml").is_file():
        raise ConfigError("--write changes the tables of a checkout of amped, and this amped is installed",
                          "clone amped, or name a file with --output")  # fmt: skip
    return folder


def rewritten(found: LeftOut, numbers: Sequence[Behind]) -> dict[str, str]:
    """The texts of the files that a fit to the rows that come with amped changes, by the name of the file.

    Args:
        found: the fit, and the fits without each source, accelerator and stack.
        numbers: what is behind each fitted number.
    """
    fit = found.fit
    tables = {
        f"{table}.json": with_values(shipped_text(FOLDER, f"{table}.json"), [n for n in numbers if n.table == table])
        for table in dict.fromkeys(number.table for number in numbers)
    }
    with overlaid(None, fit.numbers, fit.values) as lookup_tables:
        runs = validated_runs(residuals(None, lookup_tables), found.shifts)
    return tables | {NUMBERS: as_csv([_in_tables(number) for number in numbers]), ERRORS: as_file(runs)}


def _in_tables(number: Behind) -> Behind:
    """What is behind a number, once the fitted value stands in the tables."""
    return replace(number, value=number.fitted)


def with_values(text: str, numbers: Sequence[Behind]) -> str:
    """The text of a table with the fitted value of each of its numbers, and with what each was fitted to."""
    table = json.loads(text)
    for name in dict.fromkeys(number.row for number in numbers):
        row, of_row = table["rows"][name], [number for number in numbers if number.row == name]
        row |= {number.column: cell(row.get(number.column), number) for number in of_row}
        row["fitted_on"] = fitted_on(str(row.get("fitted_on", "")), of_row)
    return as_text(table, ascii_only=text.isascii())


def cell(before: Any, number: Behind) -> float | int | str:
    """The fitted value of a number as a cell of a table, with the unit that the cell had before."""
    quantity = catalogue()[number.column]
    match = VALUE.fullmatch(before) if isinstance(before, str) else None
    size = float(read_value(quantity, f"1 {match['unit']}")) if match else 1.0
    value = float(f"{number.fitted / size:.{DIGITS}g}")
    return f"{value:g} {match['unit']}" if match else int(value) if value.is_integer() else value


def fitted_on(before: str, numbers: Sequence[Behind]) -> str:
    """What the numbers of a row were fitted to, as its column `fitted_on` says it.

    The rows behind each number are counted, the sources of the number with most rows named. What the column said before of
    other numbers stays.

    Args:
        before: what the column said before.
        numbers: the row's fitted numbers.
    """
    ranked = sorted(numbers, key=lambda number: number.rows)
    counts = [f"{number.column} {number.rows} rows" for number in ranked]
    counts[-1] += f" of {', '.join(sorted(ranked[-1].sources))}"
    return HEAD.format(date.today().isoformat()) + BETWEEN.join([*counts, *_of_others(before, numbers)])


def _of_others(before: str, numbers: Sequence[Behind]) -> Iterator[str]:
    """The parts of `fitted_on` that say nothing of these numbers and their rows."""
    own = [number.column for number in numbers]
    for part in BEGINNING.sub("", before).split(BETWEEN):
        if part and not any(re.match(rf"{column} \d+ rows\b", part) for column in own):
            yield part
