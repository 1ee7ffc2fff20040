"""Kernels that a file holds: rows in the columns of amped's tables, and how many rows are left out, by the reason."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from amped.measured_kernels.kinds import KINDS, NAME_OF_KIND
from amped.measured_kernels.table_reading import MeasuredKernels, grouped

LATENCY_ONLY = "payloads of 1 MiB or less: their time is the latency"
# What a driver calls an accelerator begins with its vendor; amped's tables do not.
VENDOR = re.compile(r"^(NVIDIA|AMD Instinct|AMD) ")


@dataclass
class FoundRows:
    """The rows that a reader finds in a file.

    Attributes:
        tool: what wrote the file, in words.
        rows: for each kind of kernel, its rows by the columns of amped's tables.
        left: how many rows were left out, by the reason.
    """

    tool: str
    rows: dict[str, list[dict[str, object]]] = field(default_factory=lambda: defaultdict(list))
    left: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, **cells: object) -> None:
        """Adds a row of a kind of kernel: its cells by the columns of amped's tables."""
        self.rows[kind].append(cells)

    def leave(self, why: str, number: int = 1) -> None:
        """Counts rows that are left out, by the reason."""
        self.left[why] += number

    def kernels(self) -> list[MeasuredKernels]:
        """The rows as measured kernels, grouped by what ran them.

        Collectives that measure only the latency are counted as left out.
        """
        kernels: list[MeasuredKernels] = []
        for kind, rows in self.rows.items():
            columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
            kernels_of_kind = list(grouped(columns, KINDS[kind]))
            self.leave(LATENCY_ONLY, len(rows) - sum(map(len, kernels_of_kind)))
            kernels += kernels_of_kind
        return kernels


@dataclass(frozen=True)
class FileRead:
    """A file of measured kernels: what was read of it, and what was left out.

    Attributes:
        file: its path.
        tool: what wrote it, in words.
        kernels: what was read.
        left: how many rows were left out, by the reason.
        own: whether the file is a table of amped's own form.
    """

    file: str
    tool: str
    kernels: tuple[MeasuredKernels, ...]
    left: Mapping[str, int]
    own: bool = False

    def read(self) -> dict[str, int]:
        """The number of rows of each kind of kernel."""
        numbers = Counter[str]()
        for kernels in self.kernels:
            numbers[NAME_OF_KIND[id(kernels.kind)]] += len(kernels)
        return dict(numbers)

    def __str__(self) -> str:
        read = ", ".join(f"{number:,} {kind}" for kind, number in self.read().items()) or "nothing"
        lines = [f"{self.file}: {self.tool}: {read} read"]
        return "\n".join([*lines, *(f"    {number:,} left out: {why}" for why, number in self.left.items())])

    def to_dict(self) -> dict[str, object]:
        """The file as plain data for JSON: its path, its tool, and the numbers of rows that were read and left out."""
        return {"file": self.file, "tool": self.tool, "read": self.read(), "left_out": dict(self.left)}


def without_vendor(device: str) -> str:
    """The name of a device without its vendor, as the tables of accelerators have it."""
    return VENDOR.sub("", device.strip())
