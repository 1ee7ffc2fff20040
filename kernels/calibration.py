"""Fits a machine's coefficients to a result file, family by family, with bounds and with errors on held-out records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amped.base.files import shipped_json
from amped.kernels.error_groups import Stratum, strata
from amped.kernels.fitting import FEWEST_RECORDS, Bounds, Columns, fitted
from amped.kernels.formats import FORMATS
from amped.kernels.link_fit import CollectiveTime, Links, linked
from amped.kernels.machine import Machine
from amped.kernels.predicting import Array, Samples, family_of, grouped, measured_time, predicted, samples
from amped.kernels.results import Result, usual_rate
from amped.kernels.specs import FAMILIES, Record, sentinel, work_of

# A processor distributes no tiles to cores.
PROCESSOR = {
    "wave_quantization": 0.0,
    "medium_tile_efficiency": 1.0,
    "small_tile_efficiency": 1.0,
    "smallest_tile_efficiency": 1.0,
}
DOUBTFUL = ("unsettled", "host_bound")
# The share of a family's records on a quiet machine above which the others are left out; it leaves enough for a fit.
QUIET_SHARE = 1 / 3
COMPUTING = ("contraction", "batched_contraction", "grouped_contraction", "fused_attention")
Told = Callable[[str], None]


@dataclass
class Calibration:
    """What a result file tells about a machine.

    Attributes:
        values: the coefficients by their columns in kernel_efficiencies, in SI units.
        fitted: the names of the fitted ones; the others follow from the machine.
        defaults: the coefficients of the row that all others come from.
        strata: the errors of each family, of all its records and by size.
        refused: the families with too few clean records, and why.
        layouts: the time of products in each layout over the predicted time, relative to that of TN.
        network: the links between processes, from collectives.
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
        """All coefficients: the fitted ones, and for the others those of the row that they come from."""
        return {**self.defaults, **self.values}


def calibrated(
    result: Result,
    machine: Machine,
    defaults: Mapping[str, float],
    tell: Told = lambda _: None,
    collective_time: CollectiveTime | None = None,
) -> Calibration:
    """The calibration of a machine: each family's coefficients, as far as its records determine them.

    A family with fewer than eight clean records keeps the defaults, and this is reported.

    - `defaults`: the coefficients of the row that the machine used until now.
    - `tell`: gets a line about each family before its fit.
    - `collective_time`: amped's formula for collectives; without it, no links are fitted.
    """
    calibration = Calibration(machine, defaults=dict(defaults))
    if machine.is_processor:
        calibration.values |= PROCESSOR | {"exposed_operand_fraction": 1.0}
    _launches(calibration, result)
    clean = [r for r in result["records"] if not set(DOUBTFUL) & set(r.get("flags", ()))]
    by_kind = samples(_undisturbed(clean, result), result["settings"]["statistic"], result["device"]["kind"])
    for name, bounds in _families(result, machine):
        groups = [s for s in by_kind if s.family == name]
        tell(f"{name}: {sum(map(len, groups))} records")
        _fit(calibration, name, groups, bounds, result)
    _link(calibration, result, collective_time)
    return calibration


def _link(calibration: Calibration, result: Result, collective_time: CollectiveTime | None) -> None:
    """Adds the links that are fitted to collectives, or the reason if there are too few collectives."""
    network = linked(result, collective_time) if collective_time is not None else None
    if isinstance(network, str):
        calibration.refused["collectives"] = network
    elif network is not None:
        calibration.network = network
        calibration.strata += network.strata
        # the measured latency of a step has both in it
        calibration.values |= {"collective_overhead_time": 0.0, "inter_accelerator_ramp_bytes": 0.0}


def _families(result: Result, machine: Machine) -> list[tuple[str, Bounds]]:
    """The name and the bounds of each family, in the order of the fits: later ones use coefficients of earlier ones."""
    processor, limits = machine.is_processor, shipped_json("kernels", "fit_bounds.json")
    formats = dict.fromkeys(r["dtype"] for r in result["records"] if r["kernel"] in ("gemm", "fp8_gemm"))
    others = limits["products"] | limits["products of a processor" if processor else "tiles"]
    products = [(f"products {dtype}", {FORMATS[dtype].sustained: limits["sustained"], **others}) for dtype in formats]
    rows = limits["row by row"] | (_vector(result, machine) if processor else {})
    return [("streaming", limits["streaming"]), *products, ("row by row", rows), ("attention", limits["attention"])]


def _vector(result: Result, machine: Machine) -> Bounds:
    """Bounds for what limits a processor's kernels besides memory.

    The vector rate is always among them; the time of an elementary function or of a random number only if a record uses it.

    Source of the bounds: 100 cycles at 1 GHz for an elementary function, 1000 for a random number.
    """
    work = [work_of(r, "cpu") for r in result["records"] if r["kernel"] in FAMILIES]
    of_random_numbers: Bounds = {"random_number_time": (0.0, 1e-6)} if any(w.drawn for w in work) else {}
    of_functions: Bounds = {"elementary_function_time": (0.0, 1e-7)} if any(w.functions for w in work) else {}
    return {"vector_flop_rate": (0.001 * machine.vector_rate, machine.vector_rate), **of_functions, **of_random_numbers}


def _launches(calibration: Calibration, result: Result) -> None:
    """Adds the overhead of an eager call, and that of a call in a graph; without graphs (on a processor) both are equal."""
    statistic = result["settings"]["statistic"]
    times = {r["params"]["mode"]: measured_time(r, statistic) for r in result["records"] if r["kernel"] == "launch"}
    if "eager" in times:
        calibration.values["kernel_launch_time"] = times["eager"]
        calibration.values["kernel_overhead_time"] = times.get("graph", times["eager"])


def _undisturbed(clean: Sequence[Record], result: Result) -> list[Record]:
    """The records of each family that were measured on a quiet machine.

    If these are too few for a fit, all records of the family, converted to a quiet machine.
    """
    chosen: list[Record] = []
    for family in grouped([r for r in clean if r["kernel"] in FAMILIES], family_of).values():
        quiet = [r for r in family if "throttled" not in r.get("flags", ())]
        is_enough = len(quiet) >= max(FEWEST_RECORDS, QUIET_SHARE * len(family))
        chosen += quiet if is_enough else [_normalized(r, result) for r in family]
    return chosen


def _normalized(record: Record, result: Result) -> Record:
    """A record whose times are converted to the usual speed of the sentinel product.

    Only slowed products and attention are converted: clocks and neighbors slow down arithmetic. The time for bytes that
    the sentinel product does not move is not changed.
    """
    is_computing = FAMILIES[record["kernel"]].kind in COMPUTING
    if "throttled" not in record.get("flags", ()) or "gemm_tflops_beside" not in record or not is_computing:
        return record
    streamed_bytes = max(0.0, record["bytes"] - sentinel("cpu")[0].bytes) if result["device"]["kind"] == "cpu" else 0.0
    stream_time = streamed_bytes / (1e9 * max((s["copy_gbs"] for s in result["sentinels"]), default=np.inf))
    streaming_share = min(1.0, stream_time / measured_time(record, result["settings"]["statistic"]))
    ratio = streaming_share + (1 - streaming_share) * record["gemm_tflops_beside"] / usual_rate(result)
    return {**record, "time_s": {name: v * ratio if name != "n" else v for name, v in record["time_s"].items()}}


def _fit(calibration: Calibration, name: str, groups: Sequence[Samples], bounds: Bounds, result: Result) -> None:
    """Fits one family's coefficients within bounds, and adds values, errors and layouts to the calibration.

    A family with too few records is added to `refused`; coefficients that have values already are not fitted again.
    """
    count = sum(map(len, groups))
    if count < FEWEST_RECORDS:
        if count:
            calibration.refused[name] = f"{count} clean records, and a fit needs {FEWEST_RECORDS}: the defaults stay"
        return
    bounds = {column: limits for column, limits in bounds.items() if column not in calibration.values}
    base, times = calibration.coefficients, np.concatenate([s.times for s in groups])

    def model(columns: Columns) -> Array:
        parts = [np.atleast_2d(predicted(s, {**base, **columns}, calibration.machine)) for s in groups]
        rows = max(map(len, parts))
        return np.concatenate([np.broadcast_to(p, (rows, len(s))) for p, s in zip(parts, groups, strict=True)], axis=1)

    fit = fitted(model, times, bounds)
    calibration.values |= fit.values
    calibration.fitted += list(fit.values)
    records = [r for s in groups for r in s.records]
    calibration.strata += strata(name, records, fit, result["device"]["kind"])
    if name.startswith("products"):
        calibration.layouts |= layouts(records, fit.errors)


def layouts(records: Sequence[Record], errors: Array) -> dict[str, float]:
    """The ratio of measured to predicted time of each layout of products, relative to that of TN; empty without TN.

    Args:
        records: records of products.
        errors: the error of each record: predicted over measured time, minus one.
    """
    names = [str(r["params"]["layout"]) for r in records]
    means = {name: -np.mean(np.log1p(errors[np.array(names) == name])) for name in dict.fromkeys(names)}
    return {name: float(np.exp(mean - means["TN"])) for name, mean in means.items()} if "TN" in means else {}


def as_json(calibration: Calibration) -> dict[str, Any]:
    """The calibration in the form that the result file keeps."""
    return {
        "machine": calibration.machine.name, "coefficients": calibration.values, "refused": calibration.refused, "layout": calibration.layouts,
        "errors": [vars(s) for s in calibration.strata], "network": calibration.network and calibration.network.as_plain(),
    }  # fmt: skip
