"""The operators of a layer below the roofline of the accelerator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from amped.estimation.breakdown import OperatorLine, layer_lines
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.report.page.content import Picture, Section, Table, said, table
from amped.report.screen import LEAST_SHARE

COLUMNS = (
    "name|operator", "phase|pass", "bound|bound by",
    "intensity|flop per byte", "rate|rate|flop/s", "time|time|s",
    "share|share of the layer|share", "peak_fraction|of the peak|share",
    "time_by|time from",
)  # fmt: skip


def roofline(e: Estimation) -> Section:
    """The section with the rate of each product against its flops per byte; other operators are only in the table."""
    lines = layer_lines(e)
    sentence = _in_words(e, lines)
    working = [line for line in lines if line.flops and line.time]
    picture = Picture(
        "roofline", "Roofline of one layer", "points", sentence, operators(e, lines), _axes(e), operators(e, working)
    )
    notes = "Both axes are logarithmic. Operators without floating-point operations stand in the table alone."
    return Section("roofline", "Roofline of the operators", said(sentence, notes), pictures=[picture])


def operators(e: Estimation, lines: Sequence[OperatorLine]) -> Table:
    """The operators of a layer in all passes, in the order of the forward pass."""
    peak = e["matrix_peak_flop_rate"]
    rows = [
        (o.name.replace("_", " "), o.phase.replace("_", " "), o.bound, o.intensity, o.peak_fraction * peak, o.time,
         o.share, o.peak_fraction, o.time_by)
        for o in lines
    ]  # fmt: skip
    return table("Operators of one layer for one micro-batch", COLUMNS, rows)


def _axes(e: Estimation) -> dict[str, object]:
    """The settings of the picture: its axes, and the roof with the bandwidth and the peak."""
    peak, bandwidth = e["matrix_peak_flop_rate"], e["memory_bandwidth"]
    roof = {"head": "roof", "bandwidth": bandwidth, "peak": peak}
    return {"x": "intensity", "y": "rate", "name": "name", "group": "bound", "logarithmic": ["x", "y"], "roof": roof}


def _in_words(e: Estimation, lines: Sequence[OperatorLine]) -> str:
    """A sentence: what limits the operators, by the share of a layer's time, and where the roof has its ridge."""
    shares: dict[str, float] = defaultdict(float)
    for line in lines:
        shares[line.bound] += line.share
    largest = sorted(shares.items(), key=lambda item: -item[1])
    bounds = ", ".join(
        f"{human.percent(share, 0)} is bound by {bound}" for bound, share in largest if share >= LEAST_SHARE
    )
    peak, bandwidth = e["matrix_peak_flop_rate"], e["memory_bandwidth"]
    return (f"Of the time of a layer's operators, {bounds}. The roof is {human.value(bandwidth, 'byte/s')} up to "
            f"{human.digits(peak / bandwidth)} flop per byte, then {human.value(peak, 'flop/s')}.")  # fmt: skip
