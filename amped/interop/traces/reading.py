"""Files of traces: which profiler wrote each, and one trace for each process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from amped.base.errors import FileError, Problem
from amped.base.files import is_folder, refusals_told
from amped.interop.traces.kineto import read_kineto
from amped.interop.traces.nsight import BEGINNING, read_nsight
from amped.interop.traces.trace import Trace

ENDINGS, UNREADABLE = (".json", ".json.gz", ".sqlite"), (".nsys-rep", ".qdrep")


def read_traces(paths: Sequence[Path]) -> list[Trace]:
    """The traces of files, or of all such files in folders, in the order of their processes.

    Raises:
        FileError: for a file that is no trace, is damaged, or is of a process that another one is of, too.
    """
    traces = sorted((trace for path in _files(paths) for trace in _read(path)), key=lambda trace: trace.rank)
    ranks = [trace.rank for trace in traces if trace.rank >= 0]
    for trace in traces:
        if ranks.count(trace.rank) > 1:
            twice = f"process {trace.rank} has {ranks.count(trace.rank)} files"
            raise FileError(Problem(twice, advice="give one file of each process"), file=trace.file)
    return traces


def _read(path: Path) -> list[Trace]:
    """The traces of a file, by whichever profiler wrote it.

    Raises:
        FileError: for a file that is no trace or is damaged.
    """
    with refusals_told("read", path), path.open("rb") as file:
        beginning = file.read(len(BEGINNING))
    if path.suffix in UNREADABLE:
        raise FileError(
            Problem("is a report of Nsight Systems", advice=f"nsys export --type sqlite {path}"), file=str(path)
        )
    return read_nsight(path) if beginning == BEGINNING else [read_kineto(path)]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files, and of folders the files that have the name of a trace.

    Raises:
        FileError: for a folder without such a file.
    """
    for path in paths:
        if not is_folder(path):
            yield path
            continue
        inside = sorted(file for file in path.iterdir() if file.name.endswith(ENDINGS))
        if not inside:
            raise FileError(Problem(f"has no file {' or '.join(ENDINGS)}", advice="name the files"), file=str(path))
        yield from inside
