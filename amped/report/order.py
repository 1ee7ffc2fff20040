"""Whether amped tells which of two runs is faster: the share of pairs in the right order, and the pairs that it turns round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.text import Text

from amped.estimation.validated import DENSE, MIXTURE
from amped.report import human, rows_formats
from amped.report.tables import Part, drawn, table
from amped.validation.order import DIFFERENT, Pair

# How many pairs have a line, unless all are asked for.
LISTED = 15
INDENTED = (0, 0, 0, 2)
EXPLAINED = (
    f"Pairs: runs of high and medium confidence with the same network, accelerator, software and precision, whose measured tokens "
    f"per second and accelerator differ by more than {DIFFERENT:.0%}. measured, predicted: the rate of the first over that of the "
    "second. cause, as far as known: the settings in which they differ."
)


@drawn
def order(pairs: Sequence[Pair], lists_all: bool = False) -> Iterator[Part]:
    """The shares of pairs in the right order, and the pairs that amped turns round, the largest differences first."""
    lines = [
        [name, f"{len(part)}", f"{sum(pair.is_right for pair in part)}", "-" if share is None else human.percent(share)]
        for name, part in by_network(pairs).items()
        for share in [share_right(part)]
    ]
    yield table(("order of two runs", "pairs", "right", "share"), lines)
    wrong = turned(pairs)
    shown = wrong if lists_all else wrong[:LISTED]
    for pair in shown:
        yield ""
        yield from _lines(pair)
    yield f"\n{EXPLAINED}", "dim"
    if len(shown) < len(wrong):
        yield f"{len(wrong) - len(shown)} more: --rows (all of them), --csv, --json", "dim"


def _lines(pair: Pair) -> Iterator[Part]:
    """A pair that amped turns round: the ids of its rows, the ratios of their rates, and in what they differ."""
    one, other = pair.faster, pair.slower
    ratios = f"measured {pair.measured:.2f}, predicted {pair.predicted:.2f}"
    yield (f"{one.measurement.id} / {other.measurement.id}", "bold"), f": {ratios}"
    alike = f"{one.measurement.network}, {one.ground.accelerator}, {one.ground.software}"
    yield Padding(Text(f"{alike}\n{'; '.join(pair.differences) or 'no setting differs'}"), INDENTED)


def by_network(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """All pairs, those of dense networks and those of mixtures of experts."""
    return {
        "all": [*pairs],
        **{kind: [p for p in pairs if p.faster.ground.experts == kind] for kind in (DENSE, MIXTURE)},
    }


def share_right(pairs: Sequence[Pair]) -> float | None:
    """The share of pairs in the right order; None without pairs."""
    return sum(pair.is_right for pair in pairs) / len(pairs) if pairs else None


def turned(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs that amped turns round, the largest measured differences first."""
    return sorted((pair for pair in pairs if not pair.is_right), key=lambda pair: -pair.measured)


def as_json(pairs: Sequence[Pair]) -> Mapping[str, Any]:
    """The shares, and the pairs that amped turns round, as plain data."""
    shares = {
        name: {"pairs": len(part), "right": sum(pair.is_right for pair in part), "share": share_right(part)}
        for name, part in by_network(pairs).items()
    }
    return {"order": shares, "turned": [_entry(pair) for pair in turned(pairs)]}


def as_csv(pairs: Sequence[Pair]) -> str:
    """The pairs that amped turns round as comma-separated values."""
    return rows_formats.as_csv(HEADS, [_entry(pair) for pair in turned(pairs)])


HEADS = ("faster", "slower", "network", "accelerator", "software", "precision", "measured_ratio", "predicted_ratio", "cause",
         "notes_of_faster", "notes_of_slower")  # fmt: skip


def _entry(pair: Pair) -> dict[str, Any]:
    """A pair by column; `cause` is as far as known: the settings in which its runs differ."""
    one, other = pair.faster.measurement, pair.slower.measurement
    ground = pair.faster.ground
    cells = (
        one.id, other.id, one.network, ground.accelerator, ground.software, ground.precision, pair.measured, pair.predicted,
        "; ".join(pair.differences), *(measurement.row.texts.get("notes", "") for measurement in (one, other)),
    )  # fmt: skip
    return dict(zip(HEADS, cells, strict=True))
