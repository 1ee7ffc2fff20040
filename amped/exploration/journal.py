"""The file of findings: its first line holds the request, and each further line a finished part.

Lines are only added. A process that is killed therefore leaves all that it finished, and at most an incomplete last
line. A checkpoint is such a file, and so is the result of a shard, which is merged later.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import IO, Any

from amped.base.errors import FileError, Problem
from amped.base.files import refusals_told
from amped.base.record import dataclass
from amped.exploration.identity import differences, identity, plain, told
from amped.exploration.request import Request
from amped.exploration.results import Finding

FORMAT = "amped findings 2"
SUM = "sum"
# No part has a longer line; a file with one is none that amped wrote.
LONGEST_LINE = 16_000_000
# Seconds between two waits for the disk. A power cut may lose the parts of so many seconds, a killed process none.
SYNC_INTERVAL = 1.0
MOST_DIFFERENCES = 12
WRITTEN_BY = "give one that --resume or --shard of `amped explore` wrote"


@dataclass
class Findings:
    """The content of a file: its first line, the finding of each part, and where the last whole line ends.

    The checksum of the first line is the `start` of those of all others: a line of another file is noticed.
    """

    header: Mapping[str, Any]
    found: dict[int, Finding] = field(default_factory=dict)
    seconds: float = 0.0
    end: int = 0
    start: int = 0


def header(request: Request, parts: int, shard: tuple[int, int]) -> dict[str, Any]:
    """The first line of a file of findings."""
    scope = {"parts": parts, "shard": f"{shard[0]}/{shard[1]}"}
    return {"format": FORMAT, "asked": plain(identity(request)) | scope, "told": told(request)}


def read_findings(path: Path) -> Findings:
    """Reads a file of findings.

    Raises:
        FileError: if the file cannot be read, is not a file of findings, or is damaged before its last line.
    """
    with refusals_told("read", path):
        _refuse_devices(path.stat(), str(path))  # before it is opened: to open a pipe may wait for ever
        with path.open("rb") as stream:
            return _read(stream, str(path))


def _read(stream: IO[bytes], file: str) -> Findings:
    first = stream.readline(LONGEST_LINE)
    top = _line(first)
    if top.get("format") != FORMAT or not {"asked", "told"} <= top.keys():
        raise FileError("is not a file of findings", WRITTEN_BY, file)
    findings, torn = Findings(top, end=len(first), start=zlib.crc32(first)), 0
    for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), 2):
        if torn:
            raise FileError(Problem("is damaged", f"line {torn}", "explore again, into another file"), file=file)
        entry = _line(line, findings.start)
        try:
            part, seconds, found = int(entry["part"]), float(entry["seconds"]), Finding.from_dict(entry["found"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            torn = number
            continue
        findings.found[part] = found
        findings.seconds += seconds
        findings.end += len(line)
    return findings


def _refuse_devices(about: os.stat_result, file: str) -> None:
    """Refuses a device or a pipe: to read from one may take for ever."""
    if not stat.S_ISREG(about.st_mode):
        raise FileError("is no regular file", WRITTEN_BY, file)


def _line(line: bytes, start: int = 0) -> dict[str, Any]:
    """The entry of a whole line; nothing for a line that is incomplete, changed, or of a file with another first line."""
    with contextlib.suppress(ValueError):
        entry = json.loads(line)
        if isinstance(entry, dict) and line == _written(entry, start):
            return entry
    return {}


def _written(entry: Mapping[str, Any], start: int = 0) -> bytes:
    """An entry as a line, which ends with the checksum of all that stands before."""
    text = json.dumps({name: value for name, value in entry.items() if name != SUM}, separators=(",", ":"))
    return f'{text[:-1]},"{SUM}":"{zlib.crc32(text.encode(), start):08x}"}}\n'.encode()


class Journal:
    """An open file of findings, to which finished parts are added."""

    def __init__(self, path: Path, stream: IO[bytes], findings: Findings) -> None:
        self.path, self.findings = path, findings
        self._stream, self._synced = stream, time.monotonic()

    def add(self, part: int, found: Finding, seconds: float) -> None:
        """Adds a finished part.

        Raises:
            FileError: if the disk is full; the file then ends with the part before.
        """
        self.write(_written({"part": part, "seconds": seconds, "found": found.to_dict()}, self.findings.start))

    def write(self, line: bytes) -> None:
        """Adds a line, as a whole or not at all."""
        with refusals_told("written", self.path, "what was finished before is in it: make room, then --resume it"):
            try:
                written = 0
                while written < len(line):
                    written += self._stream.write(line[written:]) or 0
                if time.monotonic() - self._synced > SYNC_INTERVAL:
                    self.sync()
            except OSError:
                with contextlib.suppress(OSError):
                    self._stream.truncate(self.findings.end)
                raise
        self.findings.end += len(line)

    def sync(self) -> None:
        """Waits until the lines are on the disk."""
        os.fsync(self._stream.fileno())
        self._synced = time.monotonic()


@contextmanager
def journal(path: Path, top: Mapping[str, Any]) -> Iterator[Journal]:
    """Opens the file of findings, which is new and gets this first line, or is continued.

    Raises:
        FileError: if it cannot be written, if another run writes to it, or if it belongs to another request.
    """
    with refusals_told("written", path, "choose another file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(handle, "r+b", buffering=0) as stream:
        _refuse_devices(os.fstat(stream.fileno()), str(path))
        _lock(stream, path)
        opened = _continued(stream, path, top)
        try:
            yield opened
        finally:
            with contextlib.suppress(OSError):
                opened.sync()


def _continued(stream: IO[bytes], path: Path, top: Mapping[str, Any]) -> Journal:
    begun, first = stream.read(1 << 20), _written(top)
    is_new = len(begun) < len(first) and first.startswith(begun)  # empty, or killed while it began
    findings = Findings(top, start=zlib.crc32(first)) if is_new else read_findings(path)
    refuse_other(findings.header["asked"], top["asked"], path)
    stream.seek(findings.end)
    stream.truncate()
    opened = Journal(path, stream, findings)
    if is_new:
        opened.write(first)
    return opened


def refuse_other(there: Mapping[str, Any], here: Mapping[str, Any], path: Path) -> None:
    """Refuses to mix findings of different requests.

    Raises:
        FileError: with all that differs.
    """
    unequal = differences(there, here)
    if unequal:
        more = [f"and {len(unequal) - MOST_DIFFERENCES} more"] if len(unequal) > MOST_DIFFERENCES else []
        lines = "\n    ".join(["", *unequal[:MOST_DIFFERENCES], *more])
        raise FileError(f"has the findings of another exploration:{lines}",
                        "ask the same as there, or choose another file", str(path))  # fmt: skip


def _lock(stream: IO[bytes], path: Path) -> None:
    """Keeps other runs from writing, if the system can do this."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise FileError("another run writes to it", "wait for it, or choose another file", str(path)) from None
