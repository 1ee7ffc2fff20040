"""Links between processes from measured collectives: for each kind, latency of a step and rate of a link (α–β)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from amped.kernels.error_groups import Stratum, strata
from amped.kernels.fitting import FEWEST_RECORDS, Bounds, Columns, Fitted, fitted
from amped.kernels.predicting import Array, measured_time
from amped.kernels.results import Result
from amped.kernels.specs import COLLECTIVES, Record

# The columns of link_specifications for the share of the bandwidth, by collective.
SHARES = {"all_reduce": "all_reduce_efficiency", "all_gather": "all_gather_efficiency",
          "reduce_scatter": "reduce_scatter_efficiency", "all_to_all": "all_to_all_efficiency",
          "send_receive": "point_to_point_efficiency"}  # fmt: skip
# How much faster than the fastest measured payload a link may be: even that payload waits for its latency.
FASTER = 3.0
# Gives the seconds of a call by amped's formulas: kind, payloads, processes, rate of the link, latency of a step.
CollectiveTime = Callable[[str, Array, float, Any, Any], Array]
# With fewer sizes, the two numbers of a kind are not fitted.
FEWEST_SIZES = 3


@dataclass(frozen=True)
class Links:
    """The links between the processes of one machine.

    Attributes:
        ranks, backend: the number of processes and the backend of the measurement.
        latencies: seconds of a step, with the overhead of a call in it, by kind.
        rates: byte/s over each link, by kind.
        strata: the errors by kind.
    """

    ranks: int
    backend: str
    latencies: Mapping[str, float]
    rates: Mapping[str, float]
    strata: Sequence[Stratum]

    @property
    def bandwidth(self) -> float:
        """The rate of the fastest kind; the rates of others are shares of it.

        No datasheet has a bandwidth between processes.
        """
        return max(self.rates.values())

    @property
    def typical(self) -> str:
        """The kind that represents all kinds in the row of a system: all-reduce if it was measured, else the slowest."""
        return "all_reduce" if "all_reduce" in self.rates else min(self.rates, key=self.rates.__getitem__)

    def share(self, kind: str) -> float:
        """The rate of a kind as a share of the bandwidth."""
        return self.rates[kind] / self.bandwidth

    def as_plain(self) -> dict[str, Any]:
        """The links as plain data."""
        fields = {name: value for name, value in asdict(self).items() if name != "strata"}
        return fields | {"bandwidth": self.bandwidth, "typical": self.typical}


def linked(result: Result, collective_time: CollectiveTime) -> Links | str | None:
    """The links that are fitted to collectives; a reason (a text) if there are too few of these; None if there are none.

    Most calls on a processor wait for its scheduler, so that minima count even if they are noisy. Source: Hockney, 1994
    (α–β).
    """
    records = [r for r in result["records"] if r["kernel"] in COLLECTIVES]
    groups = {kind: sorted((r for r in records if r["kernel"] == kind), key=_payload) for kind in COLLECTIVES}
    groups = {kind: sizes for kind, sizes in groups.items() if len(sizes) >= FEWEST_SIZES}
    used = [record for sizes in groups.values() for record in sizes]
    if len(used) < FEWEST_RECORDS:
        return f"{len(used)} records, and a fit needs {FEWEST_RECORDS}: the defaults stay" if records else None
    fits = {
        kind: _fitted(kind, sizes, result["settings"]["statistic"], collective_time) for kind, sizes in groups.items()
    }
    all_errors = Fitted(
        {}, *(np.concatenate([getattr(f, part) for f in fits.values()]) for part in ("errors", "held_out"))
    )
    backend = str(used[0].get("impl", "")).rpartition(", ")[2] or "unknown"
    latencies, rates = ({kind: f.values[name] for kind, f in fits.items()} for name in ("latency", "rate"))
    errors = strata("collectives", used, all_errors, result["device"]["kind"])
    return Links(int(used[0]["params"]["ranks"]), backend, latencies=latencies, rates=rates, strata=errors)


def _fitted(kind: str, records: Sequence[Record], statistic: str, collective_time: CollectiveTime) -> Fitted:
    """The fitted latency and rate of one kind; the rate is at least that of the fastest measured payload."""
    times = np.array([measured_time(r, statistic) for r in records])
    traffic = np.array([r["bytes"] for r in records])
    fastest_rate = float(np.max(traffic / times))
    bounds: Bounds = {"latency": (0.0, 2 * float(np.min(times))), "rate": (fastest_rate, FASTER * fastest_rate)}
    sizes, ranks = np.array([_payload(r) for r in records]), float(records[0]["params"]["ranks"])

    def model(columns: Columns) -> Array:
        return collective_time(kind, sizes, ranks, columns["rate"], columns["latency"])

    return fitted(model, times, bounds)


def _payload(record: Record) -> float:
    return float(record["params"]["bytes"])
