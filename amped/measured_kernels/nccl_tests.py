"""Reads what `nccl-tests` prints: tables of collectives, one run below another, among the other lines of a log.

Source: NVIDIA/nccl-tests, src/util.cu (the columns), src/*.cu (what the sizes of a collective count), doc/PERFORMANCE.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from amped.base.errors import quoted
from amped.measured_kernels.found_rows import FoundRows, without_vendor
from amped.measured_kernels.kinds import BYTES, COLLECTIVES
from amped.measured_kernels.rows_of_tools import WRITE_AGAIN, placed

TOOL = "nccl-tests"
# What mpirun and srun write before each line of a process.
TAG = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:(?=[ \t]))")
HEAD = re.compile(r"^#\s*size\s+count\s+type\b")
RANK = re.compile(r"^#\s*Rank\s+\d+.*?\bon\s+(?P<host>\S+)\s+device\s+\d+\s+\[\S*\]\s*(?P<device>.*)")
STARTED = re.compile(r"\b(?P<name>[a-z]+(?:_[a-z]+)?)_perf(?:_mpi)?\b")
VERSION = re.compile(r"nccl-library=(\d+)|NCCL version (\d+(?:\.\d+)+)")
# A number of wrong results that is zero.
ZERO = re.compile(r"[+-]?[0.]+(e[+-]?\d+)?")
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


def is_own_format(text: str) -> bool:
    """Whether a text has a table of nccl-tests."""
    return "algbw" in text and any(HEAD.match(TAG.sub("", line).strip()) for line in text.splitlines())


def read(text: str, path: Path) -> FoundRows:
    """The collectives of a text; what amped cannot compare is counted as left out.

    Raises:
        FileError: for a damaged line, with its number.
    """
    collectives, named = FoundRows(TOOL), STARTED.search(path.stem)
    for number, words, run in _lines(text, named["name"] if named else None):
        with placed(f"line {number}", path, WRITE_AGAIN):
            size, kind, time = _measured(words, run)
        if why := run.left_because() or _left_because(words, run):
            collectives.leave(why)
            continue
        collectives.add(
            "collectives", accelerator=run.devices[0], nccl=run.version, collective=COLLECTIVES.get(str(run.collective), run.collective),
            element=kind, accelerators=len(run.devices), elements=int(size / BYTES[kind]), time_us=time,
        )  # fmt: skip
        collectives.leave(IN_PLACE)
    return collectives


def _lines(text: str, named: str | None) -> Iterator[tuple[int, list[str], Run]]:
    """The lines of measurements, each with its number, its words, and the run that it belongs to.

    Args:
        text: what nccl-tests has printed, perhaps among other lines.
        named: the collective that the file's name tells; None if it tells none.
    """
    run, started, version = Run(named, ""), named, ""
    for number, tagged in enumerate(text.splitlines(), 1):
        line = TAG.sub("", tagged).strip()
        if release := VERSION.search(line):
            version = release[2] or _release(release[1])
        if test := STARTED.search(line):
            started = test["name"]
        if line.startswith("# nThread"):
            run = Run(started, version)
        elif rank := RANK.match(line):
            run.hosts.append(rank["host"])
            run.devices.append(without_vendor(rank["device"]))
        elif HEAD.match(line):
            run.heads, run.version = line.lstrip("# ").split(), version or run.version
        elif line.startswith("# Avg bus bandwidth"):
            started = named
        elif run.heads and _is_measurement(line.split()):
            yield number, line.split(), run


def _release(code: str) -> str:
    """A version of NCCL as text: 22907 is 2.29.7. Source: NVIDIA/nccl, src/nccl.h.in (NCCL_VERSION)."""
    return f"{int(code) // 10000}.{int(code) // 100 % 100}.{int(code) % 100}"


def _is_measurement(words: list[str]) -> bool:
    """Whether a line belongs to a table of measurements.

    Such a line begins with a size and a number of elements, or has a type in the third column.
    """
    has_counts = len(words) > 1 and words[0].isdigit() and words[1].isdigit()
    return has_counts or (len(words) > 2 * MEASURED and words[2] in BYTES)


def _time_column(words: list[str], run: Run) -> int:
    """The place of the time among the words of a line; where a collective has no operator, that column may be blank."""
    place = run.heads.index("time") if "time" in run.heads else len(run.heads)
    is_blank = "redop" in run.heads and len(words) > 3 and not words[3].strip("-").isalpha()
    return place - is_blank


def _measured(words: list[str], run: Run) -> tuple[float, str, float]:
    """The bytes of the payload, the type of its elements, and the microseconds out of place.

    Raises:
        ValueError: if the line is cut, has words in place of numbers, or numbers that contradict one another.
    """
    time_column = _time_column(words, run)
    if len(words) < time_column + 2 * MEASURED:
        raise ValueError(f"ends after {len(words)} of {time_column + 2 * MEASURED} columns")
    size, _, time, bandwidth = map(_number, (*words[:2], *words[time_column : time_column + 2]))
    if size and (time <= 0 or abs(size / time / 1e3 - bandwidth) > ROUNDED + AGREEING * bandwidth):
        raise ValueError(f"{size:.0f} bytes in {time:g} us are not {bandwidth:g} GB/s")
    return size, words[2], time


def _left_because(words: list[str], run: Run) -> str | None:
    """Why amped cannot compare a line; None if it can."""
    wrong_results = words[_time_column(words, run) + MEASURED - 1]
    if wrong_results != "N/A" and not ZERO.fullmatch(wrong_results):
        return "wrong results"
    if words[2] not in BYTES:
        return f"elements of type {words[2]}"
    return None if float(words[0]) else "an empty payload"


def _number(word: str) -> float:
    """The number that a word writes.

    Raises:
        ValueError: if the word is no finite number.
    """
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{quoted(word)} is no number")
    return number
