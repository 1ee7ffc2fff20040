"""A log, read line by line: which framework wrote it, its steps, and the most memory that it names.

The file is never held as a whole, so that a log of any size takes the memory of its steps.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any

from amped.base.errors import FileError, Problem, quoted
from amped.base.files import shipped_json
from amped.base.record import dataclass
from amped.interop.logs.columns import Columns, columns_of, exports, steps_of_table

# A line is read in pieces of this many characters, so that a log without ends of lines takes no more memory.
LONGEST = 1 << 20
ESCAPE, COLORS = "\x1b", re.compile(r"\x1b\[[0-9;]*m")
SECONDS, MILLISECONDS, TOKENS, SAMPLES, CLOCK = (
    "seconds", "milliseconds", "tokens a second of an accelerator", "samples a second", "clock",
)  # fmt: skip
# The characters at the begin of a log in which a framework prints its arguments, and by which a log is told from a table.
HEAD = 1_000_000
MOST_SHOWN = 60
# The pattern of a table, which has no lines of steps.
NEVER = re.compile(r"(?!)")
PATTERNS = ("step", "batch", "memory")


@dataclass(frozen=True)
class Format:
    """What the lines of a framework look like.

    Attributes:
        name: the framework.
        marker: a text that each line of a step has.
        measure: what the value of a step is: `SECONDS` and so on; of `CLOCK`, the time since the start.
        step: the pattern of such a line, with the number of the step and the value.
        skip: a text of lines that have the marker and are of no training step.
        batch: the pattern of the global batch size in such a line.
        memory_marker, memory, memory_unit: the same for the memory that an accelerator holds, and its bytes.
        memory_reading: what that memory is: reserved by the allocator, or allocated for tensors.
    """

    name: str
    marker: str
    measure: str
    step: re.Pattern[str]
    skip: str = ""
    batch: re.Pattern[str] | None = None
    memory_marker: str = ""
    memory: re.Pattern[str] | None = None
    memory_unit: float = 1.0
    memory_reading: str = "reserved"

    def memory_in(self, text: str) -> float:
        """The bytes that a line says an accelerator holds; 0.0 if it does not."""
        found = self.memory.search(text) if self.memory is not None and self.memory_marker in text else None
        return float(found[1]) * self.memory_unit if found else 0.0

    def value_of(self, step: re.Match[str]) -> float:
        """The value of a step; milliseconds and clocks in seconds."""
        if self.measure == CLOCK:
            return 3600.0 * int(step["hours"] or 0) + 60.0 * int(step["minutes"]) + int(step["seconds"])
        value = float(step["value"].replace(",", ""))
        return value / 1000 if self.measure == MILLISECONDS else value


@dataclass(frozen=True)
class Log:
    """The steps of a log as they stand in it.

    Attributes:
        format: the framework that wrote it.
        numbers, values, lines: of each step its number, its value and its line.
        memory_bytes: the most bytes that an accelerator held; 0.0 if no line says it.
        batches: the global batch sizes that lines of steps name, each once.
        cut: the line in which the log ends in the middle of a step; 0 if it does not.
    """

    format: Format
    numbers: array[int]
    values: array[float]
    lines: array[int]
    memory_bytes: float
    batches: tuple[int, ...]
    cut: int


@cache
def formats() -> tuple[Format, ...]:
    """The formats that are read, the surest first."""
    return tuple(_format(row) for row in shipped_json("interop.logs", "formats.json"))


def _format(row: dict[str, Any]) -> Format:
    """The format of a row; its source is for people."""
    told = {name: value for name, value in row.items() if name != "source"}
    patterns: dict[str, Any] = {name: re.compile(row[name]) for name in PATTERNS if name in row}
    return Format(**{**told, **patterns})


def read_log(path: Path) -> Log:
    """The steps of a log.

    Raises:
        FileError: with the line, for a file that is no log of a known framework, or whose lines of steps are damaged.
    """
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            if (columns := columns_of(file.readline(LONGEST))) is not None:
                return _of_table(file, columns)
            file.seek(0)
            known = _recognized(file)
            file.seek(0)
            return _steps(file, known)
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except FileError as error:
        raise FileError(error.problems, file=str(path)) from None


def _of_table(file: IO[str], columns: Columns) -> Log:
    """The steps of a table that a tool exported.

    Raises:
        FileError: with the line, for a damaged line or a table without steps.
    """
    read = steps_of_table((text for _, text in _pieces(file)), columns)
    if not read.numbers:
        raise FileError(Problem("no line tells of a training step", "line 1", f"export the steps of {columns.tool}"))
    known = Format(columns.tool, "", columns.measure, NEVER)
    return Log(known, read.numbers, read.values, read.lines, read.memory_bytes, (), read.cut)


def head_of(path: Path) -> str:
    """The characters at the begin of a log in which a framework prints its arguments."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(HEAD)
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", file=str(path)) from None


def is_log(path: Path) -> bool:
    """Whether a line in the first ones of a file tells of a training step."""
    head = head_of(path) if path.is_file() else ""
    return columns_of(head.partition("\n")[0]) is not None or any(
        known.marker in line and known.step.search(COLORS.sub("", line))
        for line in head.splitlines() for known in formats()
    )  # fmt: skip


def _pieces(file: IO[str]) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers; a progress bar that writes over its line gives a piece for each time."""
    number = 1
    for text in iter(lambda: file.readline(LONGEST), ""):
        if "\0" in text:
            raise FileError(
                Problem("it has bytes that are no text", f"line {number}", "give the log as the framework wrote it")
            )
        for piece in text.split("\r") if "\r" in text else (text,):
            yield number, piece
        number += text.endswith("\n")


def _recognized(file: IO[str]) -> Format:
    """The format of the first line that tells of a step.

    Raises:
        FileError: if no line tells of a step.
    """
    first = ""
    for _, text in _pieces(file):
        first = first or text.strip()
        for known in formats():
            if known.marker in text and known.step.search(COLORS.sub("", text)):
                return known
    names = ", ".join([*(known.name for known in formats()), *(f"{export.name} (CSV)" for export in exports())])
    problem = f"no line tells of a training step; it begins with {quoted(first[:MOST_SHOWN])}"
    raise FileError(Problem(problem, "line 1", f"amped reads logs of {names}"))


def _steps(file: IO[str], known: Format) -> Log:
    """All steps of a log of a format.

    Raises:
        FileError: with the line, if a line of a step cannot be read; the last line of a log may be cut.
    """
    numbers, values, lines = array("q"), array("d"), array("q")
    memory, batches, bar, cut, said = 0.0, dict[int, None](), "", 0, ""
    for line, text in _pieces(file):
        memory = max(memory, known.memory_in(text))
        if known.marker not in text or (known.skip and known.skip in text):
            continue
        plain = COLORS.sub("", text) if ESCAPE in text else text
        step = known.step.search(plain)
        if cut and (step is not None or known.measure != CLOCK):
            raise _damaged(known, cut)
        if step is None:
            cut = line if known.measure != CLOCK else 0  # other bars are no steps
            continue
        if known.measure == CLOCK:
            bar = bar or step["total"]
            if step["total"] != bar:  # the bar of an evaluation
                continue
        numbers.append(int(step["step"]))
        values.append(known.value_of(step))
        lines.append(line)
        if known.batch is not None and (not said or said not in plain) and (size := known.batch.search(plain)):
            batches[int(size[1])] = None
            said = plain[size.start() : size.end() + 1]  # with the sign after the number: most lines say the same
    return Log(known, numbers, values, lines, memory, tuple(batches), cut)


def _damaged(known: Format, line: int) -> FileError:
    """The error of a line of a step that cannot be read."""
    return FileError(
        Problem(f"the step of {known.name} in it is damaged", f"line {line}", "remove the line, or give the whole log")
    )
