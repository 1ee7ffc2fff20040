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
from amped.interop.traces.host import Calls, pieces, placed
from amped.interop.traces.json_stream import values
from amped.interop.traces.marks import categories, marks
from amped.interop.traces.stepping import found_steps
from amped.interop.traces.trace import Floats, Integers, Trace, Work

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
    names, shapes = list(columns.names), list(columns.shapes)
    calls, first = _calls(columns)
    work = _work(columns, calls, names, first) if len(columns.device[0]) else pieces(calls, names)
    if not len(work.start):
        raise FileError(
            Problem("it has neither kernels nor operators", EVENTS, "record the device or the processor (activities)"),
            file=str(path),
        )
    info, cards = columns.heads.get("distributedInfo") or {}, columns.heads.get("deviceProperties") or []
    on_device = bool(len(columns.device[0]))
    return Trace(
        file=str(path),
        source=SOURCE,
        rank=int(info.get("rank", -1)),
        ranks=int(info.get("world_size", 0)),
        device=str(cards[0].get("name", "an accelerator")) if on_device and cards else "an accelerator" * on_device,
        names=names,
        shapes=shapes,
        work=work,
        waits=_ranges(calls, names, "waits", launches=True),
        loading=_ranges(calls, names, "loading"),
        steps=found_steps(calls, names, work, on_device, path),
        memory=(_seconds(columns.memory[0], first), np.frombuffer(columns.memory[1], float)),
    )


def _seconds(column: array[Any], first: float) -> Floats:
    """The moments of a column, in seconds since the first event."""
    return (np.frombuffer(column, float) - first) * MICROSECOND if len(column) else np.empty(0)


def _calls(columns: _Columns) -> tuple[Calls, float]:
    """The calls of the host, and the moment of the first event in microseconds."""
    starts = [np.frombuffer(column, float) for column in (columns.host[2], columns.device[1]) if len(column)]
    first = min((float(column.min()) for column in starts), default=0.0)
    name, thread, start, end, *others = columns.host
    integers = [np.array(column, np.int64) for column in (name, thread, *others)]
    return Calls(integers[0], integers[1], _seconds(start, first), _seconds(end, first), *integers[2:]), first


def _work(columns: _Columns, calls: Calls, names: list[str], first: float) -> Work:
    """The kernels and copies of a device, each with the operator that launched it."""
    name, start, end, number = columns.device
    order = np.argsort(np.frombuffer(start, float), kind="stable")
    inside = np.array(placed(calls, names, lambda *_: None), np.int64).reshape(-1, 4)
    launches = np.flatnonzero(calls.launch >= 0)
    launches = launches[np.argsort(calls.launch[launches], kind="stable")]
    at = _found(calls.launch[launches], np.array(number, np.int64)[order])
    call = np.where(at >= 0, launches[at] if len(launches) else -1, -1)
    where = np.vstack([inside, [-1, 0, 0, -1]])[call]
    return Work(
        start=_seconds(start, first)[order],
        end=_seconds(end, first)[order],
        name=np.array(name, np.int64)[order],
        operator=where[:, 0],
        part=where[:, 2],
        launched=np.append(calls.end, np.nan)[call],
        shape=where[:, 3],
    )


def _found(ordered: Integers, wanted: Integers) -> Integers:
    """The places of numbers in an ordered list; -1 for those that are not in it."""
    place = np.searchsorted(ordered, wanted)
    is_in = (place < len(ordered)) & (wanted >= 0)
    is_in[is_in] = ordered[place[is_in]] == wanted[is_in]
    return np.where(is_in, place, -1)


def _ranges(calls: Calls, names: list[str], mark: str, launches: bool = False) -> tuple[Floats, Floats]:
    """The begins and ends of the calls with a mark; with `launches` only calls of the runtime."""
    has = np.array([marks(mark)(name) for name in names], bool)
    which = has[calls.name] & ((calls.launch >= 0) if launches else (calls.launch < 0)) if len(names) else has
    return calls.start[which], calls.end[which]
