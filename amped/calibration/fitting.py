"""Fits few coefficients to many measured times, within bounds, near their start, robust to outliers, and reproducibly.

The fit finds the most probable value of each coefficient: measured times scatter around predicted ones by `NOISE`, and
a table's value is off by the coefficient's doubt. scipy finds it by trust regions within the bounds. The fit to all
observations and the fits that leave some out are solved as one problem, whose parts share no coefficient; each
observation is then evaluated once for all fits.

Source: Voglis and Lagaris, WSEAS Conf. Applied Mathematics (2004) (a rectangular trust region); Huber, Ann. Math. Statist. 35
(1964).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from amped.base.extras import from_extra
from amped.calibration.coefficients import Coefficient
from amped.calibration.observations import Observation
from amped.engine.evaluate import Array
from amped.estimation.own_runs import SCATTER

# The scatter of measured times. Errors beyond OUTLYING times NOISE count linearly.
NOISE, OUTLYING = SCATTER, 2.0
# The step of finite differences, in doubts of a coefficient; and the relative change below which a fit is finished.
DIFFERENCE, SETTLED = 0.01, 1e-5
MOST_STEPS = 100
Tell = Callable[[str], None]
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Task:
    """The coefficients to fit, and the observations to fit them to.

    Attributes:
        coefficients: the coefficients that may change.
        start: their values in the table.
        observations: measured times.
        weights: for each fit, a row of ones and zeros that says which observations it sees.
    """

    coefficients: Sequence[Coefficient]
    start: Array
    observations: Sequence[Observation]
    weights: Array

    @property
    def doubts(self) -> Array:
        """The doubt of each coefficient: the unit in which it is moved."""
        return np.array([c.doubt for c in self.coefficients])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The bounds as distances from the start, in doubts."""
        both = [c.within(v) for c, v in zip(self.coefficients, self.start, strict=True)]
        low, high = np.array(both).reshape(-1, 2).T
        return (low - self.start) / self.doubts, (high - self.start) / self.doubts

    def errors(self, moved: Array) -> Array:
        """Logarithms of predicted over measured times, for each of many settings and each observation."""
        columns = self.start + moved * self.doubts
        values = {c.name: np.ascontiguousarray(columns[:, i]) for i, c in enumerate(self.coefficients)}
        return np.stack([np.log(o.times(values) / o.measured_time) for o in self.observations], axis=-1)


def rounded(values: Array, digits: int) -> Array:
    """The values with so many digits."""
    return np.asarray(np.vectorize(lambda value: float(f"{value:.{digits}g}"))(values))


def optimizer() -> Any:
    """The module of scipy that finds the least sum of squares; only fits need it.

    Raises:
        ConfigError: if scipy is not installed.
    """
    return from_extra("scipy.optimize", "fit", "a fit to measurements")


def fitted(task: Task, tell: Tell = lambda _: None) -> Array:
    """The coefficients of each fit: a row for each row of `weights`.

    Raises:
        ConfigError: if scipy is not installed.
    """
    optimize = optimizer()
    (fits, seen), number = task.weights.shape, len(task.coefficients)
    is_error = np.tile(np.arange(seen + number) < seen, fits)

    @lru_cache(maxsize=1)  # scipy asks for the slopes where it asked for the residuals
    def linearized(moved: bytes) -> tuple[Array, Array]:
        return _linearized(task, np.frombuffer(moved).reshape(fits, number))

    def tell_step(intermediate_result: Any) -> None:
        moved = intermediate_result.x
        mean = np.exp(np.mean(np.abs(NOISE * linearized(moved.tobytes())[0][:seen]))) - 1
        far = np.max(np.abs(moved[:number]))
        tell(f"step {intermediate_result.nit}: mean error {mean:.1%}, moved by {far:.2g} of what is doubted")

    solution = optimize.least_squares(
        lambda moved: linearized(moved.tobytes())[0], np.zeros(fits * number), lambda moved: linearized(moved.tobytes())[1],
        tuple(np.tile(bound, fits) for bound in task.bounds), method="dogbox", loss=lambda squares: _loss(squares, is_error),
        ftol=SETTLED, xtol=SETTLED, max_nfev=MOST_STEPS, callback=tell_step,
    )  # fmt: skip
    return np.asarray(task.start + solution.x.reshape(fits, number) * task.doubts)


def _linearized(task: Task, moved: Array) -> tuple[Array, Array]:
    """The residuals, and how they change with each coefficient, by differences within the bounds, evaluated at once.

    The residuals of a fit are the errors that it sees, in units of the noise, and the distance of each coefficient from
    its start.
    """
    fits, number = moved.shape
    signs = np.where(moved + DIFFERENCE > task.bounds[1], -1.0, 1.0)
    nearby = moved[:, None, :] + DIFFERENCE * signs[:, None, :] * np.eye(number)
    errors, changed = np.split(task.errors(np.concatenate([moved, nearby.reshape(-1, number)])) / NOISE, [fits])
    changed = changed.reshape(fits, number, -1)
    slopes = task.weights[:, None, :] * (changed - errors[:, None, :]) / (DIFFERENCE * signs[:, :, None])
    distances = np.broadcast_to(np.eye(number), (fits, number, number))
    whole = np.zeros((fits, len(task.observations) + number, fits, number))
    whole[range(fits), :, range(fits)] = np.concatenate([np.moveaxis(slopes, 1, 2), distances], axis=1)
    return np.concatenate([task.weights * errors, moved], axis=1).ravel(), whole.reshape(-1, fits * number)


def _loss(squares: Array, is_error: Mask) -> Array:
    """Huber's loss for errors, the plain square for distances from the start; each with its first two derivatives."""
    size = np.sqrt(squares)
    linear = is_error & (size > OUTLYING)
    value = np.where(linear, OUTLYING * (2 * size - OUTLYING), squares)
    size = np.maximum(size, OUTLYING)
    return np.stack([value, np.where(linear, OUTLYING / size, 1.0), np.where(linear, -OUTLYING / (2 * size**3), 0.0)])
