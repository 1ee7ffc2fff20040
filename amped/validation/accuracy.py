"""How good predictions are: the errors of many rows in a few numbers.

All errors are errors of the step's time. The error of a measured rate is converted, so that a positive error means too
slow everywhere. Rows whose inputs are known badly (confidence low) are kept apart.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from amped.estimation.uncertainty import ERROR_LAWS, Bands
from amped.estimation.validated import DENSE, MIXTURE, Left, shipped_shifts, validated
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


# The name of a row's group, for each property.
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
    """The errors of rows that compare the same quantity. All repeats of one configuration together count as one row."""
    missed, errors_by_group = sum(r.missed for r in rows), dict[str, list[float]]()
    for r in rows:
        if (error := r.aligned_error) is not None:
            errors_by_group.setdefault(r.measurement.group, []).append(error)
    if not errors_by_group:
        return Accuracy(compared=0, groups=0, missed=missed)
    absolute_errors = np.array([np.mean(np.abs(errors)) for errors in errors_by_group.values()])
    return Accuracy(
        compared=sum(map(len, errors_by_group.values())), groups=len(errors_by_group), missed=missed,
        mean_absolute_error_fraction=float(np.mean(absolute_errors)), median_absolute_error_fraction=float(np.median(absolute_errors)),
        percentile_90_absolute_error_fraction=float(np.percentile(absolute_errors, 90)), largest_absolute_error_fraction=float(absolute_errors.max()),
        mean_signed_error_fraction=float(np.mean([*map(np.mean, errors_by_group.values())])),
        rank_correlation=_rank_correlation_within_networks(rows),
    )  # fmt: skip


def split(rows: Iterable[Residual], name: Callable[[Residual], str], names: Iterable[str] = ()) -> Parts:
    """The rows in groups.

    Args:
        rows: the rows.
        name: the name of a row's group.
        names: the groups that come first, and are there even without a row.
    """
    parts: Parts = {group: [] for group in names}
    for r in rows:
        parts.setdefault(name(r), []).append(r)
    return parts


def groups(rows: Sequence[Residual], by: By) -> Iterator[tuple[str, str, list[Residual]]]:
    """The rows of each group at each confidence, as (name of the group, confidence, rows), in the order of the table."""
    for confidence, rows_of_confidence in by_confidence(rows).items():
        yield from ((name, confidence, group) for name, group in split(rows_of_confidence, NAMES[by]).items())


def by_confidence(rows: Sequence[Residual]) -> Parts:
    """The rows of high and medium confidence under TRUSTED, and the others under LOW."""
    return split(rows, lambda r: TRUSTED if r.trusted else LOW, (TRUSTED, LOW))


def by_fit(rows: Sequence[Residual]) -> Parts:
    """The rows by which fit has seen them, under FITTED, SEEN, CLOCKED and UNSEEN.

    A fit of coefficients was made with the row itself (FITTED) or with other rows of its source (SEEN). The clocks under load were
    fitted to all rows of high and medium confidence of the table that comes with amped (CLOCKED: their sources).
    """
    fitted_sources = {r.measurement.source for r in rows if r.measurement.fitted}
    clocked_sources = {run.source for run in validated() if run.confidence != "low"}

    def seen_by(r: Residual) -> str:
        """The name of a row's part."""
        source = r.measurement.source
        if r.fitted:
            return FITTED
        if source in fitted_sources:
            return SEEN
        return CLOCKED if source in clocked_sources else UNSEEN

    return split(rows, seen_by, (FITTED, SEEN, CLOCKED, UNSEEN))


def by_network(rows: Sequence[Residual]) -> Parts:
    """The rows with a prediction by kind of network: DENSE, or MIXTURE of experts."""
    return split((r for r in rows if r.ground), lambda r: r.ground.experts if r.ground else "", (DENSE, MIXTURE))


def within_bands(rows: Sequence[Residual]) -> dict[str, tuple[int, int]]:
    """How many rows of high and medium confidence lie inside their error band, and how many there are, for each quantity with a band.

    The band of a row comes from the shipped errors without those of its own source, so that no row confirms itself. Its
    prediction does so too, if a fit without its source is known.
    """
    counts, runs = {}, [run for run in validated_runs(rows, shipped_shifts()) if run.confidence != "low"]
    for law in ERROR_LAWS:
        law_runs = [run for run in runs if run.quantity == law.quantity]
        other_bands = {
            source: Bands([run for run in validated() if run.source != source], law)
            for source in {run.source for run in law_runs}
        }
        inside = sum(other_bands[run.source].band(run.ground).holds(run.size(Left.SOURCE)) for run in law_runs)
        counts[law.quantity] = (inside, len(law_runs))
    return counts


def of_time(rows: Sequence[Residual]) -> list[Residual]:
    """The residuals that compare the time of a step, directly or as a rate."""
    return [r for r in rows if r.of_time]


def of_memory(rows: Sequence[Residual]) -> list[Residual]:
    """The residuals that compare memory."""
    return [r for r in rows if r.quantity == MEMORY]


def verdicts(rows: Sequence[Residual]) -> dict[str, int]:
    """The number of runs that ran out of memory and of runs that did not, each with how many are predicted wrongly.

    The keys are ran_out_of_memory, of_these_predicted_to_fit, ran and of_these_predicted_not_to_fit.
    """
    out_of_memory = [r for r in rows if r.quantity == FITS and not r.missed]
    runs = {r.measurement.id: r for r in rows if not (r.measurement.out_of_memory or r.missed or r.measured is None)}
    return {
        "ran_out_of_memory": len(out_of_memory), "of_these_predicted_to_fit": sum(bool(r.fits_in_memory) for r in out_of_memory),
        "ran": len(runs), "of_these_predicted_not_to_fit": sum(not r.fits_in_memory for r in runs.values()),
    }  # fmt: skip


def _rank_correlation_within_networks(rows: Sequence[Residual]) -> float | None:
    """The mean of the rank correlations of predicted and measured speed within each network; None if no network has enough runs.

    Sources spell one network in several ways. Therefore networks are the same if two digits of their numbers of parameters and
    their numbers of experts are equal. All repeats of one configuration together are one run. Networks are weighted by runs.
    """
    correlations, numbers_of_runs = [], []
    for rows_of_network in split((r for r in rows if r.times), network_label).values():
        # Tokens per second and accelerator, measured and predicted.
        runs = split(rows_of_network, lambda r: r.measurement.group).values()
        rates = np.array([np.mean([r.tokens / np.array(r.times) for r in repeats], axis=0) for repeats in runs]).T
        if len(runs) >= FEWEST_RANKED and (correlation := rank_correlation(*rates)) is not None:
            correlations.append(correlation)
            numbers_of_runs.append(len(runs))
    return float(np.average(correlations, weights=numbers_of_runs)) if correlations else None


def network_label(r: Residual) -> str:
    """A label of a row's network: its numbers of parameters and experts, or its name if they are not known."""
    return f"{r.ground.number_of_parameters:.2g} {r.ground.number_of_experts:g}" if r.ground else NAMES[By.MODEL](r)


def rank_correlation(values: np.ndarray, other_values: np.ndarray) -> float | None:
    """Spearman's rank correlation of two arrays of equal length; ties have their mean rank. None if all values of one array are equal.

    Source: definition.
    """
    ranks = [_ranks(values), _ranks(other_values)]
    return None if 0 in np.ptp(ranks, axis=1) else float(np.corrcoef(ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values have their mean rank."""
    _, indices, repeats = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(repeats) - repeats / 2)[indices])
