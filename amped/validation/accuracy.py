"""How good predictions are: the errors of many rows in a few numbers.

All errors are errors of the step's time. The error of a measured rate is converted, so that a positive error means too
slow everywhere. Rows whose inputs are known badly (confidence low) are kept apart.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from amped.estimation.uncertainty import DENSE, ERROR_LAWS, MIXTURE, Validated, error_band, holds, validated
from amped.validation.measurements import MEMORY, TIME
from amped.validation.residuals import FITS, Residual, validated_runs

FITTED, SEEN, UNSEEN = "coefficients_fitted_on", "of_sources_seen_by_a_fit", "of_sources_seen_by_clocks_alone"
TRUSTED, LOW = "high_and_medium_confidence", "low_confidence"
# How memory was read; blank in the table where the source does not say it.
READINGS = ("allocated", "reserved", "device", "")
# With fewer rows the rank correlation says nothing: with two it is always 1 or -1.
FEWEST_RANKED = 3


class By(enum.StrEnum):
    """The property that rows are grouped by."""

    SOURCE = "source"
    ACCELERATOR = "accelerator"
    MODEL = "model"
    SOFTWARE = "software"


@dataclass(frozen=True)
class Accuracy:
    """The errors of some rows; None for each number if there are no errors.

    Attributes:
        compared: the number of rows with a prediction and a measurement.
        groups: the number of different configurations among these rows.
        missed: the number of rows that could not be modeled.
        percentile_90_absolute_error_fraction: nine groups of ten have a smaller error; interpolated between groups.
        rank_correlation: Spearman's rank correlation of tokens per second and accelerator, within each network that has
            three rows or more; the mean over the networks, weighted by rows.
    """

    compared: int
    groups: int
    missed: int
    mean_absolute_error_fraction: float | None = None
    median_absolute_error_fraction: float | None = None
    percentile_90_absolute_error_fraction: float | None = None
    largest_absolute_error_fraction: float | None = None
    mean_signed_error_fraction: float | None = None
    rank_correlation: float | None = None


def accuracy(rows: Sequence[Residual]) -> Accuracy:
    """The errors of rows that compare the same quantity; all repeats of one configuration together weigh as one row."""
    by_group: dict[str, list[float]] = {}
    for r in rows:
        if (error := r.aligned_error) is not None:
            by_group.setdefault(r.measurement.group, []).append(error)
    missed, compared = sum(r.missed for r in rows), sum(map(len, by_group.values()))
    if not by_group:
        return Accuracy(0, 0, missed)
    sizes = np.array([np.mean(np.abs(errors)) for errors in by_group.values()])
    errors = np.array([np.mean(errors) for errors in by_group.values()])
    return Accuracy(
        compared, len(by_group), missed, float(np.mean(sizes)), float(np.median(sizes)), float(np.percentile(sizes, 90)),
        float(np.max(sizes)), float(np.mean(errors)), _rank_correlation_within_models(rows),
    )  # fmt: skip


def groups(rows: Sequence[Residual], by: By) -> Iterator[tuple[str, str, list[Residual]]]:
    """Rows by group and by confidence, as (name, confidence, rows), in the order of the table."""
    found: dict[tuple[bool, str], list[Residual]] = {}
    for r in rows:
        found.setdefault((not r.trusted, _group_name(r, by)), []).append(r)
    for low, name in sorted(found, key=lambda key: key[0]):
        yield name, LOW if low else TRUSTED, found[low, name]


def by_confidence(rows: Sequence[Residual]) -> dict[str, list[Residual]]:
    """The rows that are good enough for a judgment, and the other rows."""
    return {TRUSTED: [r for r in rows if r.trusted], LOW: [r for r in rows if not r.trusted]}


def by_fit(rows: Sequence[Residual]) -> dict[str, list[Residual]]:
    """The rows by what the coefficients of stacks and kernels were fitted to: the row itself, its source, or neither.

    The clocks under load are fitted to all rows of high and medium confidence.
    """
    seen = {r.measurement.source for r in rows if r.measurement.fitted}
    names = {
        r.measurement.id: FITTED if r.measurement.fitted else SEEN if r.measurement.source in seen else UNSEEN
        for r in rows
    }
    return {name: [r for r in rows if names[r.measurement.id] == name] for name in (FITTED, SEEN, UNSEEN)}


def by_network(rows: Sequence[Residual]) -> dict[str, list[Residual]]:
    """The rows that were modeled by their kind of network: dense, or a mixture of experts."""
    return {kind: [r for r in rows if r.ground and r.ground.experts == kind] for kind in (DENSE, MIXTURE)}


def by_reading(rows: Sequence[Residual]) -> dict[str, list[Residual]]:
    """The rows by how memory was read."""
    return {how: [r for r in rows if r.measurement.row.texts.get("memory_reading", "") == how] for how in READINGS}


def by_accelerator(rows: Sequence[Residual], fewest: int) -> dict[str, list[Residual]]:
    """The rows of each accelerator that has enough groups with an error, those with the most groups first."""
    found: dict[str, list[Residual]] = {}
    for r in rows:
        found.setdefault(r.accelerator, []).append(r)
    sizes = {name: accuracy(some).groups for name, some in found.items()}
    return {name: found[name] for name in sorted(sizes, key=lambda name: -sizes[name]) if sizes[name] >= fewest}


def worst(rows: Sequence[Residual], number: int) -> list[Residual]:
    """The compared quantities with the largest errors, the largest first."""
    compared = [r for r in rows if r.aligned_error is not None]
    return sorted(compared, key=lambda r: -abs(r.aligned_error or 0.0))[:number]


def within_bands(rows: Sequence[Residual]) -> dict[str, tuple[int, int]]:
    """For each quantity with a band: how many rows of high and medium confidence lie inside theirs, and of how many.

    The band of a row comes from the shipped errors without those of its own source, so that no row vouches for itself.
    """
    source_of = {r.measurement.id: r.measurement.source for r in rows}
    others: dict[str, list[Validated]] = {
        source: [run for run in validated() if source_of.get(run.id) != source] for source in {*source_of.values()}
    }
    told = {}
    for law in ERROR_LAWS:
        judged = [run for run in validated_runs(rows) if run.confidence != "low" and run.quantity == law.quantity]
        inside = sum(holds(error_band(run.ground, others[source_of[run.id]], law), run) for run in judged)
        told[law.quantity] = (inside, len(judged))
    return told


def of_time(rows: Sequence[Residual]) -> list[Residual]:
    """The residuals that compare the step's time."""
    return [r for r in rows if r.of_time]


def of_memory(rows: Sequence[Residual]) -> list[Residual]:
    """The residuals that compare memory."""
    return [r for r in rows if r.quantity == MEMORY]


def verdicts(rows: Sequence[Residual]) -> dict[str, int]:
    """The number of runs that ran out of memory, of runs that ran, and of wrong predictions for each."""
    ended = [r for r in rows if r.quantity == FITS and not r.missed]
    ran = {r.measurement.id: r for r in rows if not (r.measurement.out_of_memory or r.missed or r.measured is None)}
    return {
        "ran_out_of_memory": len(ended), "of_these_predicted_to_fit": sum(bool(r.fits_in_memory) for r in ended),
        "ran": len(ran), "of_these_predicted_not_to_fit": sum(not r.fits_in_memory for r in ran.values()),
    }  # fmt: skip


def summary(rows: Sequence[Residual], by: By = By.SOURCE) -> dict[str, Any]:
    """The errors in a few numbers, in the form of `amped validate --json`."""
    groups_of = {r.measurement.id: r.measurement.group for r in rows}
    missed = {r.measurement.id: r.reason for r in rows if r.missed}
    return {
        "rows": len(groups_of), "groups": len(set(groups_of.values())), "modeled": len(groups_of) - len(missed),
        "missed": len(missed), "reasons": missed,
        "errors_are": "predicted / measured - 1, of the step's time also where a rate was measured",
        TIME: {name: asdict(accuracy(of_time(some))) for name, some in by_confidence(rows).items()},
        MEMORY: {name: asdict(accuracy(of_memory(some))) for name, some in by_confidence(rows).items()},
        "by_fit": {name: asdict(accuracy(of_time(some))) for name, some in by_fit(rows).items() if some},
        FITS: verdicts(rows),
        f"by_{by.value}": [_group(by, *each) for each in groups(rows, by)],
    }  # fmt: skip


def _group(by: By, name: str, confidence: str, rows: list[Residual]) -> dict[str, Any]:
    head = {by.value: name, "confidence": confidence}
    return head | {TIME: asdict(accuracy(of_time(rows))), MEMORY: asdict(accuracy(of_memory(rows)))}


def _group_name(r: Residual, by: By) -> str:
    return {
        By.SOURCE: r.measurement.source or "unnamed", By.ACCELERATOR: r.accelerator, By.MODEL: r.model,
        By.SOFTWARE: str(r.measurement.settings.get("software", "unnamed")),
    }[by]  # fmt: skip


def _rank_correlation_within_models(rows: Sequence[Residual]) -> float | None:
    """How well predictions order the runs of one network by speed: the mean rank correlation of the networks."""
    weighted = weights = 0.0
    of_model: dict[str, list[tuple[float, float]]] = {}
    for r in rows:
        of_model.setdefault(r.model, []).extend(pair for pair in [_tokens_rates(r)] if pair)
    for pairs in of_model.values():
        measured, predicted = np.array(pairs).reshape(-1, 2).T
        found = rank_correlation(measured, predicted) if len(pairs) >= FEWEST_RANKED else None
        if found is not None:
            weighted, weights = weighted + found * len(pairs), weights + len(pairs)
    return weighted / weights if weights else None


def _tokens_rates(r: Residual) -> tuple[float, float] | None:
    """The tokens per second and accelerator, measured and predicted."""
    if r.times is None:
        return None
    return r.tokens / r.times[0], r.tokens / r.times[1]


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """Spearman's rank correlation; ties have their mean rank. None if all values of one side are equal.

    Source: definition.
    """
    ranks = [_ranks(one), _ranks(other)]
    if any(np.ptp(r) == 0 for r in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value: how many values are smaller, plus half of those that are equal."""
    below = np.sum(values[None, :] < values[:, None], axis=1)
    return np.asarray(below + np.sum(values[None, :] == values[:, None], axis=1) / 2)
