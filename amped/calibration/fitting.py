"""Few coefficients to many measured times: bounded, drawn to where they start, deaf to outliers, the same on every run.

Wanted is the most probable value of each coefficient: measured times scatter about predicted ones by `NOISE`, tables are
off by each coefficient's doubt. Found by projected Levenberg-Marquardt steps. Fits that leave some observations out go in
step with the one that has all, so that each observation is evaluated once for all of them, along one axis. No library is
needed for these thirty lines, and none takes many fits at once.

Source: Kanzow, Yamashita and Fukushima, J. Comput. Appl. Math. 172 (2004), section 3 (projected steps); Huber, Ann. Math.
Statist. 35 (1964).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from amped.calibration.coefficients import Coefficient
from amped.calibration.observations import Observation
from amped.engine.evaluate import Array

# Two sources that measure the same configuration differ by 2 to 6.5 %; beyond twice that an observation counts linearly.
NOISE, OUTLYING = 0.05, 2.0
# In doubts of a coefficient: the step of differences, and the one that no longer matters.
DIFFERENCE, SETTLED = 0.01, 2e-3
MOST_STEPS = 30
DAMPING, EASED, STIFFENED, STIFFEST = 1e-3, 0.3, 8.0, 1e6
Told = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """What is fitted, to what.

    Attributes:
        coefficients: those that may change; `start` their values in the table.
        observations: measured times.
        weights: for each fit, which observations it sees: a row of ones and zeros.
    """

    coefficients: Sequence[Coefficient]
    start: Array
    observations: Sequence[Observation]
    weights: Array

    @property
    def doubts(self) -> Array:
        """The unit in which coefficients are moved."""
        return np.array([c.doubt for c in self.coefficients])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The bounds as distances from the start, in doubts."""
        both = [c.within(v) for c, v in zip(self.coefficients, self.start, strict=True)]
        low, high = np.array(both).reshape(-1, 2).T
        return (low - self.start) / self.doubts, (high - self.start) / self.doubts

    def errors(self, moved: Array) -> Array:
        """Logarithms of predicted over measured, for each of many settings and each observation."""
        columns = self.start + moved * self.doubts
        values = {c.name: np.ascontiguousarray(columns[:, i]) for i, c in enumerate(self.coefficients)}
        return np.stack([np.log(o.times(values) / o.measured_time) for o in self.observations], axis=-1)


def fitted(task: Task, tell: Told = lambda _: None) -> Array:
    """The coefficients of each fit: a row for each row of `weights`."""
    low, high = task.bounds
    moved = np.zeros((len(task.weights), len(task.coefficients)))
    errors, slopes = _linearized(task, moved)
    cost, damping = _cost(task, moved, errors), np.full(len(moved), DAMPING)
    for number in range(1, MOST_STEPS + 1):
        tried = np.clip(moved + _steps(task, moved, errors, slopes, damping), low, high)
        far = np.max(np.abs(tried - moved), axis=1)
        if np.all((far < SETTLED) | (damping > STIFFEST)):
            break
        next_errors, next_slopes = _linearized(task, tried)
        next_cost = _cost(task, tried, next_errors)
        better = next_cost < cost
        moved = np.where(better[:, None], tried, moved)
        errors = np.where(better[:, None], next_errors, errors)
        slopes = np.where(better[:, None, None], next_slopes, slopes)
        cost, damping = np.where(better, next_cost, cost), damping * np.where(better, EASED, STIFFENED)
        mean = float(np.exp(np.mean(np.abs(errors[0]))) - 1)
        tell(f"step {number}: mean error {mean:.1%}, moved by {far[0]:.2g} of what is doubted")
    return task.start + moved * task.doubts


def _linearized(task: Task, moved: Array) -> tuple[Array, Array]:
    """Errors of each fit, and how they change with each coefficient: differences inwards, all in one evaluation."""
    fits, number = moved.shape
    signs = np.where(moved + DIFFERENCE > task.bounds[1], -1.0, 1.0)
    nearby = moved[:, None, :] + DIFFERENCE * signs[:, None, :] * np.eye(number)
    every = task.errors(np.concatenate([moved, nearby.reshape(-1, number)]))
    errors, changed = every[:fits], every[fits:].reshape(fits, number, -1)
    return errors, np.moveaxis((changed - errors[:, None, :]) / (DIFFERENCE * signs[:, :, None]), 1, 2)


def _cost(task: Task, moved: Array, errors: Array) -> Array:
    """Huber's loss of the errors a fit sees, and the square of each coefficient's distance from its start."""
    size = np.abs(errors) / NOISE
    loss = np.where(size <= OUTLYING, size * size, OUTLYING * (2 * size - OUTLYING))
    return np.asarray(np.sum(task.weights * loss, axis=1) + np.sum(moved * moved, axis=1))


def _steps(task: Task, moved: Array, errors: Array, slopes: Array, damping: Array) -> Array:
    """The damped Gauss-Newton step of each fit; a coefficient at a bound that is pushed outwards rests."""
    low, high = task.bounds
    reached = np.maximum(np.abs(errors) / NOISE, OUTLYING)
    weights = task.weights * (OUTLYING / reached) / NOISE**2
    pull = np.einsum("fo,fon,fo->fn", weights, slopes, errors) + moved
    curve = np.einsum("fo,fon,fom->fnm", weights, slopes, slopes) + np.eye(moved.shape[1])
    free = ~(((moved <= low) & (pull > 0)) | ((moved >= high) & (pull < 0)))
    curve = np.where(free[:, :, None] & free[:, None, :], curve, 0.0)
    diagonal = np.einsum("fnn->fn", curve)
    diagonal *= 1 + damping[:, None]
    diagonal += ~free
    return np.asarray(-np.linalg.solve(curve, np.where(free, pull, 0.0)[..., None])[..., 0])
