"""Coefficients fitted to samples: differential evolution within bounds, and each half of the records by the other half.

Formulas with waves and fastest tiles have no gradients, and a whole population is one run of formulas that broadcast.
Source: Storn and Price, J. Global Optim. 11 (1997), strategy best/1/bin. No library that amped needs anyway has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from amped.kernels.predicting import Array

MEMBERS, GENERATIONS, CROSSING, SEED = 32, 220, 0.9, 1
LEAST_WEIGHT, MOST_WEIGHT = 0.4, 0.9
# Fewer clean records than this tell no coefficient.
FEWEST_RECORDS = 8
Bounds = Mapping[str, tuple[float, float]]
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


def halves(count: int) -> Sequence[Array]:
    """Two halves of the records, every other one."""
    even = np.arange(count) % 2 == 0
    return (even, ~even)


def _times(model: Model, values: Mapping[str, float], count: int) -> Array:
    """Times for one set of coefficients."""
    made = model({name: np.full((1, 1), value) for name, value in values.items()})
    return np.broadcast_to(made, (1, count))[0]


def _evolved(model: Model, times: Array, bounds: Bounds, seen: Array) -> dict[str, float]:
    random = np.random.default_rng(SEED)
    low, high = (np.array([b[i] for b in bounds.values()]) for i in (0, 1))

    def losses(members: Array) -> Array:
        made = model({name: members[:, i : i + 1] for i, name in enumerate(bounds)})
        return np.mean(np.abs(np.log(np.broadcast_to(made, (len(members), len(times))) / times))[:, seen], axis=1)

    members = low + (high - low) * random.random((MEMBERS, len(bounds)))
    loss = losses(members)
    for _ in range(GENERATIONS):
        one, two = (members[random.permutation(MEMBERS)] for _ in range(2))
        weight = random.uniform(LEAST_WEIGHT, MOST_WEIGHT, (MEMBERS, 1))
        mutant = members[np.argmin(loss)] + weight * (one - two)
        crossed = random.random(members.shape) < CROSSING
        tried = np.clip(np.where(crossed, mutant, members), low, high)
        better = (found := losses(tried)) < loss
        members, loss = np.where(better[:, None], tried, members), np.where(better, found, loss)
    best = members[np.argmin(loss)]
    return dict(zip(bounds, map(float, best), strict=True))
