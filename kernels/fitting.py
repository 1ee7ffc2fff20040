"""Coefficients fitted to samples: differential evolution within bounds, and each half of the records by the other half.

Formulas with waves and fastest tiles have no gradients, and a whole population is one run of formulas that broadcast.
Source: Zhang and Sanderson, IEEE Trans. Evol. Comput. 13(5), 2009 (JADE): a member moves toward one of the leaders, and half
way to a bound that it would cross; of 45 fits to measured kernels none stuck, where the strategy best/1/bin with clipped
bounds did in 6. No library that amped needs anyway has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amped.kernels.predicting import Array

MEMBERS, LEADERS, GENERATIONS, CROSSING, SEED = 32, 5, 220, 0.9, 1
# Bounds further apart than this are searched by magnitude, those from nought on by the cube.
MAGNITUDE = 10
LEAST_WEIGHT, MOST_WEIGHT = 0.4, 0.9
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
    random = np.random.default_rng(SEED)

    def losses(members: Array) -> Array:
        values = _within(members, bounds)
        made = model({name: values[:, i : i + 1] for i, name in enumerate(bounds)})
        off = np.abs(np.log(np.broadcast_to(made, (len(members), len(times))) / times))
        mean: Array = np.mean(off[:, seen], axis=1)
        return mean

    members = random.random((MEMBERS, len(bounds)))
    loss = losses(members)
    for _ in range(GENERATIONS):
        one, two = (members[random.permutation(MEMBERS)] for _ in range(2))
        ahead = members[random.choice(np.argsort(loss)[:LEADERS], MEMBERS)]
        weight = random.uniform(LEAST_WEIGHT, MOST_WEIGHT, (MEMBERS, 1))
        mutant = members + weight * (ahead - members) + weight * (one - two)
        mutant = np.where(mutant < 0, members / 2, np.where(mutant > 1, (members + 1) / 2, mutant))
        tried = np.where(random.random(members.shape) < CROSSING, mutant, members)
        better = (found := losses(tried)) < loss
        members, loss = np.where(better[:, None], tried, members), np.where(better, found, loss)
    best = _within(members[np.argmin(loss)], bounds)
    return dict(zip(bounds, map(float, best), strict=True))


def _within(members: Array, bounds: Bounds) -> Array:
    """Coefficients of members between 0 and 1: evenly within near bounds, else as densely as coefficients are that small."""
    low, high = (np.array([b[i] for b in bounds.values()]) for i in (0, 1))
    floor = np.where(low > 0, low, 1.0)
    by_magnitude = floor * (high / floor) ** members
    near = low + (high - low) * members
    values: Array = np.select([low == 0, high > MAGNITUDE * low], [high * members**3, by_magnitude], near)
    return values
