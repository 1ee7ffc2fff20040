"""Traces of PyTorch's profiler: JSON in Chrome's trace-event format, as `export_chrome_trace` writes it, also packed by gzip.

Format: "Trace Event Format", Google; pytorch/kineto, libkineto/src/output_json.cpp. Times are microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from amped.base.errors import FileError, Problem
from amped.interop.traces.assembling import Ran, assembled
from amped.interop.traces.host import Calls
from amped.interop.traces.json_stream import values
from amped.interop.traces.marks import categories
from amped.interop.traces.trace import Floats, Integers, Trace

EVENTS, SOURCE = "traceEvents", "PyTorch's profiler"
MICROSECOND = 1e-6
# The events that last, and those of a moment.
LASTS, MOMENT, MEMORY = "X", "i", "[memory]"
# What else a file tells that is used here.
HEADS = ("distributedInfo", "deviceProperties")


class _Interned(dict[Any, int]):
    """Values, each with its place in the order in which they came."""

    def __missing__(self, key: Any) -> int:
        """The place of a new value."""
        self[key] = len(self)
        return self[key]


class _Columns:
    """The events of a file, in columns: those of devices, the calls of the host, and memory."""

    def __init__(self) -> None:
        self.names, self.shapes, self.threads = _Interned(), _Interned(), _Interned()
        self.device: tuple[array[Any], ...] = tuple(array(code) for code in "qddq")
        self.host: tuple[array[Any], ...] = tuple(array(code) for code in "qqddqqqq")
        self.memory: tuple[array[Any], ...] = tuple(array(code) for code in "dd")
        self.heads: dict[str, Any] = {}
        self.events = 0
        self.kinds = {kind: categories(kind) for kind in ("device", "launch", "operator", "range")}

    def add(self, event: Mapping[str, Any]) -> None:
        """Takes an event; one of a kind that is not needed is left out."""
        self.events += 1
        phase, arguments = event.get("ph"), event.get("args") or {}
        if phase == LASTS:
            category = str(event.get("cat", "")).lower()
            kind = next((kind for kind, names in self.kinds.items() if category in names), "")
            if kind:
                self._lasts(event, kind, arguments)
        elif phase == MOMENT and event.get("name") == MEMORY and "Total Allocated" in arguments:
            _put(self.memory, float(event["ts"]), float(arguments["Total Allocated"]))

    def _lasts(self, event: Mapping[str, Any], kind: str, arguments: Mapping[str, Any]) -> None:
        """Takes an event that lasts."""
        name, start = str(event.get("name", "")), float(event["ts"])
        end = start + float(event.get("dur") or 0.0)
        if kind == "device":
            told = arguments.get("Collective name")
            name = f"{name} {told}" if told else name
            _put(self.device, self.names[name], start, end, int(arguments.get("correlation", -1)))
            return
        shape = arguments.get("Input Dims") or arguments.get("Input dims")
        records = arguments.get("Sequence number", -1) >= 0 and arguments.get("Fwd thread id", 0) == 0
        _put(
            self.host,
            self.names[name],
            self.threads[event.get("pid"), event.get("tid")],
            start,
            end,
            int(records),
            -1 if not shape else self.shapes[str(shape)],
            int(arguments.get("correlation", -1)) if kind == "launch" else -1,
            int(kind == "range"),
        )


def _put(columns: tuple[array[Any], ...], *values: float) -> None:
    """Appends a value to each column."""
    for column, value in zip(columns, values, strict=True):
        column.append(value)


def read_kineto(path: Path) -> Trace:
    """The trace of a file.

    Raises:
        FileError: if the file is no such trace, is cut off, or has nothing that ran.
    """
    columns = _Columns()
    for name, value in values(path, EVENTS):
        if name == EVENTS and isinstance(value, dict):
            try:
                columns.add(value)
            except (KeyError, TypeError, ValueError) as error:
                wrong = f"event {columns.events} is damaged: {error.__class__.__name__} {error}"
                raise FileError(Problem(wrong, EVENTS), file=str(path)) from None
        elif name in HEADS:
            columns.heads[name] = value
    if not columns.events:
        raise FileError(Problem("it has no trace events", EVENTS, "give a file of export_chrome_trace"), file=str(path))
    return _trace(columns, path)


def _trace(columns: _Columns, path: Path) -> Trace:
    """The trace of all events."""
    info, cards = columns.heads.get("distributedInfo") or {}, columns.heads.get("deviceProperties") or []
    starts = [np.frombuffer(column, float) for column in (columns.host[2], columns.device[1]) if len(column)]
    first = min((float(column.min()) for column in starts), default=0.0)
    name, start, end, number = columns.device
    return assembled(
        path,
        SOURCE,
        rank=int(info.get("rank", -1)),
        ranks=int(info.get("world_size", 0)),
        device=str(cards[0].get("name", "")) if cards else "",
        names=list(columns.names),
        shapes=list(columns.shapes),
        calls=_calls(columns, first),
        ran=Ran(_integers(name), _seconds(start, first), _seconds(end, first), _integers(number)),
        memory=(_seconds(columns.memory[0], first), np.array(columns.memory[1], float)),
    )


def _seconds(column: array[Any], first: float) -> Floats:
    """The moments of a column, in seconds since the first event."""
    return (np.frombuffer(column, float) - first) * MICROSECOND if len(column) else np.empty(0)


def _integers(column: array[Any]) -> Integers:
    """A column of places or numbers."""
    return np.array(column, np.int64)


def _calls(columns: _Columns, first: float) -> Calls:
    """The calls of the host."""
    name, thread, start, end, *others = columns.host
    graph, shape, launch, ranges = map(_integers, others)
    times = _seconds(start, first), _seconds(end, first)
    return Calls(_integers(name), _integers(thread), *times, graph=graph, shape=shape, launch=launch, range=ranges)
