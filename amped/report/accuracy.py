"""Predictions beside measurements for other programs and for the README: comma-separated values, Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amped.report import rows_formats
from amped.report.accuracy_screen import ERRORS
from amped.report.tables import markdown
from amped.report.validating import short_errors
from amped.validation.accuracy import LOW, TRUSTED, accuracy, by_confidence, by_network, of_memory, of_time
from amped.validation.residuals import Residual

NETWORKS = ("dense networks", "mixtures of experts")
COUNTED = """An error is predicted / measured − 1, so that + is too slow or too much.
Of {number} published rows {missed} are missed, because amped does not model what they did; repeats of one configuration are a group,
which counts once, and rows whose inputs are known badly stand apart.
What amped is good for, where it is bad, and why: [docs/accuracy.md](docs/accuracy.md)."""


def as_csv(rows: Sequence[Residual]) -> str:
    """Every residual by name in SI units, with what its row assumed."""
    lines = [_line(r) for r in rows]
    return rows_formats.as_csv(list(lines[0]) if lines else ["id"], lines)


def _line(r: Residual) -> dict[str, Any]:
    m = r.measurement
    own = {"model": r.model, "accelerator": r.accelerator, "number_of_accelerators": r.number_of_accelerators, "confidence": m.confidence,
           "step_time_error_fraction": r.aligned_error if r.of_time else None,
           "assumed": "; ".join(r.assumed),
           "not_modeled": "; ".join(f"{name}={said}" for name, said in m.row.facts.items())}  # fmt: skip
    return r.to_dict() | own


def as_markdown(rows: Sequence[Residual]) -> str:
    """The errors in a few numbers, and how they are counted: a section of the README."""
    times, memory = by_confidence(of_time(rows)), by_confidence(of_memory(rows))
    told = {
        "step time": times[TRUSTED],
        **{f"… of {name}": some for name, some in zip(NETWORKS, by_network(times[TRUSTED]).values(), strict=True)},
        "step time, inputs known badly": times[LOW],
        "memory": memory[TRUSTED],
    }
    lines = [[name, *short_errors(accuracy(some))] for name, some in told.items()]
    number, missed = (len({r.measurement.id for r in some}) for some in (rows, [r for r in rows if r.missed]))
    return "\n\n".join([markdown(["absolute error of", *ERRORS], lines), COUNTED.format(number=number, missed=missed)])
