"""Predictions beside measurements for other programs and for the README: comma-separated values, Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from amped.report import rows_formats
from amped.report.tables import markdown
from amped.report.validating import SHORT_ERRORS, number_of_accelerators, short_errors
from amped.validation.accuracy import (
    LOW,
    TRUSTED,
    By,
    accuracy,
    by_confidence,
    by_fit,
    by_network,
    groups,
    of_memory,
    of_time,
    verdicts,
    within_bands,
)
from amped.validation.measurements import MEMORY, TIME
from amped.validation.residuals import FITS, Residual

NETWORKS = ("dense networks", "mixtures of experts")
COUNTED = """An error is predicted / measured − 1, so that + is too slow or too much.
Of {number} published rows {missed} are missed, because amped does not model what they did; repeats of one configuration are a group,
which counts once, and rows whose inputs are known badly stand apart.
What amped is good for, where it is bad, and why: [docs/accuracy.md](docs/accuracy.md)."""


def as_json(rows: Sequence[Residual], by: By = By.SOURCE) -> dict[str, Any]:
    """Every row and a summary of the errors (keys `rows` and `summary`), as `amped validate --json` prints them."""
    return {"rows": [_entry(r) for r in rows], "summary": summary(rows, by)}


def _entry(r: Residual) -> dict[str, Any]:
    """One compared quantity of one row."""
    return {
        "id": r.measurement.id, "source": r.measurement.source, "quantity": r.quantity,
        "measured": r.measured, "predicted": r.predicted, "error_fraction": r.error,
        "fits_in_memory": r.fits_in_memory, "reason": r.reason,
    }  # fmt: skip


def summary(rows: Sequence[Residual], by: By = By.SOURCE) -> dict[str, Any]:
    """The numbers of rows, groups and misses, and the errors of time and of memory by part, as plain data for JSON."""
    groups_of = {r.measurement.id: r.measurement.group for r in rows}
    missed = {r.measurement.id: r.reason for r in rows if r.missed}
    return {
        "rows": len(groups_of), "groups": len(set(groups_of.values())), "modeled": len(groups_of) - len(missed),
        "missed": len(missed), "reasons": missed,
        "errors_are": "predicted / measured - 1, of the step's time also where a rate was measured",
        TIME: _errors(by_confidence(of_time(rows))), MEMORY: _errors(by_confidence(of_memory(rows))),
        "by_fit": _errors({name: of_time(part) for name, part in by_fit(rows).items() if part}),
        FITS: verdicts(rows),
        f"by_{by.value}": [_group(by, *group) for group in groups(rows, by)],
    }  # fmt: skip


def _errors(parts: Mapping[str, Sequence[Residual]]) -> dict[str, Any]:
    """A summary of the errors of each part of the rows, by the name of the part."""
    return {name: asdict(accuracy(part)) for name, part in parts.items()}


def _group(by: By, name: str, confidence: str, rows: list[Residual]) -> dict[str, Any]:
    """The JSON entry of one group: its name, confidence and errors, and how many rows lie in bands that other sources gave."""
    bands = {what: {"inside": inside, "rows": number} for what, (inside, number) in within_bands(rows).items()}
    errors = _errors({TIME: of_time(rows), MEMORY: of_memory(rows)})
    return {by.value: name, "confidence": confidence, **errors, "bands_of_other_sources": bands}


def taken(rows: Sequence[Residual]) -> list[dict[str, Any]]:
    """For each row, the values that amped assumes and what the run did that is not modeled; without a prediction.

    Whoever prepares a table sees nothing that could lead the choice of a cell.
    """
    return [
        {"id": r.measurement.id, "assumed": {value.name: value.value for value in r.assumed},
         "why": {value.name: value.why for value in r.assumed}, "not_modeled": dict(r.measurement.row.facts),
         "missed": r.reason if r.missed else ""}
        for r in {r.measurement.id: r for r in rows}.values()
    ]  # fmt: skip


def taken_as_csv(rows: Sequence[Residual]) -> str:
    """Comma-separated values: a line for each value that amped assumes for a row; without a prediction."""
    lines = [
        {"id": row["id"], "name": name, "value": value, "why": row["why"][name]}
        for row in taken(rows)
        for name, value in row["assumed"].items()
    ]
    return rows_formats.as_csv(["id", "name", "value", "why"], lines)


def as_csv(rows: Sequence[Residual]) -> str:
    """Every residual as comma-separated values in SI units, with the values that amped assumed for its row."""
    lines = [_line(r) for r in rows]
    return rows_formats.as_csv(list(lines[0]) if lines else ["id"], lines)


def _line(r: Residual) -> dict[str, Any]:
    """The cells of one residual, by the name of their column."""
    measurement = r.measurement
    further_cells = {"model": r.measurement.network, "accelerator": r.accelerator, "number_of_accelerators": number_of_accelerators(r), "confidence": measurement.confidence,
           "step_time_error_fraction": r.aligned_error if r.of_time else None,
           "assumed": "; ".join(map(str, r.assumed)),
           "not_modeled": "; ".join(f"{name}={value}" for name, value in measurement.row.facts.items())}  # fmt: skip
    return _entry(r) | further_cells


def as_markdown(rows: Sequence[Residual]) -> str:
    """The section of the README on errors: a table of their sizes, and how they are counted."""
    times, memory = by_confidence(of_time(rows)), by_confidence(of_memory(rows))
    parts = {
        "step time": times[TRUSTED],
        **dict(zip((f"… of {name}" for name in NETWORKS), by_network(times[TRUSTED]).values(), strict=True)),
        "step time, inputs known badly": times[LOW],
        "memory": memory[TRUSTED],
    }
    lines = [[name, *short_errors(accuracy(part))] for name, part in parts.items()]
    missed = number_of_measurements([r for r in rows if r.missed])
    counts = COUNTED.format(number=number_of_measurements(rows), missed=missed)
    return f"{markdown(['absolute error of', *SHORT_ERRORS], lines)}\n\n{counts}"


def number_of_measurements(rows: Sequence[Residual]) -> int:
    """The number of measured runs; a run has one residual for each of its measured quantities."""
    return len({r.measurement.id for r in rows})
