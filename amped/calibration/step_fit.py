"""The equations of the fit to all steps: the cost that the fit makes small, and its steps.

The cost, over all steps i and all numbers x_j, is

    sum_i w_i 2 (sqrt(1 + (e_i / NOISE)^2) - 1)  +  sum_j ((x_j - parent_j(x)) / width_j)^2

with e_i the logarithm of predicted over measured time and w_i one over the repeats of the configuration. Far errors
count linearly, so that one odd row does not take the numbers along. Each step of Gauss and Newton makes the cost small for
times that are linear in the numbers, within the bounds; the best of the whole step, its half and its quarter is taken.
Source: scipy.optimize.least_squares, loss soft_l1 (the first sum); Nocedal and Wright, Numerical Optimization (2006),
section 10.3 (Gauss-Newton with a line search); Gelman et al., Bayesian Data Analysis (2013), chapter 5 (the second sum).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from amped.calibration.fitting import NOISE, Tell, optimizer
from amped.calibration.frozen_steps import Frozen
from amped.calibration.step_numbers import Drawn
from amped.engine.evaluate import Array

# A fit is finished when no number moves by more than this share of its width.
SETTLED = 0.005
SHARES = (1.0, 0.5, 0.25)


def weights(groups: Sequence[str], is_seen: Sequence[bool]) -> Array:
    """The weight of each step in a fit: 1 / the number of seen steps of its group; 0 for a step that is not seen.

    Args:
        groups: the configuration of each step.
        is_seen: for each step, whether the fit sees it.
    """
    sizes = Counter(group for group, seen in zip(groups, is_seen, strict=True) if seen)
    return np.array([1 / sizes[group] if seen else 0.0 for group, seen in zip(groups, is_seen, strict=True)])


def robust(squares: Array) -> Array:
    """The loss of squared errors in units of the noise: quadratic for small ones, linear for large ones.

    Source: scipy.optimize.least_squares, soft_l1.
    """
    return np.asarray(2 * (np.sqrt(1 + squares) - 1))


def cost(errors: Array, weight: Array, distances: Array) -> Array:
    """The cost that the fit makes small, by the equation at the head of this page.

    Args:
        errors: the error of each step, for one setting or for many (the last axis is that of the steps).
        weight: the weight of each step.
        distances: the distance of each number from the value it is drawn to, in widths.
    """
    return np.asarray(np.sum(weight * robust((errors / NOISE) ** 2), axis=-1) + np.sum(distances**2, axis=-1))


def linear_fit(errors: Array, slopes: Array, weight: Array, drawn: Drawn, start: Array) -> Array:
    """The values of the numbers that make the cost smallest if errors are linear in the numbers.

    Args:
        errors: the error of each step at the start.
        slopes: the slope of each error by each number.
        weight: the weight of each step; steps of weight 0 are left out.
        drawn: the values that the numbers are drawn to, and their bounds.
        start: the values of the numbers.
    """
    seen = weight > 0
    errors, slopes, weight = errors[seen], slopes[seen], weight[seen]
    steps = len(errors)
    distance_slopes = (np.eye(len(start)) - drawn.shares) / drawn.widths[:, None]
    matrix = np.concatenate([slopes / NOISE, distance_slopes]) * drawn.widths
    offset = np.concatenate([errors / NOISE, drawn.distances(start)])

    def loss(squares: Array) -> Array:
        """The loss of each square and its first two derivatives: robust for errors, the plain square for distances."""
        root = np.sqrt(1 + squares[:steps])
        ones = np.ones(len(squares) - steps)
        error_losses = (weight * robust(squares[:steps]), weight / root, -weight / (2 * root**3))
        return np.stack(
            [np.concatenate([*parts]) for parts in zip(error_losses, (squares[steps:], ones, 0 * ones), strict=True)]
        )

    solution = optimizer().least_squares(
        lambda moved: matrix @ moved + offset, np.zeros(len(start)), lambda _: matrix, loss=loss, method="dogbox",
        bounds=(np.minimum(drawn.low - start, 0) / drawn.widths, np.maximum(drawn.high - start, 0) / drawn.widths),
    )  # fmt: skip
    return np.asarray(np.clip(start + solution.x * drawn.widths, drawn.low, drawn.high))


def fitted_steps(frozen: Frozen, start: Array, weight: Array, most_steps: int, tell: Tell = lambda _: None) -> Array:
    """The values of the numbers for each of many fits at once.

    Args:
        frozen: the steps as functions of the numbers.
        start: where each fit starts, a row for each fit.
        weight: the weights of the steps in each fit, a row for each fit.
        most_steps: the most steps of Gauss and Newton.
        tell: takes lines of progress.
    """
    values = start
    for step in range(most_steps):
        errors, slopes = frozen.linearized(values)
        fits = range(len(values))
        aims = np.stack([linear_fit(errors[i], slopes[i], weight[i], frozen.drawn, values[i]) for i in fits])
        best, costs = _best_points(frozen, values, aims, errors, weight)
        moved = float(np.max(np.abs(best - values) / frozen.drawn.widths, initial=0.0))
        tell(f"step {step + 1}: mean cost {np.mean(costs):.3f}, moved by {moved:.2g} widths")
        values = best
        if moved < SETTLED:
            break
    return values


def refitted_steps(frozen: Frozen, start: Array, weight: Array) -> Array:
    """The values of the numbers for many fits that start from one, each with other weights.

    One step of Gauss and Newton for all of them together, whose slopes are those at the start.

    Args:
        frozen: the steps as functions of the numbers.
        start: the values of the numbers where each fit starts.
        weight: the weights of the steps in each fit, a row for each fit.
    """
    errors, slopes = (part[0] for part in frozen.linearized(start[None]))
    return np.stack([linear_fit(errors, slopes, each, frozen.drawn, start) for each in weight])


def _best_points(frozen: Frozen, values: Array, aims: Array, errors: Array, weight: Array) -> tuple[Array, Array]:
    """For each fit, the point of least cost among its values, its aim and two points between; and that cost.

    Args:
        frozen: the steps as functions of the numbers.
        values: the values of the numbers, a row for each fit.
        aims: the values that the linear fit gives, a row for each fit.
        errors: the errors of the steps at the values, a row for each fit.
        weight: the weights of the steps, a row for each fit.
    """
    tried = np.stack([values, *(values + share * (aims - values) for share in SHARES)])
    errors_ahead = frozen.errors(tried[1:].reshape(-1, values.shape[1])).reshape(len(SHARES), *errors.shape)
    costs = cost(np.concatenate([errors[None], errors_ahead]), weight, frozen.drawn.distances(tried))
    best_place = np.argmin(costs, axis=0), range(len(values))
    return tried[best_place], costs[best_place]
