"""Reads what `nccl-tests` prints: tables of collectives, one run below another, among the other lines of a log.

Source: NVIDIA/nccl-tests, src/util.cu (the columns), src/*.cu (what the sizes of a collective count), doc/PERFORMANCE.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from amped.base.errors import FileError, Problem, quoted
from amped.measured_kernels.found_rows import FoundRows, without_vendor
from amped.measured_kernels.kinds import BYTES, COLLECTIVES

TOOL = "nccl-tests"
# What mpirun and srun write before each line of a process.
TAG = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:(?=[ \t]))")
HEAD = re.compile(r"^#\s*size\s+count\s+type\b")
RANK = re.compile(r"^#\s*Rank\s+\d+.*?\bon\s+(?P<host>\S+)\s+device\s+\d+\s+\[\S*\]\s*(?P<device>.*)")
STARTED = re.compile(r"\b(?P<name>[a-z]+(?:_[a-z]+)?)_perf(?:_mpi)?\b")
VERSION = re.compile(r"nccl-library=(\d+)|NCCL version (\d+(?:\.\d+)+)")
# The collectives that amped has laws of.
KNOWN = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
# Time, two bandwidths and wrong results, out of place and then in place.
MEASURED = 4
# Bandwidths are printed with two digits after the point, which ROUNDED allows for; beyond that, they may differ from size / time
# by the share AGREEING.
ROUNDED, AGREEING = 0.02, 0.02
IN_PLACE = "times in place: amped's laws of benchmarks are those of the column out of place"


@dataclass
class Run:
    """One run of a test.

    Attributes:
        collective: its name in nccl-tests, if the text says it.
        version: the version of NCCL, if the text says it.
        hosts, devices: the server and the device of each rank.
        heads: the names of the table's columns; empty before its first line.
    """

    collective: str | None
    version: str
    hosts: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    def left_because(self) -> str | None:
        """Why amped cannot compare this run; None if it can."""
        if self.collective is None:
            return "the text does not say which collective: name the file after it, all_reduce_perf.txt"
        if self.collective not in KNOWN:
            return f"{self.collective}: amped has laws of {', '.join(KNOWN)}"
        if len(self.devices) < 2:
            return "fewer than two lines '#  Rank …' say which accelerators took part"
        if len(set(self.devices)) > 1:
            return "different accelerators took part"
        several = len(set(self.hosts))
        return f"between {several} servers: amped compares collectives inside a server" if several > 1 else None


def fits(text: str) -> bool:
    """Whether a text has a table of nccl-tests."""
    return "algbw" in text and any(HEAD.match(TAG.sub("", line).strip()) for line in text.splitlines())


def read(text: str, path: Path) -> FoundRows:
    """The collectives of a text.

    Raises:
        FileError: for a damaged line, with its number.
    """
    found, named = FoundRows(TOOL), STARTED.search(path.stem)
    for number, words, run in _lines(text, named["name"] if named else None):
        size, kind, time = _measured(words, run, number, path)
        why = run.left_because() or _wrong(words, run) or (None if kind in BYTES else f"elements of type {kind}")
        if why is None and not size:
            why = "an empty payload"
        if why is not None:
            found.leave(why)
            continue
        found.add(
            "collectives", accelerator=run.devices[0], nccl=run.version, collective=COLLECTIVES.get(str(run.collective), run.collective),
            element=kind, accelerators=len(run.devices), elements=int(size / BYTES[kind]), time_us=time,
        )  # fmt: skip
        found.leave(IN_PLACE)
    return found


def _lines(text: str, named: str | None) -> Iterator[tuple[int, list[str], Run]]:
    """The lines of measurements: number, words, and the run that they belong to."""
    run, started, version = Run(named, ""), named, ""
    for number, line in enumerate(text.splitlines(), 1):
        own = TAG.sub("", line).strip()
        if told := VERSION.search(own):
            version = told[2] or _release(told[1])
        if told := STARTED.search(own):
            started = told["name"]
        if own.startswith("# nThread"):
            run = Run(started, version)
        elif told := RANK.match(own):
            run.hosts.append(told["host"])
            run.devices.append(without_vendor(told["device"]))
        elif HEAD.match(own):
            run.heads, run.version = own.lstrip("# ").split(), version or run.version
        elif own.startswith("# Avg bus bandwidth"):
            started = named
        elif run.heads and _is_row(own.split()):
            yield number, own.split(), run


def _release(code: str) -> str:
    """A version of NCCL as text: 22907 is 2.29.7. Source: NVIDIA/nccl, src/nccl.h.in (NCCL_VERSION)."""
    return f"{int(code) // 10000}.{int(code) // 100 % 100}.{int(code) % 100}"


def _is_row(words: list[str]) -> bool:
    """Whether a line is one of a table: it begins with a size and a number of elements, or has a type in their column."""
    counts = len(words) > 1 and words[0].isdigit() and words[1].isdigit()
    return counts or (len(words) > 2 * MEASURED and words[2] in BYTES)


def _first(words: list[str], run: Run) -> int:
    """The column of the time; where a collective has no operator, its column may be blank."""
    place = run.heads.index("time") if "time" in run.heads else len(run.heads)
    blank = "redop" in run.heads and len(words) > 3 and not words[3].strip("-").isalpha()
    return place - blank


def _measured(words: list[str], run: Run, number: int, path: Path) -> tuple[int, str, float]:
    """The bytes, the type of the elements and the microseconds of a line.

    Raises:
        FileError: with the line, if it is cut, has something else than numbers, or its numbers contradict one another.
    """
    first = _first(words, run)
    if len(words) < first + 2 * MEASURED:
        raise _damaged(f"ends after {len(words)} of {first + 2 * MEASURED} columns", number, path)
    try:
        size, _, time, bandwidth = int(words[0]), int(words[1]), float(words[first]), float(words[first + 1])
    except ValueError:
        told = next(word for word in (*words[:2], *words[first : first + 2]) if not _is_number(word))
        raise _damaged(f"{quoted(told)} is no number", number, path) from None
    if size and (time <= 0 or abs(size / time / 1e3 - bandwidth) > ROUNDED + AGREEING * bandwidth):
        raise _damaged(f"{size} bytes in {time:g} us are not {bandwidth:g} GB/s", number, path)
    return size, words[2], time


def _wrong(words: list[str], run: Run) -> str | None:
    """Why a line does not count: its results were wrong."""
    told = words[_first(words, run) + MEASURED - 1]
    return "wrong results" if told not in ("0", "N/A") and not (_is_number(told) and float(told) == 0) else None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _damaged(what: str, number: int, path: Path) -> FileError:
    """The error for a damaged line."""
    return FileError(Problem(what, f"line {number}", "write the line again, or take it out"), file=str(path))
