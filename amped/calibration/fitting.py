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
        """The standard deviation of each coefficient before the fit, which moves coefficients in this unit."""
        return np.array([c.doubt for c in self.coefficients])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The lower and the upper bound of each coefficient, as distances from the start, in doubts."""
        limits = [c.within(v) for c, v in zip(self.coefficients, self.start, strict=True)]
        low, high = np.array(limits).reshape(-1, 2).T
        return (low - self.start) / self.doubts, (high - self.start) / self.doubts

    def errors(self, moved: Array) -> Array:
        """Logarithms of predicted over measured times: a row for each setting, a column for each observation.

        Args:
            moved: for each setting, the distance of each coefficient from its start, in doubts.
        """
        columns = self.start + moved * self.doubts
        values = {c.name: np.ascontiguousarray(columns[:, i]) for i, c in enumerate(self.coefficients)}
        return np.stack([np.log(o.times(values) / o.measured_time) for o in self.observations], axis=-1)


def rounded(values: Array, digits: int) -> Array:
    """The values, each rounded to this number of significant digits."""
    return np.asarray(np.vectorize(lambda value: float(f"{value:.{digits}g}"))(values))


def optimizer() -> Any:
    """The module of scipy that finds the least sum of squares; only fits need it.

    Raises:
        ConfigError: if scipy is not installed.
    """
    return from_extra("scipy.optimize", "fit", "a fit to measurements")


def fitted(task: Task, tell: Tell = lambda _: None) -> Array:
    """The fitted values: a row for each fit (each row of `weights`), a column for each coefficient.

    Args:
        task: the coefficients, the observations, and which of them each fit sees.
        tell: takes lines of progress.

    Raises:
        ConfigError: if scipy is not installed.
    """
    optimize = optimizer()
    (fits, observations), coefficients = task.weights.shape, len(task.coefficients)
    is_error = np.tile(np.arange(observations + coefficients) < observations, fits)

    @lru_cache(maxsize=1)  # scipy asks for the slopes where it asked for the residuals
    def linearized(moved: bytes) -> tuple[Array, Array]:
        """The residuals and their derivatives, from the bytes of the distances: an array is no key of a cache."""
        return _linearized(task, np.frombuffer(moved).reshape(fits, coefficients))

    def tell_step(intermediate_result: Any) -> None:
        """Tells the mean error and the largest move of the first fit."""
        moved = intermediate_result.x
        mean_error = np.exp(np.mean(np.abs(NOISE * linearized(moved.tobytes())[0][:observations]))) - 1
        distance = np.max(np.abs(moved[:coefficients]))
        tell(f"step {intermediate_result.nit}: mean error {mean_error:.1%}, moved by {distance:.2g} of what is doubted")

    solution = optimize.least_squares(
        lambda moved: linearized(moved.tobytes())[0], np.zeros(fits * coefficients), lambda moved: linearized(moved.tobytes())[1],
        tuple(np.tile(bound, fits) for bound in task.bounds), method="dogbox", loss=lambda squares: _loss(squares, is_error),
        ftol=SETTLED, xtol=SETTLED, max_nfev=MOST_STEPS, callback=tell_step,
    )  # fmt: skip
    return np.asarray(task.start + solution.x.reshape(fits, coefficients) * task.doubts)


def _linearized(task: Task, moved: Array) -> tuple[Array, Array]:
    """The residuals of all fits, one fit after another, and their derivatives by each coefficient of each fit.

    The residuals of a fit are the errors that it sees, in units of the noise, and the distance of each coefficient from
    its start. Derivatives are finite differences within the bounds; all settings are evaluated at once.

    Args:
        task: the fits.
        moved: for each fit, the distance of each coefficient from its start, in doubts.
    """
    fits, coefficients = moved.shape
    signs = np.where(moved + DIFFERENCE > task.bounds[1], -1.0, 1.0)
    nearby = moved[:, None, :] + DIFFERENCE * signs[:, None, :] * np.eye(coefficients)
    errors, nearby_errors = np.split(
        task.errors(np.concatenate([moved, nearby.reshape(-1, coefficients)])) / NOISE, [fits]
    )
    nearby_errors = nearby_errors.reshape(fits, coefficients, -1)
    slopes = task.weights[:, None, :] * (nearby_errors - errors[:, None, :]) / (DIFFERENCE * signs[:, :, None])
    distances = np.broadcast_to(np.eye(coefficients), (fits, coefficients, coefficients))
    derivatives = np.zeros((fits, len(task.observations) + coefficients, fits, coefficients))
    derivatives[range(fits), :, range(fits)] = np.concatenate([np.moveaxis(slopes, 1, 2), distances], axis=1)
    return np.concatenate([task.weights * errors, moved], axis=1).ravel(), derivatives.reshape(-1, fits * coefficients)


def _loss(squares: Array, is_error: Mask) -> Array:
    """Huber's loss of errors, and the plain square of distances from the start; below, the first two derivatives.

    Args:
        squares: the squares of all residuals.
        is_error: for each residual, whether it is an error; else it is a distance.
    """
    size = np.sqrt(squares)
    is_far = is_error & (size > OUTLYING)
    value = np.where(is_far, OUTLYING * (2 * size - OUTLYING), squares)
    size = np.maximum(size, OUTLYING)
    return np.stack([value, np.where(is_far, OUTLYING / size, 1.0), np.where(is_far, -OUTLYING / (2 * size**3), 0.0)])
