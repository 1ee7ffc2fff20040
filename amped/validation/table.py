"""The table of measurements, and its only reader: a row is one config of amped and what was measured with it.

A column is a parameter, a row of a lookup table (`model`, `system`, …), or one of the columns below. The cell of a
parameter is read as `--set` would read it, with units and choices. Blank cells get the defaults of the named rows.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import AmpedError, ConfigError, FileError, Problem, did_you_mean, quoted
from amped.base.files import read_text
from amped.base.units import parse
from amped.configuring.gathering import ROW_NAMES
from amped.configuring.settings import setting
from amped.configuring.values import read_value
from amped.drafting.open_cells import OPEN
from amped.theory.catalogue import Catalogue, Quantity
from amped.validation.facts import FACTS

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
# The columns that say how long a step takes; a row has at most one of them.
PACES = tuple(MEASURED)[:3]
CONFIDENCES, STEP, LAYER = ("high", "medium", "low"), "training_step", "layer"
# The columns that hold one of a few words.
WORDS = {
    "confidence": CONFIDENCES, "kind": (STEP, LAYER), "assume": ("fastest", "default"), "ran_out_of_memory": ("true", "false"), "fitted": ("true", "false"),
    "memory_reading": ("allocated", "reserved", "device"), "memory_rank": ("first", "last", "fullest"),
}  # fmt: skip
# The columns for people, which no prediction reads.
TEXTS = ("id", "group", "source", "source_ref", "network", "notes")
# The columns that hold several things, separated by semicolons.
LISTS = ("set", "open", "not_modeled")
OWN = (*TEXTS, *WORDS, *LISTS, *MEASURED)
# What a row may give: every quantity that is not a rule.
Parameters = Mapping[str, Quantity]


# Other names of columns that are no parameters.
HEADS = {"model_name": "network", "measured_step_time_s": "measured_step_time"}


@dataclass(frozen=True)
class Row:
    """One row of a table of measurements.

    Attributes:
        line: the number of the line in the file, for messages.
        texts: the filled cells of columns for people and of columns that hold one of a few words.
        settings: parameters and rows of lookup tables by name, in the form of `--set`.
        open: parameters that the source leaves open, so that amped chooses them.
        facts: what the run did that amped does not model.
        measured: what was measured, in SI units.
    """

    line: int
    texts: Mapping[str, str]
    settings: Mapping[str, Any]
    open: tuple[str, ...]
    facts: Mapping[str, str]
    measured: Mapping[str, float]


def read_table(path: str | Path | None, known: Catalogue) -> list[Row]:
    """The rows of a table; by default, of the table that comes with amped.

    Raises:
        FileError: if the file is missing or is not a table; ConfigError: with all problems, by line and column.
    """
    parameters = {n: q for n, q in known.items() if q.mark.kind != "records" and not q.mark.constrains}
    text, label = (shipped_text(SHIPPED), SHIPPED) if path is None else (read_text(Path(path)), str(path))
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        header = reader.fieldnames = [_canonical(name, parameters) for name in reader.fieldnames or []]
        lines = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        told = f"is no table of comma-separated values after line {reader.line_num}: {error}"
        raise FileError(told, "put text with commas or quotation marks in quotation marks", label) from None
    problems = list(_header_problems(header, parameters))
    problems += [_ragged(line) for line, cells in lines if None in cells or None in cells.values()]
    if problems:
        raise ConfigError(problems, file=label)
    drafts = [_Draft(line, cells, parameters) for line, cells in lines]
    problems = [problem for draft in drafts for problem in draft.problems]
    problems += _same_ids(drafts)
    if problems:
        raise ConfigError(problems, file=label)
    return [draft.row() for draft in drafts]


def shipped_text(name: str) -> str:
    """A file that comes with amped's tables."""
    return resources.files("amped.lookup_tables").joinpath(name).read_text("utf-8")


def shipped_cells() -> Iterator[dict[str, str]]:
    """The filled cells of each row of amped's own table, by column, as they are written."""
    for cells in csv.DictReader(io.StringIO(shipped_text(SHIPPED), newline="")):
        yield {column: cell for column, cell in cells.items() if cell}


def _canonical(head: str, parameters: Parameters) -> str:
    """The column that a head means.

    It may have capitals, spaces or hyphens, and may be a former or another tool's name.
    """
    name = head.strip()
    plain = name.casefold().replace(" ", "_").replace("-", "_")
    known = (each for each in (name, plain) if each in OWN or each in parameters or each in ROW_NAMES)
    return next(known, HEADS.get(plain) or aliases().canonical(name))


def _header_problems(header: list[str], parameters: Parameters) -> Iterator[Problem]:
    if not header:
        yield Problem("the table is empty", advice="`amped validate --template` prints a header and a row")
    elif not set(header) & {*MEASURED, "ran_out_of_memory"}:
        yield Problem("no column says what was measured", "header", f"add one of {', '.join(MEASURED)}")
    for name in filter(None, header):
        if name not in OWN and name not in ROW_NAMES and name not in parameters:
            hint = (
                did_you_mean(name, [*OWN, *ROW_NAMES, *parameters])
                or "`amped validate --template` and `amped list parameters` show them"
            )
            yield Problem(f"unknown column {quoted(name)}", "header", hint)
    for name, times in Counter(filter(None, header)).items():
        if times > 1:
            yield Problem(f"the column {quoted(name)} stands {times} times", "header", "keep one")


def _same_ids(drafts: Iterable[_Draft]) -> Iterator[Problem]:
    lines: dict[str, list[int]] = {}
    for draft in drafts:
        lines.setdefault(draft.texts.get("id", ""), []).append(draft.line)
    for name, places in lines.items():
        if name and len(places) > 1:
            where = f"lines {' and '.join(map(str, places))}, column 'id'"
            yield Problem(f"the id {quoted(name)} stands {len(places)} times", where, "give each its own")


def _ragged(line: int) -> Problem:
    return Problem("has not as many cells as the header", f"line {line}", "put cells with commas in quotation marks")


@dataclass
class _Draft:
    """A row that is being read: what is known about it so far, and its problems."""

    line: int
    cells: Mapping[str, str]
    parameters: Parameters
    texts: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        for column, cell in ((name, (text or "").strip()) for name, text in self.cells.items()):
            if cell:
                try:
                    self._take(column, cell)
                except AmpedError as error:
                    where = f"line {self.line}, column '{column}'"
                    self.problems += [Problem(p.what, where, p.advice) for p in error.problems]
        self._check()

    def row(self) -> Row:
        """The row; only for a draft without problems."""
        return Row(self.line, self.texts, self.settings, tuple(self.open), self.facts, self.measured)

    def _take(self, column: str, cell: str) -> None:
        """Reads a cell according to its column."""
        if column in MEASURED:
            self.measured[MEASURED[column][0]] = parse(setting(cell), MEASURED[column][1])
        elif column in WORDS:
            self.texts[column] = _one_of(cell.casefold(), WORDS[column], "word")
        elif column in TEXTS:
            self.texts[column] = cell
        elif column not in LISTS:
            self._set(column, cell)
        else:
            for part in filter(None, (part.strip() for part in cell.split(";"))):
                self._take_part(column, part)

    def _take_part(self, column: str, part: str) -> None:
        """Reads one part of a cell that holds several."""
        name, equals, written = (each.strip() for each in part.partition("="))
        if column == "open":
            self.open.append(_one_of(part, OPEN, "parameter that can be open"))
        elif not (equals and written):
            raise ConfigError(f"{quoted(part)} is not NAME=VALUE", "for example dropout=0.1; causal=false")
        elif column == "not_modeled":
            self.facts[self._fact(name)] = written
        else:
            self._set(_one_of(aliases().canonical(name), (*ROW_NAMES, *self.parameters), "parameter"), written)

    def _fact(self, name: str) -> str:
        """The name of a fact that amped does not model; what amped models is a parameter, and belongs into `set`."""
        near = "" if name in FACTS else did_you_mean(name, [each for each in self.parameters if each not in FACTS])
        if near:
            raise ConfigError(f"unknown fact {quoted(name)}", f"{near} A parameter belongs into the column 'set'")
        return _one_of(name, tuple(FACTS), "fact")

    def _set(self, name: str, cell: str) -> None:
        """Takes the value of a parameter, checked as `--set` checks it; or the name of a row."""
        if name in self.settings:
            raise ConfigError(f"'{name}' is given twice", "once as a column, or once in 'set'")
        self.settings[name] = cell if name in ROW_NAMES else setting(cell)
        if name in self.parameters:
            read_value(self.parameters[name], self.settings[name])

    def _check(self) -> None:
        """Checks the rules for a whole row."""
        paces = [column for column in PACES if MEASURED[column][0] in self.measured]
        if len(paces) > 1:
            self._refuse(f"{' and '.join(paces)} are both given", "keep the one that was printed, the other follows")
        if not self.problems and not self.measured and self.texts.get("ran_out_of_memory") != "true":
            self._refuse("nothing was measured", f"fill one of {', '.join(PACES)} or measured_memory_bytes")
        for name in set(self.open) & set(self.settings):
            self._refuse(f"'{name}' is given and open", "leave it out of 'open', or its value")

    def _refuse(self, what: str, advice: str) -> None:
        self.problems.append(Problem(what, f"line {self.line}", advice))


def _one_of(written: str, choices: tuple[str, ...], what: str) -> str:
    """The choice that was written.

    Raises:
        ConfigError: if it is none of the choices, with the nearest one.
    """
    if written in choices:
        return written
    few = f"it is one of {', '.join(choices)}" if len(choices) <= len(FACTS) else "`amped list parameters` shows them"
    raise ConfigError(f"unknown {what} {quoted(written)}", did_you_mean(written, choices) or few)
