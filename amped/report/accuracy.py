"""Predictions beside measurements for other programs and for the README: comma-separated values, Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from amped.report import rows_formats
from amped.report.tables import markdown
from amped.report.validating import grouped, memory_verdicts, overall, signed, values
from amped.validation.accuracy import By
from amped.validation.residuals import Residual

# How many of the largest errors are listed, and how many characters of a reason are shown.
WORST, LONGEST = 6, 160


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
    """The errors in a few numbers and by source, the largest errors, and every miss: a section of a README."""
    told = "; ".join(memory_verdicts(rows))
    verdicts = f"{told[:1].upper()}{told[1:]}."
    by_source = markdown(*grouped(rows, By.SOURCE))
    return "\n\n".join([markdown(*overall(rows)), by_source, verdicts, _largest(rows), _missed(rows)])


def _largest(rows: Sequence[Residual]) -> str:
    compared = sorted((r for r in rows if r.aligned_error is not None), key=lambda r: -abs(r.aligned_error or 0.0))
    lines = [
        [f"{r.measurement.source} {r.measurement.id}", r.model, r.machine, *values(r), signed(r.error)]
        for r in compared[:WORST]
    ]
    return markdown(["largest errors", "model", "accelerator", "measured", "amped", "error"], lines)


def _missed(rows: Sequence[Residual]) -> str:
    missed = {r.measurement.id: r.reason.removeprefix(f"line {r.measurement.row.line}: ") for r in rows if r.missed}
    reasons = {name: reason.replace("|", "/") for name, reason in missed.items()}
    if not reasons:
        return f"Rows that could not be modeled: none of {len({r.measurement.id for r in rows})}."
    times = Counter(f"{reason[:LONGEST]} …" if len(reason) > LONGEST else reason for reason in reasons.values())
    return markdown(["rows that could not be modeled", "why"], [[f"{n}", reason] for reason, n in times.items()])
