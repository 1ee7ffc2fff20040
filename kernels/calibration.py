"""A machine's coefficients from a result file: family after family, each with its guard rails and its honest error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amped.kernels.error_groups import Stratum, strata
from amped.kernels.fitting import FEWEST_RECORDS, Bounds, fitted
from amped.kernels.link_fit import CollectiveTime, Links, linked
from amped.kernels.machine import Machine
from amped.kernels.predicting import (
    SUSTAINED,
    Array,
    Record,
    Samples,
    family_of,
    measured_time,
    predicted,
    samples,
)
from amped.kernels.results import Result
from amped.kernels.specs import FAMILIES, sentinel
from amped.kernels.unfused_costs import work_of

ABOVE_SPEC = 1.05
# Bytes, more than a core has a cache of its own for.
MOST_CACHED = 16e6
DOUBTFUL = ("unsettled",)
# Share of a family's records that must be of a quiet machine for the others to be left out: more than coefficients need.
QUIET_SHARE = 1 / 3
COMPUTING = ("contraction", "batched_contraction", "grouped_contraction", "fused_attention")
Told = Callable[[str], None]


@dataclass
class Calibration:
    """What a result tells of a machine.

    Attributes:
        values: coefficients by their columns of kernel_efficiencies, in SI units; `fitted` those of them that were, the
            others follow from what the machine is; `defaults` those they stand on.
        strata: errors of each family, whole and by size; `refused` families with too few clean records, and why.
        layouts: time of products in each layout over what was predicted, relative to TN.
        network: what collectives told of the links between processes.
    """

    machine: Machine
    values: dict[str, float] = field(default_factory=dict)
    fitted: list[str] = field(default_factory=list)
    defaults: Mapping[str, float] = field(default_factory=dict)
    strata: list[Stratum] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, float] = field(default_factory=dict)
    network: Links | None = None

    @property
    def coefficients(self) -> dict[str, float]:
        """All coefficients: fitted ones, and for the others those of the row they stand on."""
        return {**self.defaults, **self.values}


def calibrated(
    result: Result,
    machine: Machine,
    defaults: Mapping[str, float],
    tell: Told = lambda _: None,
    collective_time: CollectiveTime | None = None,
) -> Calibration:
    """Fits what the records tell; a family with fewer than eight clean ones keeps the defaults, and that is told."""
    found = Calibration(machine, defaults=dict(defaults))
    if machine.is_processor:
        found.values |= {"wave_quantization": 0.0, "medium_tile_efficiency": 1.0, "small_tile_efficiency": 1.0,
                         "smallest_tile_efficiency": 1.0, "exposed_operand_fraction": 1.0}  # fmt: skip
    _launches(found, result)
    clean = [r for r in result["records"] if not set(DOUBTFUL) & set(r.get("flags", ()))]
    by_kind = samples(_undisturbed(clean, result), result["settings"]["statistic"], result["device"]["kind"])
    for name, bounds in _families(result, machine):
        own = [s for s in by_kind if s.family == name]
        tell(f"{name}: {sum(map(len, own))} records")
        _fit(found, name, own, bounds, result)
    _link(found, result, collective_time)
    return found


def _link(found: Calibration, result: Result, collective_time: CollectiveTime | None) -> None:
    """Links from collectives, where there are enough of them."""
    made = linked(result, collective_time) if collective_time is not None else None
    if isinstance(made, str):
        found.refused["collectives"] = made
    elif made is not None:
        found.network = made
        found.strata += made.strata
        # A step's latency has both in it.
        found.values |= {"collective_overhead_time": 0.0, "inter_accelerator_ramp_bytes": 0.0}


def _families(result: Result, machine: Machine) -> list[tuple[str, Bounds]]:
    """Families in the order in which they are fitted: later ones stand on what earlier ones told."""
    processor = machine.is_processor
    tiles: Bounds = (
        {"gemm_ramp_rows": (0.0, 128.0), "cached_operand_bytes": (0.0, MOST_CACHED)} if processor
        else {"medium_tile_efficiency": (0.5, 1.0), "small_tile_efficiency": (0.3, 1.0), "smallest_tile_efficiency": (0.2, 1.0)}
    )  # fmt: skip
    formats = dict.fromkeys(r["dtype"] for r in result["records"] if r["kernel"] in ("gemm", "fp8_gemm"))
    streams: Bounds = {"memory_bandwidth_efficiency": (0.05, ABOVE_SPEC), "bandwidth_ramp_bytes": (0.0, 10e6)}
    products = [
        (f"products {dtype}", {SUSTAINED[dtype]: (0.02, ABOVE_SPEC), "gemm_ramp_depth": (0.0, 1024.0), **tiles})
        for dtype in formats
    ]
    rows: Bounds = {
        "normalization_bandwidth_fraction": (0.05, ABOVE_SPEC),
        **(_vector(result, machine) if processor else {}),
    }
    attention: Bounds = {"attention_forward_efficiency": (0.01, 1.0), "attention_backward_efficiency": (0.01, 1.0),
                         "attention_ramp_length": (0.0, 4096.0)}  # fmt: skip
    return [("streaming", streams), *products, ("row by row", rows), ("attention", attention)]


def _vector(result: Result, machine: Machine) -> Bounds:
    """What paces a processor's kernels beside memory: its units, elementary functions, and random numbers if any are drawn.

    Source of the bounds: a hundred cycles at 1 GHz for the one, a thousand for the other.
    """
    work = [work_of(r, "cpu") for r in result["records"] if r["kernel"] in FAMILIES]
    drawing: Bounds = {"random_number_time": (0.0, 1e-6)} if any(w.drawn for w in work) else {}
    functions: Bounds = {"elementary_function_time": (0.0, 1e-7)} if any(w.functions for w in work) else {}
    return {"vector_flop_rate": (0.001 * machine.vector_rate, machine.vector_rate), **functions, **drawing}


def _launches(found: Calibration, result: Result) -> None:
    """Overheads: a call in a graph and an eager one; on a processor both are the same."""
    statistic = result["settings"]["statistic"]
    times = {r["params"]["mode"]: measured_time(r, statistic) for r in result["records"] if r["kernel"] == "launch"}
    if "eager" in times:
        found.values["kernel_launch_time"] = times["eager"]
        found.values["kernel_overhead_time"] = times.get("graph", times["eager"])


def _undisturbed(clean: Sequence[Record], result: Result) -> list[Record]:
    """Of each family the records of a quiet machine, where they are enough; else the others too, as they would be there."""
    families: dict[str, list[Record]] = {}
    for record in clean:
        if record["kernel"] in FAMILIES:
            families.setdefault(family_of(record), []).append(record)
    kept: list[Record] = []
    for own in families.values():
        quiet = [r for r in own if "throttled" not in r.get("flags", ())]
        enough = len(quiet) >= max(FEWEST_RECORDS, QUIET_SHARE * len(own))
        kept += quiet if enough else [_normalized(r, result) for r in own]
    return kept


def _normalized(record: Record, result: Result) -> Record:
    """A product or an attention beside which the sentinel's product was slow, as it would be at its best.

    Clocks and neighbors slow computing down; the time for bytes that the sentinel's product does not move is left as it is.
    """
    computes = FAMILIES[record["kernel"]].kind in COMPUTING
    if "throttled" not in record.get("flags", ()) or "gemm_tflops_beside" not in record or not computes:
        return record
    beside = [r["gemm_tflops_beside"] for r in result["records"] if "gemm_tflops_beside" in r]
    beyond = max(0.0, record["bytes"] - sentinel("cpu")[0].bytes) if result["device"]["kind"] == "cpu" else 0.0
    streams = beyond / (1e9 * max((s["copy_gbs"] for s in result["sentinels"]), default=np.inf))
    moving = min(1.0, streams / measured_time(record, result["settings"]["statistic"]))
    ratio = moving + (1 - moving) * record["gemm_tflops_beside"] / max(beside)
    return {**record, "time_s": {name: v * ratio if name != "n" else v for name, v in record["time_s"].items()}}


def _fit(found: Calibration, name: str, own: Sequence[Samples], bounds: Bounds, result: Result) -> None:
    count = sum(map(len, own))
    if count < FEWEST_RECORDS:
        if count:
            found.refused[name] = f"{count} clean records, and a fit needs {FEWEST_RECORDS}: the defaults stay"
        return
    bounds = {column: limits for column, limits in bounds.items() if column not in found.values}
    base, times = found.coefficients, np.concatenate([s.times for s in own])

    def model(columns: Mapping[str, Array]) -> Array:
        parts = [predicted(s, {**base, **columns}, found.machine) for s in own]
        rows = max(p.shape[0] if p.ndim > 1 else 1 for p in parts)
        return np.concatenate([np.broadcast_to(p, (rows, len(s))) for p, s in zip(parts, own, strict=True)], axis=1)

    told = fitted(model, times, bounds)
    found.values |= told.values
    found.fitted += list(told.values)
    records = [r for s in own for r in s.records]
    found.strata += strata(name, records, told, result["device"]["kind"])
    if name.startswith("products"):
        found.layouts |= layouts(records, told.errors)


def layouts(records: Sequence[Record], errors: Array) -> dict[str, float]:
    """Measured over predicted time by layout, as a factor of that of TN; for what has all three."""
    ratios: dict[str, list[float]] = {}
    for record, error in zip(records, errors, strict=True):
        ratios.setdefault(str(record["params"]["layout"]), []).append(-float(np.log1p(error)))
    means = {name: float(np.mean(values)) for name, values in ratios.items()}
    return {name: float(np.exp(mean - means["TN"])) for name, mean in means.items()} if "TN" in means else {}


def as_json(found: Calibration) -> dict[str, Any]:
    """The calibration as the result file keeps it."""
    return {
        "machine": found.machine.name, "coefficients": found.values, "refused": found.refused, "layout": found.layouts,
        "errors": [vars(s) for s in found.strata], "network": found.network and found.network.as_plain(),
    }  # fmt: skip
