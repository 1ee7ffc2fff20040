"""How good predictions are: the errors of many rows in a few numbers.

All errors are errors of the step's time. The error of a measured rate is converted, so that a positive error means too
slow everywhere. Rows whose inputs are known badly (confidence low) are kept apart.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from amped.estimation.uncertainty import ERROR_LAWS, error_band, holds
from amped.estimation.validated import DENSE, MIXTURE, validated
from amped.validation.measurements import MEMORY
from amped.validation.residuals import FITS, Residual, validated_runs

FITTED, SEEN, CLOCKED = "coefficients_fitted_on", "of_sources_seen_by_a_fit", "of_sources_seen_by_clocks_alone"
UNSEEN = "of_sources_that_no_fit_has_seen"
TRUSTED, LOW = "high_and_medium_confidence", "low_confidence"
# With fewer rows the rank correlation says nothing: with two it is always 1 or -1.
FEWEST_RANKED = 3


class By(enum.StrEnum):
    """The property that rows are grouped by."""

    SOURCE = "source"
    ACCELERATOR = "accelerator"
    MODEL = "model"
    SOFTWARE = "software"


# What each group is called.
NAMES: Mapping[By, Callable[[Residual], str]] = {
    By.SOURCE: lambda r: r.measurement.source or "unnamed",
    By.ACCELERATOR: lambda r: r.accelerator,
    By.MODEL: lambda r: r.measurement.network,
    By.SOFTWARE: lambda r: str(r.measurement.settings.get("software", "unnamed")),
}
Parts = dict[str, list[Residual]]


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
    missed, groups = sum(r.missed for r in rows), dict[str, list[float]]()
    for r in rows:
        if (error := r.aligned_error) is not None:
            groups.setdefault(r.measurement.group, []).append(error)
    if not groups:
        return Accuracy(0, 0, missed)
    sizes = np.array([np.mean(np.abs(errors)) for errors in groups.values()])
    return Accuracy(
        sum(map(len, groups.values())), len(groups), missed,
        mean_absolute_error_fraction=float(np.mean(sizes)), median_absolute_error_fraction=float(np.median(sizes)),
        percentile_90_absolute_error_fraction=float(np.percentile(sizes, 90)), largest_absolute_error_fraction=float(sizes.max()),
        mean_signed_error_fraction=float(np.mean([*map(np.mean, groups.values())])),
        rank_correlation=_rank_correlation_within_networks(rows),
    )  # fmt: skip


def split(rows: Iterable[Residual], name: Callable[[Residual], str], names: Iterable[str] = ()) -> Parts:
    """The rows by what a function says of each: the given names first, also those without a row."""
    parts: Parts = {first: [] for first in names}
    for r in rows:
        parts.setdefault(name(r), []).append(r)
    return parts


def groups(rows: Sequence[Residual], by: By) -> Iterator[tuple[str, str, list[Residual]]]:
    """Rows by group and by confidence, as (name, confidence, rows), in the order of the table."""
    for confidence, alike in by_confidence(rows).items():
        yield from ((name, confidence, group) for name, group in split(alike, NAMES[by]).items())


def by_confidence(rows: Sequence[Residual]) -> Parts:
    """The rows that are good enough for a judgment, and the other rows."""
    return split(rows, lambda r: TRUSTED if r.trusted else LOW, (TRUSTED, LOW))


def by_fit(rows: Sequence[Residual]) -> Parts:
    """The rows by what has seen them: a fit of coefficients, one of other rows of their source, that of clocks, or none.

    The clocks under load are fitted to all rows of high and medium confidence of the table that comes with amped.
    """
    seen = {r.measurement.source for r in rows if r.measurement.fitted}
    clocked = {run.source for run in validated() if run.confidence != "low"}

    def fit(r: Residual) -> str:
        source = r.measurement.source
        return FITTED if r.fitted else SEEN if source in seen else CLOCKED if source in clocked else UNSEEN

    return split(rows, fit, (FITTED, SEEN, CLOCKED, UNSEEN))


def by_network(rows: Sequence[Residual]) -> Parts:
    """The rows that were modeled by their kind of network: dense, or a mixture of experts."""
    return split((r for r in rows if r.ground), lambda r: r.ground.experts if r.ground else "", (DENSE, MIXTURE))


def within_bands(rows: Sequence[Residual]) -> dict[str, tuple[int, int]]:
    """For each quantity with a band: how many rows of high and medium confidence lie inside theirs, and of how many.

    The band of a row comes from the shipped errors without those of its own source, so that no row vouches for itself; so
    does its prediction, where a fit without its source is known.
    """
    without = {run.id: run.without_source for run in validated() if run.without_source is not None}
    counts, runs = {}, [run for run in validated_runs(rows, without) if run.confidence != "low"]
    strangers = {
        source: [run for run in validated() if run.source != source] for source in {run.source for run in runs}
    }
    for law in ERROR_LAWS:
        of_law = [run for run in runs if run.quantity == law.quantity]
        inside = sum(holds(error_band(run.ground, strangers[run.source], law), run) for run in of_law)
        counts[law.quantity] = (inside, len(of_law))
    return counts


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


def _rank_correlation_within_networks(rows: Sequence[Residual]) -> float | None:
    """How well predictions order the runs of one network by speed: the mean rank correlation of the networks.

    Sources spell one network in several ways. Therefore networks are the same if two digits of their numbers of
    parameters and their numbers of experts are equal. All repeats of one configuration together are one run.
    """
    ranks, sizes = [], []
    for of_network in split((r for r in rows if r.times), _network).values():
        # Tokens per second and accelerator, measured and predicted.
        runs = split(of_network, lambda r: r.measurement.group).values()
        rates = np.array([np.mean([r.tokens / np.array(r.times) for r in repeats], axis=0) for repeats in runs]).T
        if len(runs) >= FEWEST_RANKED and (rank := rank_correlation(*rates)) is not None:
            ranks.append(rank)
            sizes.append(len(runs))
    return float(np.average(ranks, weights=sizes)) if ranks else None


def _network(r: Residual) -> str:
    """The network of a row by its sizes; by its name if they are not known."""
    return f"{r.ground.number_of_parameters:.2g} {r.ground.number_of_experts:g}" if r.ground else NAMES[By.MODEL](r)


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """Spearman's rank correlation; ties have their mean rank. None if all values of one side are equal.

    Source: definition.
    """
    ranks = [_ranks(one), _ranks(other)]
    return None if 0 in np.ptp(ranks, axis=1) else float(np.corrcoef(ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; the mean of their ranks for those that are equal."""
    _, places, times = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(times) - times / 2)[places])
