"""Times of every operator of a layer in its layouts, on this device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from amped.base.errors import ConfigError, Problem, collected, did_you_mean
from amped.kernels.device import name_of, one_thread
from amped.kernels.formats import FORMATS, TRAINED
from amped.kernels.layer_shape import Dimensions
from amped.kernels.refusals import is_out_of_memory
from amped.kernels.tensor_layouts.bench_rows import Layouts, Room
from amped.kernels.tensor_layouts.graph import usable_rows
from amped.kernels.tensor_layouts.spec import LAYERS, Operator
from amped.kernels.tensor_layouts.table import Row, Table
from amped.kernels.tensor_layouts.variables import choice_of, row_layouts
from amped.kernels.timers import timer_for
from amped.kernels.timing import RECORD_TIME
from amped.kernels.torch_import import chosen_device, chosen_format, torch

# Seconds between two times at which the measured rows are kept.
KEEP_EVERY = 10.0
FORMATS_OF_A_LAYER = ("float64", *TRAINED)


@dataclass(frozen=True)
class Bench:
    """What to measure, and how.

    Attributes:
        every_row: whether rows that no whole layer can use are measured, too.
        budget: seconds for everything; each row has its share, but is called at least four times.
    """

    dimensions: Dimensions
    device: str = "cpu"
    dtype: str = "float32"
    dropout: float = 0.1
    attention: str = "explicit"
    every_row: bool = False
    budget: float = 60.0
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = list[Problem]()
        with collected(problems):
            chosen_device(self.device)
        with collected(problems):
            object.__setattr__(self, "dtype", chosen_format(self.dtype, "cpu", FORMATS_OF_A_LAYER))
        if not 0 <= self.dropout < 1:
            problems.append(Problem(f"dropout {self.dropout} is not in [0, 1)", advice="for example 0.1"))
        names = [operator.name for operator in LAYERS[self.attention]]
        problems += [
            Problem(f"there is no operator {n!r}", advice=did_you_mean(n, names)) for n in self.only if n not in names
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The operators to measure."""
        return tuple(o for o in LAYERS[self.attention] if not self.only or o.name in self.only)

    def rows(self) -> dict[str, list[Layouts]]:
        """The layouts to measure, by operator."""
        usable = usable_rows(self.attention)
        return {
            o.name: [lay for lay in row_layouts(o) if self.every_row or choice_of(o, lay) in usable[o.name]]
            for o in self.operators
        }


def run(
    bench: Bench, progress: Callable[[int, int], None] | None = None, before: Table | None = None,
    keep: Callable[[Table], object] | None = None,
) -> Table:  # fmt: skip
    """The table of measured rows.

    `progress` gets the number of rows that are done and the number of all rows, after each row. `keep` gets the table
    every few seconds. `before` has the rows of an earlier, interrupted run; only the other rows are measured.

    Raises:
        ConfigError: if rows of `before` are of another device, format or size, or if a tensor does not fit in memory.
    """
    with one_thread(bench.device), torch.no_grad():
        fresh = Table(bench.dimensions, about(bench))
        table = before.merged(fresh) if before else replace(fresh, measured={**fresh.measured, **ceilings(bench)})
        lacking = _lacking(bench.rows(), table)
        number_of_rows = len(table.rows) + sum(map(len, lacking.values()))
        room = Room(
            bench.dimensions,
            bench.device,
            bench.dtype,
            1.0 - bench.dropout,
            min(RECORD_TIME, bench.budget / number_of_rows),
        )
        room.remember(table.rows)
        last_kept = time.monotonic()
        for row in _measured(room, bench, lacking):
            table.rows.append(row)
            if keep and time.monotonic() - last_kept > KEEP_EVERY:
                keep(table)
                last_kept = time.monotonic()
            if progress:
                progress(len(table.rows), number_of_rows)
    return table


def _lacking(rows: dict[str, list[Layouts]], table: Table) -> dict[str, list[Layouts]]:
    """The layouts, by operator, for which a table has no row."""
    measured = {(row["op"], *row["layouts"].items()) for row in table.rows}
    return {name: [lay for lay in layouts if (name, *lay.items()) not in measured] for name, layouts in rows.items()}


def _measured(room: Room, bench: Bench, rows: dict[str, list[Layouts]]) -> Iterator[Row]:
    """The rows of these layouts, one operator after another.

    Raises:
        ConfigError: if an operator does not fit in memory.
    """
    for operator in bench.operators:
        try:
            if rows[operator.name]:
                yield from room.rows(operator, rows[operator.name])
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            what = f"{operator.name} of {bench.dimensions} does not fit in the memory of the {bench.device}"
            raise ConfigError(
                what, "time a smaller --batch; `amped layouts select --batch` says what the plan is for"
            ) from None


def about(bench: Bench) -> dict[str, Any]:
    """The description of a measurement: device, format, dropout, version of torch and date."""
    is_gpu = bench.device == "cuda"
    return {
        "device": name_of(bench.device),
        "device_type": bench.device,
        "threads": None if is_gpu else 1,
        "dtype": bench.dtype,
        "dropout": bench.dropout,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def ceilings(bench: Bench) -> dict[str, float]:
    """The device's peak rates: flop/s of a large square product and byte/s of a large copy, both measured.

    Tensors are as random as those of the operators: with equal numbers, a GPU draws less power and is up to an eighth
    faster than any operator can be.
    """
    options = {"dtype": getattr(torch, bench.dtype), "device": bench.device}
    side, length = (8192, 1 << 28) if bench.device == "cuda" else (1024, 1 << 24)
    a, b, out = (torch.empty(side, side, **options).normal_() for _ in range(3))
    source, target = (torch.empty(length, **options).normal_() for _ in range(2))
    timer, cap = timer_for(bench.device), min(0.5, bench.budget)
    product = timer.measure(lambda: torch.mm(a, b, out=out), cap).best(bench.device)
    copy = timer.measure(lambda: target.copy_(source), cap).best(bench.device)
    moved = 2 * length * FORMATS[bench.dtype].bytes
    return {"flop_rate": 2 * side**3 / product, "bandwidth": moved / copy}
