"""The table of measurements, and its only reader: a row is one config of amped and what was measured with it.

A column is a parameter, a row of a lookup table (`model`, `system`, …), or one of the columns below. The cell of a
parameter is read as `--set` would read it, with units and choices. A blank cell is what `amped estimate` takes for the same
words. A column with the name of a result is the measurement of it: nothing that was measured is an input of its prediction.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, FileError, Problem, collected, did_you_mean, quoted
from amped.base.files import read_text, shipped_json, shipped_text
from amped.base.units import parse
from amped.configuring.gathering import ROW_NAMES
from amped.configuring.settings import setting
from amped.configuring.values import read_value
from amped.drafting.open_cells import OPEN
from amped.estimation.estimation import OPTIONAL_RESULTS, RESULTS
from amped.theory.language.catalogue import Catalogue, Quantity
from amped.theory.nouns.parallelisms import PLACED
from amped.validation.facts import FACTS, checked

FOLDER = "lookup_tables"
SHIPPED = "published_measurements.csv"
# A template: the columns that most users need, and one run.
TEMPLATE = "measurements_template.csv"
# What was measured, by column: the quantity of amped, and the unit of a bare number.
MEASURED = {
    "measured_step_time": ("step_time", "s"),
    "measured_tokens_per_second_per_accelerator": ("tokens_per_second_per_accelerator", "1/s"),
    "measured_model_flop_rate_per_accelerator": ("model_flop_rate_per_accelerator", "flop/s"),
    "measured_model_flops_utilization": ("model_flops_utilization", "1"),
    "measured_forward_time": ("forward_time", "s"),
    "measured_backward_time": ("backward_time", "s"),
    "measured_memory_bytes": ("memory_per_accelerator_bytes", "byte"),
    "measured_spread_fraction": ("spread_fraction", "1"),
}
# The log of a run, which says what was measured.
LOG = "log"
# The columns of which a row fills one at least.
ANSWERS = (*MEASURED, "ran_out_of_memory", LOG)
# The columns that say how long a step takes, the most direct first.
PACES = tuple(MEASURED)[:4]
UTILIZATION, PERCENT = "measured_model_flops_utilization", "%"
STEP, LAYER = "training_step", "layer"
# The columns that hold one of a few words.
WORDS = {
    "confidence": ("high", "medium", "low"), "kind": (STEP, LAYER), "assume": ("fastest", "default"), "ran_out_of_memory": ("true", "false"), "fitted": ("true", "false"),
    "memory_reading": ("allocated", "reserved", "device"), "memory_rank": ("first", "last", "fullest"),
}  # fmt: skip
# What logs write for true and false.
WORDS_OF_LOGS = {"yes": "true", "1": "true", "no": "false", "0": "false"}
# A smaller time, rate or memory is a slip of the pen, and an error beside it has no size.
LEAST_MEASURED = 1e-12
# What no table can do without.
NEEDED = "a first line with the names of its columns, one of them for what was measured (such as measured_step_time)"
NO_MEASUREMENT = f"leave it out, or put it into 'notes'; what is compared: {', '.join(MEASURED)}"
# The columns of texts, which no prediction reads.
TEXTS = ("id", "group", "source", "source_ref", "network", "notes", LOG)
# The columns that hold several things, separated by semicolons.
LISTS = ("set", "open", "not_modeled")
OWN = (*TEXTS, *WORDS, *LISTS, *MEASURED)
# What a row may give: every quantity that is not a rule.
Parameters = Mapping[str, Quantity]


# What may not stand in a table, as it is a result that no measurement is compared with; and results that runs are given.
INPUTS = {"number_of_steps", "goodput_fraction", "number_of_parameters", "active_parameters", "largest_microbatch_size"}
RESULT = {*RESULTS, *OPTIONAL_RESULTS} - INPUTS
# How other characters of a head are read.
SPELLED = str.maketrans({**dict.fromkeys(" -/().", "_"), "%": "_percent_"})


class Head(NamedTuple):
    """The head of a column: as it is written, the column that it means, and the unit of a bare number below it."""

    written: str
    column: str
    unit: str | None = None


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
        texts: the filled cells of columns for people and of columns that hold one of a few words, by column.
        settings: parameters and rows of lookup tables by name, in the form of `--set`.
        open: parameters that the source leaves open, so that amped chooses them.
        facts: the features of the run that amped does not model, with their values.
        measured: the measured values by quantity, in canonical units.
    """

    line: int
    texts: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[dict[str, Any], ...]:
        """The mappings of a row, each from names to the values of its cells: texts, settings, facts and measured values."""
        return self.texts, self.settings, self.facts, self.measured

    def place(self, *columns: str) -> str:
        """The line and some columns of the row, in words for messages."""
        return f"line {self.line}, {_column_words(columns)}"


def read_table(path: str | Path | None, quantities: Catalogue) -> list[Row]:
    """The rows of a table; by default, of the table that comes with amped.

    Args:
        path: a file of comma-separated values; None for amped's own table.
        quantities: the catalogue, in which columns are looked up.

    Raises:
        FileError: if the file is missing or is not a table; ConfigError: with all problems, by line and column.
    """
    parameters = {
        name: quantity
        for name, quantity in quantities.items()
        if quantity.mark.kind != "records" and not quantity.mark.constrains
    }
    text, label = (shipped_text(FOLDER, SHIPPED), SHIPPED) if path is None else (read_text(Path(path)), str(path))
    (_, heads), *lines = _lines(text, label) or [(1, [])]
    header = [_head(name, parameters) for name in heads]
    problems = [*_header_problems(header, parameters)]
    problems += [_length_problem(line, cells, header) for line, cells in lines if len(cells) != len(header)]
    rows: list[Row] = []
    if not problems:
        rows = [_row(line, [*zip(header, cells, strict=True)], parameters, problems) for line, cells in lines]
        problems += _id_problems(rows)
    if problems:
        raise ConfigError(problems, file=label)
    return rows


def _lines(text: str, label: str) -> list[tuple[int, list[str]]]:
    """The cells of each line that is not blank, after the number of the line in which they begin.

    Raises:
        FileError: with the line, for text that is not a table of comma-separated values.
    """
    lines, line = [], 1
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    # The library refuses a long cell without its column, so that `_read_cell` refuses it.
    earlier_limit = csv.field_size_limit(len(text) + 1)
    try:
        for cells in reader:
            lines.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        what = f"line {line}: is no table of comma-separated values: {error}"
        raise FileError(what, "put text with commas or quotation marks in quotation marks", label) from None
    finally:
        csv.field_size_limit(earlier_limit)
    return [(line, cells) for line, cells in lines if cells]


def shipped_cells(blank: bool = False) -> Iterator[dict[str, str]]:
    """The cells of each row of amped's own table, as they are written, by column; without empty cells, unless `blank`."""
    for cells in csv.DictReader(io.StringIO(shipped_text(FOLDER, SHIPPED), newline="")):
        yield {column: cell for column, cell in cells.items() if cell or blank}


@lru_cache(maxsize=1)
def other_heads() -> dict[str, dict[str, str]]:
    """For each other spelling of a head, as in logs: the column that it means, and the unit of a bare number, if it has one."""
    heads: dict[str, dict[str, str]] = shipped_json("validation", "heads.json")["heads"]
    return heads


def _head(written: str, parameters: Parameters) -> Head:
    """The column that a head means.

    A head may have capitals, spaces or signs, and may be AMPeD's or another tool's name. An unknown head stays as it is.
    """
    name = written.strip()
    lower_name = name.casefold().replace(" ", "_").replace("-", "_")
    spelling = "_".join(filter(None, name.casefold().translate(SPELLED).split("_")))
    if name in (*OWN, *FACTS) or lower_name in (*OWN, *FACTS):
        return Head(name, name if name in (*OWN, *FACTS) else lower_name)
    if (known_head := other_heads().get(spelling)) is not None:
        return Head(written=name, column=known_head["column"], unit=known_head.get("unit"))
    columns = (n for n in (name, lower_name) if n in parameters or n in ROW_NAMES or n in aliases().settings)
    return Head(name, next(columns, aliases().canonical(name)))


def _header_problems(header: list[Head], parameters: Parameters) -> Iterator[Problem]:
    """The problems with the first line: no heads, no measured quantity, results, unknown columns, and columns that stand twice."""
    names = (*OWN, *FACTS, *ROW_NAMES, *(name for name in parameters if name not in RESULT), *aliases().settings)
    columns = [head.column for head in header]
    if not header:
        yield Problem("the table is empty", "line 1", f"a table needs {NEEDED}, as `amped validate --template` prints")
    elif not {*columns} & {*ANSWERS}:
        yield Problem("no column says what was measured", "line 1", f"add one of {', '.join(MEASURED)}")
    for name in dict.fromkeys(filter(None, columns)):
        where = f"line 1, {_column_words([name])}"
        if name in RESULT:
            yield Problem(f"'{name}' is a result, and no measurement is compared with it", where, NO_MEASUREMENT)
        elif name not in names:
            hint = did_you_mean(name, names) or "`amped validate --template` and `amped list parameters` show them"
            yield Problem(f"unknown column {quoted(name)}", where, hint)
    for name, times in Counter(head.written for head in header if head.column).items():
        if times > 1:
            yield Problem(
                f"the column {quoted(name)} stands {times} times", f"line 1, {_column_words([name])}", "keep one"
            )


def _column_words(names: Sequence[str]) -> str:
    """The words `column 'a'`, or `columns 'a' and 'b'`."""
    return f"column{'s' * (len(names) > 1)} {' and '.join(map(quoted, names))}"


def _length_problem(line: int, cells: Sequence[str], header: Sequence[Head]) -> Problem:
    """The problem with a line that has more or fewer cells than the header."""
    where = f"line {line}, {_column_words([head.column for head in header[: len(cells)][-1:]])}"
    what = f"has not as many cells as the header: {len(cells)}, and not {len(header)}"
    return Problem(what, where, "put cells with commas in quotation marks")


def _id_problems(rows: Sequence[Row]) -> Iterator[Problem]:
    """A problem for each id that several rows have."""
    for name, times in Counter(row.texts.get("id", "") for row in rows).items():
        if name and times > 1:
            lines = " and ".join(str(row.line) for row in rows if row.texts.get("id") == name)
            where = f"lines {lines}, column 'id'"
            yield Problem(f"the id {quoted(name)} stands {times} times", where, "give each its own")


def _row(line: int, cells: Sequence[tuple[Head, str]], parameters: Parameters, problems: list[Problem]) -> Row:
    """The row of one line. The problems with its cells are added to `problems`."""
    row, cell_problems = Row(line), list[Problem]()
    for head, cell in cells:
        with collected(cell_problems, row.place(head.column)):
            if written := cell.strip():
                cell_row = Row(line)
                _read_cell(cell_row, head, written, parameters)
                _add(row, cell_row, parameters)
    problems += cell_problems or _row_problems(row, [head.column for head, _ in cells])
    return row


def _add(row: Row, cell_row: Row, parameters: Parameters) -> None:
    """Adds what one cell says to its row.

    Args:
        row: the row so far.
        cell_row: a row of the one cell alone.
        parameters: the quantities that a cell may set.

    Raises:
        ConfigError: if two cells give one name different values.
    """
    row.open.extend(cell_row.open)
    for values, new_values in zip(row.parts, cell_row.parts, strict=True):
        for name, value in new_values.items():
            if name in values and _canonical(name, values[name], parameters) != _canonical(name, value, parameters):
                problem = f"'{name}' is given twice: {values[name]} and {value}"
                raise ConfigError(problem, "keep the right one of the two columns, or of the column and 'set'")
            values.setdefault(name, value)


def _canonical(name: str, value: Any, parameters: Parameters) -> Any:
    """The value of a parameter in its canonical unit and spelling; of any other name, the value itself."""
    return read_value(parameters[name], value) if name in parameters else value


def _read_cell(row: Row, head: Head, cell: str, parameters: Parameters) -> None:
    """Reads one cell into the row, as its column needs.

    Raises:
        ConfigError: for a column without a name, or a wrong cell.
    """
    column = head.column
    if not column:
        raise ConfigError("the column has no name", "give it one in line 1")
    if len(cell) > LONGEST_CELL:
        raise ConfigError(f"the cell has {len(cell)} characters", f"{LONGEST_CELL} is the most; close quotation marks")
    if column in MEASURED:
        row.measured[MEASURED[column][0]] = _measured_value(head, cell)
    elif column in WORDS:
        row.texts[column] = _one_of(WORDS_OF_LOGS.get(cell.casefold(), cell.casefold()), WORDS[column], "word")
    elif column in TEXTS:
        row.texts[column] = cell
    elif column in FACTS and column not in parameters:
        row.facts[column] = checked(column, cell)
    elif column not in LISTS:
        _set_parameter(row, column, cell, parameters)
    else:
        for part in filter(None, map(str.strip, cell.split(";"))):
            _read_part(row, column, part, parameters)


def _measured_value(head: Head, cell: str) -> float:
    """The measured value in the canonical unit of its quantity; a utilization may be in percent.

    Raises:
        ConfigError: for a value that cannot have been measured.
    """
    column, unit = head.column, MEASURED[head.column][1]
    if column == UTILIZATION:
        number_text = cell.removesuffix(PERCENT).strip()
        share = parse(setting(number_text), unit) / (100 if number_text != cell or head.unit == PERCENT else 1)
        if share > 1:
            raise ConfigError(f"a utilization of {cell} is above 1", "write 35 % or 0.35")
        return share
    number = parse(setting(cell), unit, head.unit or unit)
    if number < LEAST_MEASURED and column in (*PACES, "measured_memory_bytes"):
        raise ConfigError(f"{cell} cannot have been measured", "check the value and its unit")
    return number


def _read_part(row: Row, column: str, part: str, parameters: Parameters) -> None:
    """Reads one part of a cell of several parts into the row.

    Args:
        row: the row.
        column: one of LISTS.
        part: a name for `open`, else NAME=VALUE.
        parameters: the quantities that a cell may set.

    Raises:
        ConfigError: for an unknown name, or a part without a value.
    """
    name, equals, written = map(str.strip, part.partition("="))
    if column == "open":
        row.open.append(_one_of(part, OPEN, "parameter that can be open"))
    elif not (equals and written):
        raise ConfigError(f"{quoted(part)} is not NAME=VALUE", "for example dropout=0.1; causal=false")
    elif column == "not_modeled":
        fact = _fact(name, parameters)
        row.facts[fact] = checked(fact, written)
    else:
        if name not in aliases().settings:
            name = _one_of(aliases().canonical(name), (*ROW_NAMES, *parameters), "parameter")
        _set_parameter(row, name, written, parameters)


def _fact(name: str, parameters: Parameters) -> str:
    """The name of a feature that amped does not model.

    Raises:
        ConfigError: for an unknown name; one that is nearly a parameter belongs into the column `set`.
    """
    hint = (
        "" if name in FACTS else did_you_mean(name, [parameter for parameter in parameters if parameter not in FACTS])
    )
    if hint:
        raise ConfigError(f"unknown fact {quoted(name)}", f"{hint} A parameter belongs into the column 'set'")
    return _one_of(name, tuple(FACTS), "fact")


def _set_parameter(row: Row, name: str, cell: str, parameters: Parameters) -> None:
    """Sets a parameter or the name of a table's row, as `--set` reads and checks it.

    Raises:
        ConfigError: for a result, a wrong value, or a parameter that has a value already.
    """
    if name in RESULT:
        raise ConfigError(f"'{name}' is a result, and not what a run is given", NO_MEASUREMENT)
    settings = {name: cell} if name in ROW_NAMES else aliases().given(name, setting(cell))
    for parameter, value in settings.items():
        if parameter in row.settings:
            raise ConfigError(f"'{parameter}' is given twice", "once as a column, or once in 'set'")
        row.settings[parameter] = value
        if parameter in parameters:
            read_value(parameters[parameter], value)


def _row_problems(row: Row, columns: Iterable[str]) -> Iterator[Problem]:
    """The problems of a row as a whole: nothing measured, parameters both given and open, degrees that do not fit the accelerators.

    Args:
        row: the row.
        columns: the columns of the table.
    """
    if not row.measured and LOG not in row.texts and row.texts.get("ran_out_of_memory") != "true":
        where = row.place(*dict.fromkeys(name for name in columns if name in ANSWERS))
        yield Problem("nothing was measured", where, f"fill one of {', '.join(PACES)} or measured_memory_bytes")
    for name in {*row.open} & {*row.settings}:
        yield Problem(f"'{name}' is given and open", row.place("open", name), "leave it out of 'open', or its value")
    counts = {name: parse(row.settings[name], "1") for name in (ACCELERATORS, *DEGREES) if name in row.settings}
    accelerators = counts.pop(ACCELERATORS, None)
    product = math.prod(counts.values())
    if accelerators and (accelerators != product if DATA in counts else accelerators % product):
        degrees = " x ".join(f"{size:g}" for size in counts.values())
        what = f"degrees of {degrees} do not give {accelerators:g} accelerators"
        advice = f"{' x '.join(DEGREES)} is {ACCELERATORS}; a blank degree is 1, but a blank {DATA} is what is left"
        yield Problem(what, row.place(ACCELERATORS, *counts), advice)


def _one_of(written: str, choices: tuple[str, ...], what: str) -> str:
    """The written word, if it is one of the choices.

    Raises:
        ConfigError: for another word, with the nearest choice.
    """
    if written in choices:
        return written
    advice = (
        f"it is one of {', '.join(choices)}" if len(choices) <= len(FACTS) else "`amped list parameters` shows them"
    )
    raise ConfigError(f"unknown {what} {quoted(written)}", did_you_mean(written, choices) or advice)
