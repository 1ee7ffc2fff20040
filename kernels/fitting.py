"""Coefficients fitted to samples: differential evolution within bounds; each half is also predicted by the other half.

Formulas with waves and with a choice of the fastest tile have no useful gradients, and broadcasting formulas evaluate a
whole population in one run. Source: `scipy.optimize.differential_evolution`, which comes with the extra `fit`. A member
moves toward the best one and by the difference of two others. With this strategy none of 45 fits to measured kernels
got stuck; with the strategy best1bin 6 did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amped.base.extras import from_extra
from amped.kernels.predicting import Array

MEMBERS, GENERATIONS, CROSSING, SEED = 32, 220, 0.9, 1
# Bounds whose ratio is above this are searched on a logarithmic scale; bounds that start at zero, on a cubic one.
MAGNITUDE = 10
WEIGHTS = (0.4, 0.9)
# The search ends when the spread of a population's losses, relative to their mean, is below this.
AGREEMENT = 1e-9
# With fewer clean records, a coefficient is not fitted.
FEWEST_RECORDS = 8
Bounds = Mapping[str, tuple[float, float]]
Mask = NDArray[np.bool_]
# Coefficients by name, with a row for each set of them; and what gives the times of all records for these.
Columns = Mapping[str, Array]
Model = Callable[[Columns], Array]


@dataclass(frozen=True)
class Fitted:
    """The fitted coefficients, and the signed error (predicted over measured, minus one) of each record.

    Attributes:
        errors: the errors of the fit to all records.
        held_out: the errors of each half by the fit to the other half.
    """

    values: Mapping[str, float]
    errors: Array
    held_out: Array


def fitted(model: Model, times: Array, bounds: Bounds) -> Fitted:
    """The fit with the least mean absolute logarithm of predicted over measured times.

    Args:
        model: gives the times of all records for sets of coefficients.
        times: the measured times.
        bounds: the least and the largest value of each coefficient.
    """
    values = _evolved(model, times, bounds, np.ones(len(times), dtype=bool))
    held_out = np.empty(len(times))
    for left_out in halves(len(times)):
        other = _evolved(model, times, bounds, ~left_out)
        held_out[left_out] = _errors(model, other, times)[left_out]
    return Fitted(values, _errors(model, values, times), held_out)


def halves(count: int) -> Sequence[Mask]:
    """The masks of two halves of the records: every second one, and the others."""
    even = np.arange(count) % 2 == 0
    return (even, ~even)


def _errors(model: Model, values: Mapping[str, float], times: Array) -> Array:
    """The error of each record with one set of coefficients: predicted over measured time, minus one."""
    predicted = model({name: np.full((1, 1), value) for name, value in values.items()})
    errors: Array = (predicted / times - 1)[0]
    return errors


def _evolved(model: Model, times: Array, bounds: Bounds, mask: Mask) -> dict[str, float]:
    """The best coefficients by differential evolution; only the records of the mask count."""
    optimize = from_extra("scipy.optimize", "fit", "a fit")

    def losses(members: Array) -> Array:
        values = _within(members.T, bounds)
        made = model({name: values[:, i : i + 1] for i, name in enumerate(bounds)})
        deviations = np.abs(np.log(np.broadcast_to(made, (len(values), len(times))) / times))
        mean: Array = np.mean(deviations[:, mask], axis=1)
        return mean

    optimum = optimize.differential_evolution(
        losses, [(0.0, 1.0)] * len(bounds), strategy="currenttobest1bin", popsize=-(-MEMBERS // len(bounds)),
        maxiter=GENERATIONS, mutation=WEIGHTS, recombination=CROSSING, tol=AGREEMENT, rng=SEED, polish=False,
        updating="deferred", vectorized=True,
    )  # fmt: skip
    return dict(zip(bounds, map(float, _within(optimum.x[None], bounds)[0]), strict=True))


def _within(members: Array, bounds: Bounds) -> Array:
    """The coefficients of members of a population, whose values between 0 and 1 are mapped to the bounds.

    The scale is linear if the bounds are near to each other, cubic if they start at zero, else logarithmic.
    """
    low, high = (np.array([b[i] for b in bounds.values()]) for i in (0, 1))
    floor = np.where(low > 0, low, 1.0)
    by_magnitude = floor * (high / floor) ** members
    near = low + (high - low) * members
    values: Array = np.select([low == 0, high > MAGNITUDE * low], [high * members**3, by_magnitude], near)
    return values
