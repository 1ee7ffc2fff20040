"""Traces of Nsight Systems: the SQLite file that `nsys export --type sqlite` writes, each of its processes a trace.

Format: NVIDIA, Nsight Systems User Guide, "SQLite Schema Reference". Tables exist only if they have entries; times are
nanoseconds. Ranges are those of NVTX, which PyTorch writes for each operator under `torch.autograd.profiler.emit_nvtx`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from amped.base.errors import FileError, Problem
from amped.interop.traces.assembling import Ran, assembled
from amped.interop.traces.host import Calls
from amped.interop.traces.trace import Floats, Integers, Trace

SOURCE, BEGINNING = "Nsight Systems", b"SQLite format 3\0"
NANOSECOND = 1e-9
KERNELS, COPIES, FILLS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
LAUNCHES, RANGES, TEXTS, CARDS = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds", "TARGET_INFO_GPU"
# The kinds of copies. Source: CUPTI, CUpti_ActivityMemcpyKind.
COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
# The ranges of NVTX: of a thread, and of a process. Source: the schema, ENUM_NSYS_EVENT_TYPE.
RANGE_TYPES = (59, 60)
# What a number of a thread has beside that of its process. Source: the schema, "Serialized process and thread identifiers".
THREAD_BITS = 24
# What PyTorch adds to the name of an operator. Source: pytorch, torch/csrc/profiler/standalone/nvtx_observer.cpp.
ADDED = re.compile(r", (?:op_id|seq|sizes|input_op_ids) = .*", re.DOTALL)
RECORDED, NODE = ", seq = ", re.compile(r"Backward\d*$")
Row = tuple[Any, ...]


def read_nsight(path: Path) -> list[Trace]:
    """The traces of a file.

    Raises:
        FileError: if the file is no such export, is damaged, or has no kernels.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return _traces(file, path)
    except sqlite3.Error as error:
        raise FileError(
            Problem(f"is a damaged SQLite file: {error}", advice="export it again"), file=str(path)
        ) from None


def _traces(file: sqlite3.Connection, path: Path) -> list[Trace]:
    """The trace of each process that ran kernels."""
    tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if TEXTS not in tables:
        raise FileError(Problem(f"is no export of Nsight Systems: it has no table {TEXTS}"), file=str(path))
    texts: dict[int, str] = dict(file.execute(f"SELECT id, value FROM {TEXTS}"))
    cards = [str(name) for (name,) in _rows(file, CARDS, "name")] if CARDS in tables else [""]
    ran, called = [*_ran(file, tables, texts)], [*_called(file, tables, texts)]
    if not ran:
        raise FileError(Problem("has no kernels", advice="record them: nsys profile --trace=cuda,nvtx"), file=str(path))
    first = min(start for *_, start, _ in ran)
    processes = dict.fromkeys(process for process, *_ in ran)
    return [
        _trace(
            [row for row in ran if row[0] == process],
            [row for row in called if row[0] == process],
            first,
            cards[0],
            path,
        )
        for process in processes
    ]


def _rows(file: sqlite3.Connection, table: str, *columns: str) -> Iterator[Row]:
    """Columns of a table; a column that this version does not have is NULL."""
    present = {name for _, name, *_ in file.execute(f"PRAGMA table_info({table})")}
    yield from file.execute(f"SELECT {', '.join(name if name in present else 'NULL' for name in columns)} FROM {table}")


def _ran(file: sqlite3.Connection, tables: set[str], texts: Mapping[int, str]) -> Iterator[Row]:
    """What devices ran: process, name, number of the launch, begin, end."""
    times = "globalPid", "correlationId", "start", "end"
    for process, number, start, end, name in _rows(file, KERNELS, *times, "demangledName") if KERNELS in tables else ():
        yield (process or 0) >> THREAD_BITS, texts.get(name, str(name)), number, start, end
    for process, number, start, end, kind in _rows(file, COPIES, *times, "copyKind") if COPIES in tables else ():
        yield (process or 0) >> THREAD_BITS, f"Memcpy {COPY_KINDS.get(kind, kind)}", number, start, end
    for process, number, start, end in _rows(file, FILLS, *times) if FILLS in tables else ():
        yield (process or 0) >> THREAD_BITS, "Memset", number, start, end


def _called(file: sqlite3.Connection, tables: set[str], texts: Mapping[int, str]) -> Iterator[Row]:
    """What the host called: process, name, thread, whether autograd records it, number of the launch, begin, end."""
    for thread, number, start, end, name in (
        _rows(file, LAUNCHES, "globalTid", "correlationId", "start", "end", "nameId") if LAUNCHES in tables else ()
    ):
        plain = re.sub(r"_v\d+$", "", texts.get(name, str(name)))
        yield thread >> THREAD_BITS, plain, thread, 0, number, start, end
    for thread, start, end, text, place, kind in (
        _rows(file, RANGES, "globalTid", "start", "end", "text", "textId", "eventType") if RANGES in tables else ()
    ):
        if end is not None and kind in RANGE_TYPES:
            written = str(text or texts.get(place, ""))
            name = ADDED.sub("", written)
            yield (
                thread >> THREAD_BITS,
                name,
                thread,
                int(RECORDED in written and not NODE.search(name)),
                -1,
                start,
                end,
            )


def _trace(ran: list[Row], called: list[Row], first: int, device: str, path: Path) -> Trace:
    """The trace of a process."""
    first = min([first, *(start for *_, start, _ in called)])
    names = {name: place for place, name in enumerate(dict.fromkeys(row[1] for row in (*ran, *called)))}

    def seconds(moments: list[int]) -> Floats:
        return np.array([moment - first for moment in moments], float) * NANOSECOND

    def integers(numbers: list[int]) -> Integers:
        return np.array(numbers, np.int64)

    calls = Calls(
        name=integers([names[row[1]] for row in called]),
        thread=integers([row[2] for row in called]),
        start=seconds([row[5] for row in called]),
        end=seconds([row[6] for row in called]),
        graph=integers([row[3] for row in called]),
        shape=np.full(len(called), -1),
        launch=integers([row[4] for row in called]),
        range=np.zeros(len(called), np.int64),
    )
    columns = (
        integers([names[row[1]] for row in ran]),
        seconds([row[3] for row in ran]),
        seconds([row[4] for row in ran]),
    )
    return assembled(
        path, SOURCE, rank=-1, ranks=0, device=device, names=list(names), shapes=(), calls=calls,
        ran=Ran(*columns, integers([row[2] for row in ran])), memory=(np.empty(0), np.empty(0)),
    )  # fmt: skip
