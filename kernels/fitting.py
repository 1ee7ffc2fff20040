"""Coefficients fitted to samples: differential evolution within bounds, and each half of the records by the other half.

Formulas with waves and fastest tiles have no gradients, and a whole population is one run of formulas that broadcast.
Source: `scipy.optimize.differential_evolution`, which comes with the extra `fit`. A member moves toward the best one and by
the difference of two others; of 45 fits to measured kernels none stuck so, where the strategy best1bin did in 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amped.base.extras import from_extra
from amped.kernels.predicting import Array

MEMBERS, GENERATIONS, CROSSING, SEED = 32, 220, 0.9, 1
# Bounds further apart than this are searched by magnitude, those from nought on by the cube.
MAGNITUDE = 10
WEIGHTS = (0.4, 0.9)
# A population whose losses spread less than this, relative to their mean, has found its best.
AGREEMENT = 1e-9
# Fewer clean records than this tell no coefficient.
FEWEST_RECORDS = 8
Bounds = Mapping[str, tuple[float, float]]
Mask = NDArray[np.bool_]
# Times of all records for columns of coefficients.
Model = Callable[[Mapping[str, Array]], Array]


@dataclass(frozen=True)
class Fitted:
    """Coefficients, and signed errors (predicted over measured, less one) of each record.

    Attributes:
        errors: by the fit to all records; `held_out` by the one to the other half of them.
    """

    values: Mapping[str, float]
    errors: Array
    held_out: Array


def fitted(model: Model, times: Array, bounds: Bounds) -> Fitted:
    """Coefficients within bounds with the least mean absolute logarithm of predicted over measured."""
    every = np.ones(len(times), dtype=bool)
    values = _evolved(model, times, bounds, every)
    held_out = np.empty(len(times))
    for left_out in halves(len(times)):
        other = _evolved(model, times, bounds, ~left_out)
        held_out[left_out] = (_times(model, other, len(times)) / times - 1)[left_out]
    return Fitted(values, _times(model, values, len(times)) / times - 1, held_out)


def halves(count: int) -> Sequence[Mask]:
    """Two halves of the records, every other one."""
    even = np.arange(count) % 2 == 0
    return (even, ~even)


def _times(model: Model, values: Mapping[str, float], count: int) -> Array:
    """Times for one set of coefficients."""
    made = model({name: np.full((1, 1), value) for name, value in values.items()})
    times: Array = np.broadcast_to(made, (1, count))[0]
    return times


def _evolved(model: Model, times: Array, bounds: Bounds, seen: Mask) -> dict[str, float]:
    optimize = from_extra("scipy.optimize", "fit", "a fit")

    def losses(members: Array) -> Array:
        values = _within(members.T, bounds)
        made = model({name: values[:, i : i + 1] for i, name in enumerate(bounds)})
        off = np.abs(np.log(np.broadcast_to(made, (len(values), len(times))) / times))
        mean: Array = np.mean(off[:, seen], axis=1)
        return mean

    found = optimize.differential_evolution(
        losses, [(0.0, 1.0)] * len(bounds), strategy="currenttobest1bin", popsize=-(-MEMBERS // len(bounds)),
        maxiter=GENERATIONS, mutation=WEIGHTS, recombination=CROSSING, tol=AGREEMENT, rng=SEED, polish=False,
        updating="deferred", vectorized=True,
    )  # fmt: skip
    return dict(zip(bounds, map(float, _within(found.x[None], bounds)[0]), strict=True))


def _within(members: Array, bounds: Bounds) -> Array:
    """Coefficients of members between 0 and 1: evenly within near bounds, else as densely as coefficients are that small."""
    low, high = (np.array([b[i] for b in bounds.values()]) for i in (0, 1))
    floor = np.where(low > 0, low, 1.0)
    by_magnitude = floor * (high / floor) ** members
    near = low + (high - low) * members
    values: Array = np.select([low == 0, high > MAGNITUDE * low], [high * members**3, by_magnitude], near)
    return values
