"""Predictions beside measurements for other programs and for the README: comma-separated values, Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from amped.report.validating import ERRORS, errors, grouped, memory_verdicts, overall, signed, values
from amped.validation.accuracy import By, of_memory
from amped.validation.residuals import Residual

# The largest errors are named one by one.
WORST = 6


def as_csv(rows: Sequence[Residual]) -> str:
    """Every residual by name in SI units, with what its row assumed."""
    stream = io.StringIO()
    lines = [_line(r) for r in rows]
    writer = csv.DictWriter(stream, list(lines[0]) if lines else ["id"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def _line(r: Residual) -> dict[str, Any]:
    m = r.measurement
    own = {"model": r.model, "accelerator": r.accelerator, "gpus": m.row.text("gpus"), "confidence": m.confidence,
           "step_time_error_fraction": r.aligned_error if r.of_time else None,
           "assumed": "; ".join(m.assumed.values()), "not_understood": "; ".join(m.unread)}  # fmt: skip
    return r.to_dict() | own


def as_markdown(rows: Sequence[Residual]) -> str:
    """The errors in a few numbers, by source, the largest ones, and every miss: a section of a README."""
    return "\n".join(
        [*_overall(rows), "", *_by_source(rows), "", _verdicts(rows), "", *_largest(rows), "", *_missed(rows)]
    )


def _overall(rows: Sequence[Residual]) -> Iterator[str]:
    yield from _head("absolute error of", "rows", "missed", *ERRORS)
    for name, found in overall(rows):
        yield _row(name, str(found.compared), str(found.missed), *errors(found))


def _by_source(rows: Sequence[Residual]) -> Iterator[str]:
    yield from _head("step time, by source", "rows", "missed", *ERRORS, *(["memory"] if of_memory(rows) else []))
    for name, cells in grouped(rows, By.SOURCE):
        yield _row(name, *cells)


def _verdicts(rows: Sequence[Residual]) -> str:
    told = "; ".join(memory_verdicts(rows))
    return f"{told[:1].upper()}{told[1:]}."


def _largest(rows: Sequence[Residual]) -> Iterator[str]:
    yield from _head("largest errors", "model", "accelerator", "measured", "amped", "error")
    compared = [r for r in rows if r.aligned_error is not None]
    for r in sorted(compared, key=lambda r: -abs(r.aligned_error or 0.0))[:WORST]:
        machine = f"{r.measurement.row.text('gpus')} x {r.accelerator}"
        yield _row(f"{r.measurement.source} {r.measurement.id}", r.model, machine, *values(r), signed(r.error))


def _missed(rows: Sequence[Residual]) -> Iterator[str]:
    reasons = {r.measurement.id: r.reason for r in rows if r.missed}
    if not reasons:
        yield f"Rows that could not be modeled: none of {len({r.measurement.id for r in rows})}."
        return
    yield from _head("rows that could not be modeled", "why")
    yield from (_row(name, reason.replace("|", "/")) for name, reason in reasons.items())


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*("---" for _ in names))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
