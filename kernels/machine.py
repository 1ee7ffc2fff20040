"""The machine of a result in terms of amped's tables: peaks and bandwidth that its coefficients are shares of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amped.base.errors import ConfigError, did_you_mean
from amped.base.units import parse
from amped.kernels.formats import FORMATS, MEASURED
from amped.kernels.results import Result
from amped.kernels.specs import Record
from amped.measured_kernels.bench_results import accelerator_name, processor_name
from amped.tables.tables import Tables

ACCELERATORS = "accelerator_specifications"
FLOPS_OF_A_MAC = 2


@dataclass(frozen=True)
class Machine:
    """An accelerator with a row, or a processor without one.

    Attributes:
        name: the name of the row.
        known: whether a table has this row.
        peaks: flop/s of products, by torch's formats.
        vector_rate: flop/s of all other operations.
        bandwidth: byte/s of the memory.
        cores: the number of cores that tiles are distributed to; 1 if there are no tiles.
        power: the watts that its datasheet allows; infinite if they are not known.
        multipliers: the multiply-accumulates of a core in a cycle.
    """

    name: str
    known: bool
    peaks: Mapping[str, float]
    vector_rate: float
    bandwidth: float
    cores: float
    power: float = float("inf")
    multipliers: float = 1.0

    @property
    def is_processor(self) -> bool:
        """Whether this is a processor: its products have no tiles that are distributed to cores."""
        return self.cores == 1


def machine_of(result: Result, tables: Tables, named: str | None = None, known_ones: bool = False) -> Machine:
    """The machine of a result: the named row, or the row of its device, or a description of a processor by its records.

    The row of a processor, which an earlier fit wrote, is used only if it is named or `known_ones` is true.

    Raises:
        TableError: for an unknown row; ConfigError: for a GPU without a row.
    """
    device, name = result["device"], named or accelerator_name(result)
    has_row = named is not None or tables.has(ACCELERATORS, name)
    if device["kind"] == "cpu" and named is None and not (known_ones and has_row):
        return _processor(result)
    if has_row:
        return _of_row(tables, name)
    near = did_you_mean(name, tables.names(ACCELERATORS))
    raise ConfigError(f"no row of {ACCELERATORS} is of {device['name']!r}", f"name one with --accelerator; {near}")


def _of_row(tables: Tables, name: str) -> Machine:
    """The machine that a row of accelerators describes. Without a vector rate, it is 1/16 of the bf16 peak."""
    row = tables.row(ACCELERATORS, name)

    def number(column: str, unit: str, default: float = 0.0) -> float:
        value = row.columns.get(column)
        return parse(value, unit) if value is not None else default

    peaks = {dtype: number(FORMATS[dtype].peak, "flop/s") for dtype in MEASURED}
    vector = number("vector_flop_rate", "flop/s", peaks["bfloat16"] / 16)
    cores = number("number_of_cores", "count", 1.0)
    multipliers = number("functional_units_per_core", "count", 1.0) * number("mac_per_cycle_per_unit", "1", 1.0)
    power = number("thermal_design_power", "W", float("inf"))
    return Machine(name=row.name, known=True, peaks=peaks, vector_rate=vector, bandwidth=number("memory_bandwidth", "byte/s"),
                   cores=cores, power=power, multipliers=multipliers)  # fmt: skip


def _processor(result: Result) -> Machine:
    """The machine of a processor without a row.

    Its peaks come from instructions and clock, but are at least the measured rates; its bandwidth is that of the
    fastest copy.
    """
    device, records = result["device"], result["records"]
    clock, lanes = device.get("clock_mhz", {}).get("core"), device.get("mac_per_cycle")
    threads = result["host"].get("threads") or 1
    peak = FLOPS_OF_A_MAC * lanes * clock * 1e6 * threads if clock and lanes else 0.0
    best = {
        d: max((_rate(r, "flop") for r in records if r["dtype"] == d and r["kernel"] == "gemm"), default=0.0)
        for d in MEASURED
    }
    copied = max((_rate(r, "bytes") for r in records if r["kernel"] == "copy"), default=0.0)
    peaks = {dtype: max(peak, rate) for dtype, rate in best.items() if rate}
    for amount, kernel, quantity in ((copied, "copy", "bandwidth"), (peaks, "product (gemm)", "peak")):
        if not amount:
            raise ConfigError(f"the result has no {kernel}, and a processor's {quantity} is not known otherwise",
                              "measure a suite with a longer --budget, not one kernel")  # fmt: skip
    return Machine(name=processor_name(result), known=False, peaks=peaks, vector_rate=peak or max(peaks.values()),
                   bandwidth=copied, cores=1.0)  # fmt: skip


def _rate(record: Record, amount: str) -> float:
    """The operations ("flop") or the bytes ("bytes") of a record per second of its least time."""
    return float(record[amount] / record["time_s"]["min"])
