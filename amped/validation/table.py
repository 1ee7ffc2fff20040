"""The table of measurements, and its only reader: a row is one config of amped and what was measured with it.

A column is a parameter, a row of a lookup table (`model`, `system`, …), or one of the columns below. The cell of a
parameter is read as `--set` would read it, with units and choices. Blank cells get the defaults of the named rows.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, FileError, Problem, collected, did_you_mean, quoted
from amped.base.files import read_text, shipped_text
from amped.base.units import parse
from amped.configuring.gathering import ROW_NAMES
from amped.configuring.settings import setting
from amped.configuring.values import read_value
from amped.drafting.open_cells import OPEN
from amped.theory.catalogue import Catalogue, Quantity
from amped.theory.parallelisms import PLACED
from amped.validation.facts import FACTS

FOLDER = "lookup_tables"
SHIPPED = "published_measurements.csv"
# A template: the columns that most users need, and one run.
TEMPLATE = "measurements_template.csv"
# What was measured, by column: the quantity of amped, and the unit of a bare number.
MEASURED = {
    "measured_step_time": ("step_time", "s"),
    "measured_tokens_per_second_per_accelerator": ("tokens_per_second_per_accelerator", "1/s"),
    "measured_model_flop_rate_per_accelerator": ("model_flop_rate_per_accelerator", "flop/s"),
    "measured_forward_time": ("forward_time", "s"),
    "measured_backward_time": ("backward_time", "s"),
    "measured_memory_bytes": ("memory_per_accelerator_bytes", "byte"),
    "measured_spread_fraction": ("spread_fraction", "1"),
}
# The columns of which a row fills one at least.
ANSWERS = (*MEASURED, "ran_out_of_memory")
# The columns that say how long a step takes; a row has at most one of them.
PACES = tuple(MEASURED)[:3]
STEP, LAYER = "training_step", "layer"
# The columns that hold one of a few words.
WORDS = {
    "confidence": ("high", "medium", "low"), "kind": (STEP, LAYER), "assume": ("fastest", "default"), "ran_out_of_memory": ("true", "false"), "fitted": ("true", "false"),
    "memory_reading": ("allocated", "reserved", "device"), "memory_rank": ("first", "last", "fullest"),
}  # fmt: skip
# A smaller time, rate or memory is a slip of the pen, and an error beside it has no size.
LEAST_MEASURED = 1e-12
# What no table can do without.
NEEDED = "a first line with the names of its columns, one of them for what was measured (such as measured_step_time)"
# The columns for people, which no prediction reads.
TEXTS = ("id", "group", "source", "source_ref", "network", "notes")
# The columns that hold several things, separated by semicolons.
LISTS = ("set", "open", "not_modeled")
OWN = (*TEXTS, *WORDS, *LISTS, *MEASURED)
# What a row may give: every quantity that is not a rule.
Parameters = Mapping[str, Quantity]


# Other names of columns that are no parameters.
HEADS = {"model_name": "network", "measured_step_time_s": "measured_step_time"}


# A cell with more characters than this is a mistake, such as a quotation mark that was never closed.
LONGEST_CELL = 100_000
ACCELERATORS, DATA = "number_of_accelerators", "data_parallel_degree"
# The degrees whose product is the number of accelerators.
DEGREES = tuple(f"{kind}_parallel_degree" for kind in PLACED)


@dataclass(frozen=True)
class Row:
    """One row of a table of measurements.

    Attributes:
        line: the number of its first line in the file, for messages.
        texts: the filled cells of columns for people and of columns that hold one of a few words.
        settings: parameters and rows of lookup tables by name, in the form of `--set`.
        open: parameters that the source leaves open, so that amped chooses them.
        facts: what the run did that amped does not model.
        measured: what was measured, in SI units.
    """

    line: int
    texts: dict[str, str]
    settings: dict[str, Any]
    open: list[str]
    facts: dict[str, str]
    measured: dict[str, float]

    def place(self, *columns: str) -> str:
        """Where some of its cells stand, for messages."""
        return f"line {self.line}, {_columns(columns)}"


def read_table(path: str | Path | None, known: Catalogue) -> list[Row]:
    """The rows of a table; by default, of the table that comes with amped.

    Raises:
        FileError: if the file is missing or is not a table; ConfigError: with all problems, by line and column.
    """
    parameters = {n: q for n, q in known.items() if q.mark.kind != "records" and not q.mark.constrains}
    text, label = (shipped_text(FOLDER, SHIPPED), SHIPPED) if path is None else (read_text(Path(path)), str(path))
    (_, heads), *lines = _lines(text, label) or [(1, [])]
    header = [_canonical(name, parameters) for name in heads]
    problems = [*_header_problems(header, parameters)]
    problems += [_ragged(line, cells, header) for line, cells in lines if len(cells) != len(header)]
    rows = (
        []
        if problems
        else [_row(line, dict(zip(header, cells, strict=True)), parameters, problems) for line, cells in lines]
    )
    problems += _same_ids(rows)
    if problems:
        raise ConfigError(problems, file=label)
    return rows


def _lines(text: str, label: str) -> list[tuple[int, list[str]]]:
    """The cells of each line that is not blank, with the number of the line in which they begin."""
    found, line = [], 1
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    # The library refuses a long cell without its column, so that `_take` refuses it.
    before = csv.field_size_limit(len(text) + 1)
    try:
        for cells in reader:
            found += [(line, cells)] if cells else []
            line = reader.line_num + 1
    except csv.Error as error:
        told = f"line {line}: is no table of comma-separated values: {error}"
        raise FileError(told, "put text with commas or quotation marks in quotation marks", label) from None
    finally:
        csv.field_size_limit(before)
    return found


def shipped_cells() -> Iterator[dict[str, str]]:
    """The filled cells of each row of amped's own table, by column, as they are written."""
    (_, header), *lines = _lines(shipped_text(FOLDER, SHIPPED), SHIPPED)
    for _, cells in lines:
        yield {column: cell for column, cell in zip(header, cells, strict=True) if cell}


def _canonical(head: str, parameters: Parameters) -> str:
    """The column that a head means.

    It may have capitals, spaces or hyphens, and may be a former or another tool's name.
    """
    name = head.strip()
    plain = name.casefold().replace(" ", "_").replace("-", "_")
    known = (each for each in (name, plain) if each in OWN or each in parameters or each in ROW_NAMES)
    return next(known, HEADS.get(plain) or aliases().canonical(name))


def _header_problems(header: list[str], parameters: Parameters) -> Iterator[Problem]:
    known = (*OWN, *ROW_NAMES, *parameters)
    if not header:
        yield Problem("the table is empty", "line 1", f"a table needs {NEEDED}, as `amped validate --template` prints")
    elif not {*header} & {*ANSWERS}:
        yield Problem("no column says what was measured", "line 1", f"add one of {', '.join(MEASURED)}")
    for name, times in Counter(filter(None, header)).items():
        where = f"line 1, {_columns([name])}"
        if name not in known:
            hint = did_you_mean(name, known) or "`amped validate --template` and `amped list parameters` show them"
            yield Problem(f"unknown column {quoted(name)}", where, hint)
        if times > 1:
            yield Problem(f"the column {quoted(name)} stands {times} times", where, "keep one")


def _columns(names: Sequence[str]) -> str:
    """`column 'a'`, or `columns 'a' and 'b'`."""
    return f"column{'s' * (len(names) > 1)} {' and '.join(map(quoted, names))}"


def _ragged(line: int, cells: Sequence[str], header: Sequence[str]) -> Problem:
    where = f"line {line}, {_columns(header[: len(cells)][-1:])}"
    told = f"has not as many cells as the header: {len(cells)}, and not {len(header)}"
    return Problem(told, where, "put cells with commas in quotation marks")


def _same_ids(rows: Sequence[Row]) -> Iterator[Problem]:
    for name, times in Counter(row.texts.get("id", "") for row in rows).items():
        if name and times > 1:
            lines = " and ".join(str(row.line) for row in rows if row.texts.get("id") == name)
            where = f"lines {lines}, column 'id'"
            yield Problem(f"the id {quoted(name)} stands {times} times", where, "give each its own")


def _row(line: int, cells: Mapping[str, str], parameters: Parameters, problems: list[Problem]) -> Row:
    """One row; what is wrong with it is added to the problems."""
    row, own = Row(line, {}, {}, [], {}, {}), list[Problem]()
    for column, cell in cells.items():
        with collected(own, row.place(column)):
            if written := cell.strip():
                _take(row, column, written, parameters)
    problems += own or _contradictions(row, cells)
    return row


def _take(row: Row, column: str, cell: str, parameters: Parameters) -> None:
    """Reads a cell according to its column."""
    if not column:
        raise ConfigError("the column has no name", "give it one in line 1")
    if len(cell) > LONGEST_CELL:
        raise ConfigError(f"the cell has {len(cell)} characters", f"{LONGEST_CELL} is the most; close quotation marks")
    if column in MEASURED:
        name, unit = MEASURED[column]
        row.measured[name] = parse(setting(cell), unit)
        if row.measured[name] < LEAST_MEASURED and column in (*PACES, "measured_memory_bytes"):
            raise ConfigError(f"{cell} cannot have been measured", "check the value and its unit")
    elif column in WORDS:
        row.texts[column] = _one_of(cell.casefold(), WORDS[column], "word")
    elif column in TEXTS:
        row.texts[column] = cell
    elif column not in LISTS:
        _set(row, column, cell, parameters)
    else:
        for part in filter(None, map(str.strip, cell.split(";"))):
            _take_part(row, column, part, parameters)


def _take_part(row: Row, column: str, part: str, parameters: Parameters) -> None:
    """Reads one part of a cell that holds several."""
    name, equals, written = map(str.strip, part.partition("="))
    if column == "open":
        row.open.append(_one_of(part, OPEN, "parameter that can be open"))
    elif not (equals and written):
        raise ConfigError(f"{quoted(part)} is not NAME=VALUE", "for example dropout=0.1; causal=false")
    elif column == "not_modeled":
        row.facts[_fact(name, parameters)] = written
    else:
        name = _one_of(aliases().canonical(name), (*ROW_NAMES, *parameters), "parameter")
        _set(row, name, written, parameters)


def _fact(name: str, parameters: Parameters) -> str:
    """The name of a fact that amped does not model; what amped models is a parameter, and belongs into `set`."""
    near = "" if name in FACTS else did_you_mean(name, [each for each in parameters if each not in FACTS])
    if near:
        raise ConfigError(f"unknown fact {quoted(name)}", f"{near} A parameter belongs into the column 'set'")
    return _one_of(name, tuple(FACTS), "fact")


def _set(row: Row, name: str, cell: str, parameters: Parameters) -> None:
    """Takes the value of a parameter, checked as `--set` checks it; or the name of a row."""
    if name in row.settings:
        raise ConfigError(f"'{name}' is given twice", "once as a column, or once in 'set'")
    row.settings[name] = cell if name in ROW_NAMES else setting(cell)
    if name in parameters:
        read_value(parameters[name], row.settings[name])


def _contradictions(row: Row, columns: Iterable[str]) -> Iterator[Problem]:
    """What the cells of a row say against one another, and what it lacks."""
    paces = [column for column in PACES if MEASURED[column][0] in row.measured]
    if len(paces) > 1:
        advice = "keep the one that was printed, the other follows"
        yield Problem("the time of a step is given twice", row.place(*paces), advice)
    if not row.measured and row.texts.get("ran_out_of_memory") != "true":
        where = row.place(*(name for name in columns if name in ANSWERS))
        yield Problem("nothing was measured", where, f"fill one of {', '.join(PACES)} or measured_memory_bytes")
    for name in {*row.open} & {*row.settings}:
        yield Problem(f"'{name}' is given and open", row.place("open", name), "leave it out of 'open', or its value")
    given = {name: parse(row.settings[name], "1") for name in (ACCELERATORS, *DEGREES) if name in row.settings}
    asked = given.pop(ACCELERATORS, None)
    product = math.prod(given.values())
    if asked and (asked != product if DATA in given else asked % product):
        told = f"degrees of {' x '.join(f'{size:g}' for size in given.values())} do not give {asked:g} accelerators"
        advice = f"{' x '.join(DEGREES)} is {ACCELERATORS}; a blank degree is 1, but a blank {DATA} is what is left"
        yield Problem(told, row.place(ACCELERATORS, *given), advice)


def _one_of(written: str, choices: tuple[str, ...], what: str) -> str:
    """The choice that was written.

    Raises:
        ConfigError: if it is none of the choices, with the nearest one.
    """
    if written in choices:
        return written
    few = f"it is one of {', '.join(choices)}" if len(choices) <= len(FACTS) else "`amped list parameters` shows them"
    raise ConfigError(f"unknown {what} {quoted(written)}", did_you_mean(written, choices) or few)
