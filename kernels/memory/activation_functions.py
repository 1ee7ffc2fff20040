"""Activation functions with one minimum, and their slope computed from their output.

Source: arXiv 2210.10246, section on in-place GELU, corrected.

Let (x*, y*) be the minimum, and σ = ±1 the side of it on which the input was. The slope is an analytic function of the
signed square root t = σ·√(y − y*). It has no singularity at the minimum, but the slope as a function of y has one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

# The degree of the fitted slope, so that its error stays below that of an output rounded to the format.
DEGREES = {torch.float32: 9, torch.float16: 7, torch.bfloat16: 5}
# The number of terms of the Chebyshev series that is cut to a polynomial.
_FIT_TERMS = 64
# The steps of Newton's method: more than twice those for convergence to 1e-10 from the starts below.
_NEWTON_STEPS = 12
# Below this |t|, the input is that of the tangent, because y − y* has no digits left there.
_AT_MINIMUM = 1e-6
# Within this distance from the minimum, outputs in fp32 are computed as a series: a difference such as 1 + erf has lost
# seven of the digits that the slope is computed from, and as many units in the last place.
NEAR = 2.0**-6
# The outputs left of the minimum where a new polynomial of the slope begins, from zero down.
LEFT_ENDS = (0.0, -0.001, -0.02)
# Here the slope from the rounded output and one bit has too large an error, with any formula: 1.24 times torch's own,
# where 1.1 is the most allowed.
_TWO_BITS = {("silu", torch.bfloat16)}
# A quarter of bf16's unit in the last place, as bits of fp32; the upper half of these bits is the bf16 number.
QUARTER_UNIT = 1 << 14
# Outputs on the left that are closer to zero than this are inverted by their logarithm; those that are closer to it than
# _LAST are not: Newton's method would leave the numbers that have a logarithm, and the slope is as good as zero.
_TAIL, _LAST = -0.02, 1e-250
# The argument of GELU's hyperbolic tangent is the first number times (x plus the second one times x³).
_RATE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


@dataclass(frozen=True)
class ActivationFunction:
    """A function that falls to its one minimum and rises after it.

    Attributes:
        value, slope: the function and its derivative, both for float64 tensors.
        minimum_input, minimum_value, curvature: where the slope is zero, the function and its second derivative there.
        right_ends: the values of t right of the minimum where a new polynomial begins; after the last one the slope is
            1.
        tail_start: gives an input left of the one that is sought, from the logarithm of 1/|y|.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    minimum_input: float
    minimum_value: float
    curvature: float
    right_ends: tuple[float, ...]
    tail_start: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Pieces:
    """Polynomials of the slope, one for each interval of t.

    Attributes:
        ends: the ends of the intervals, in ascending order; above the last end, the slope is 1.
        centers: the polynomial of an interval takes t minus the center of the interval.
        coefficients: a row for each interval, the constant first.
    """

    ends: np.ndarray
    centers: np.ndarray
    coefficients: np.ndarray


def _normal(x: Tensor) -> Tensor:
    """The cumulative normal distribution."""
    return 0.5 * torch.special.erfc(-x / math.sqrt(2))


def _density(x: Tensor) -> Tensor:
    """The density of the normal distribution."""
    return torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _inner(x: Tensor) -> Tensor:
    """The argument of the hyperbolic tangent in GELU's approximation."""
    return _RATE * (x + _CUBIC * x**3)


def _tanh_slope(x: Tensor) -> Tensor:
    """The slope of GELU's approximation by a hyperbolic tangent."""
    rise = _RATE * (1 + 3 * _CUBIC * x**2)
    half = torch.sigmoid(2 * _inner(x))
    return half + 2 * x * half * torch.sigmoid(-2 * _inner(x)) * rise


GELU = ActivationFunction(
    name="gelu", value=lambda x: x * _normal(x), slope=lambda x: _normal(x) + x * _density(x),
    minimum_input=-0.7517915246935645, minimum_value=-0.16997120747990369, curvature=0.43149399231404695,
    right_ends=(0.0, 1.0, 1.94, 2.4), tail_start=lambda depth: -torch.sqrt(2 * depth),
)  # fmt: skip
TANH_GELU = ActivationFunction(
    name="gelu_tanh", value=lambda x: x * torch.sigmoid(2 * _inner(x)), slope=_tanh_slope,
    minimum_input=-0.7524614220710163, minimum_value=-0.17004075057125403, curvature=0.43040009102485851,
    right_ends=(0.0, 1.0, 1.94, 2.4), tail_start=lambda depth: -((depth / (2 * _RATE * _CUBIC)) ** (1 / 3)),
)  # fmt: skip
SILU = ActivationFunction(
    name="silu", value=lambda x: x * torch.sigmoid(x),
    slope=lambda x: torch.sigmoid(x) * (1 + x * torch.sigmoid(-x)),
    minimum_input=-1.278464542761074, minimum_value=-0.2784645427610738, curvature=0.2178117057197201,
    right_ends=(0.0, 1.0, 2.0, 3.0, 4.5), tail_start=lambda depth: -1.5 * depth - 2,
)  # fmt: skip
FUNCTIONS = {f.name: f for f in (GELU, TANH_GELU, SILU)}


def bits_kept(name: str, dtype: torch.dtype) -> int:
    """The number of bits kept for an entry: 1, or 2 for SiLU in bf16.

    The first bit tells whether the input is right of the minimum, the second one whether the exact output is farther
    from zero than the rounded output.
    """
    return 2 if (name, dtype) in _TWO_BITS else 1


def middle_of_half(output: Tensor, farther: Tensor) -> Tensor:
    """The middle of those numbers that round to an output in bf16 and are farther from zero than the output, or nearer to it.

    `farther` tells which of the two. The result is in fp32, a quarter of a unit in the last place away from the output.
    At a power of two, toward zero, it is a quarter of the smaller unit there. Zero stays zero.
    """
    wide = output.float()
    moved = wide.view(torch.int32) + (2 * farther.int() - 1) * QUARTER_UNIT
    return torch.where(output == 0, wide, moved.view(torch.float32))


def signed_root(function: ActivationFunction, output: Tensor, above: Tensor) -> Tensor:
    """The coordinate t of an output: the square root of its height above the minimum, negative left of the minimum.

    `above` tells whether the input is right of the minimum.
    """
    rounded, rest = two_parts(function.minimum_value)
    root = torch.sqrt(((output - rounded) - rest).clamp_min(0))
    return torch.where(above, root, -root)


def two_parts(number: float) -> tuple[float, float]:
    """A number rounded to fp32, and the rest of it; with both, fp32 arithmetic keeps the digits of the number."""
    rounded = float(np.float32(number))
    return rounded, number - rounded


@functools.cache
def series_near_minimum(function: ActivationFunction) -> tuple[float, ...]:
    """The coefficients of (g(x) − y*)/d² in d = x − x*, for |d| below `NEAR`; the terms left out are below 1e-11."""

    def quotient(offset: Any) -> Any:
        d = torch.as_tensor(offset)
        return ((function.value(function.minimum_input + d) - function.minimum_value) / (d * d)).numpy()

    return tuple(_polynomial(quotient, NEAR, 3, 3).tolist())


def _polynomial(function: Callable[[Any], Any], half: float, terms: int, degree: int) -> np.ndarray:
    """The coefficients, the constant first, of a polynomial near a function of offsets from −half to half.

    It has the first terms of the function's Chebyshev series.
    """
    series = np.polynomial.chebyshev.chebinterpolate(lambda node: function(half * node), terms)
    return np.polynomial.chebyshev.cheb2poly(series[: degree + 1]) / half ** np.arange(degree + 1)


def _value_at(x: Tensor, coefficients: Iterable[Tensor]) -> Tensor:
    """The value of a polynomial by Horner's method; the coefficients end with the constant."""
    return functools.reduce(lambda value, coefficient: torch.addcmul(coefficient, value, x), coefficients)


def exact_near_minimum(function: ActivationFunction, x: Tensor, output: Tensor) -> Tensor:
    """Corrects fp32 outputs near the minimum in place and returns all outputs.

    The corrected outputs are rounded correctly, so that the slope can be computed from them.
    """
    (start, rest), (low, left) = two_parts(function.minimum_input), two_parts(function.minimum_value)
    entries, flat = x.reshape(-1), output.view(-1)  # also of a tensor without dimensions, which takes no places
    near = (flat < function.minimum_value + NEAR * NEAR * function.curvature / 2).nonzero(as_tuple=True)
    d = (entries[near] - start) - rest
    quotient = _value_at(d, reversed(d.new_tensor(series_near_minimum(function))))
    flat[near] = low + (left + d * d * quotient)
    return output


def input_of(function: ActivationFunction, output: Tensor, above: Tensor) -> Tensor:
    """The input of an output; `above` tells whether the input is right of the minimum.

    It is found by Newton's method on t, or on the logarithm of small outputs left of the minimum.
    """
    tail = ~above & (output > _TAIL)
    t = torch.where(tail, 0.5, signed_root(function, output, above))
    tangent = function.minimum_input + t * math.sqrt(2 / function.curvature)
    x = torch.where(t > 1, output + 0.05, tangent)
    for _ in range(_NEWTON_STEPS):
        root = signed_root(function, function.value(x), x >= function.minimum_input)
        rise = function.slope(x) / (2 * root)
        x = torch.where((t.abs() < _AT_MINIMUM) | (root == t), x, x - (root - t) / rise)
    return torch.where(tail, _tail_input(function, torch.where(tail, output, _TAIL)), x)


def _tail_input(function: ActivationFunction, output: Tensor) -> Tensor:
    """The input left of the minimum that gives a small negative output.

    There log|g| is concave, so that Newton's steps from the left never overshoot.
    """
    logarithm = torch.log((-output).clamp_min(_LAST))
    x = function.tail_start(-logarithm)
    for _ in range(_NEWTON_STEPS):
        value = function.value(x)
        x = x - (torch.log(-value) - logarithm) * value / function.slope(x)
    return x


def slope_of_output(function: ActivationFunction, output: Tensor, above: Tensor) -> Tensor:
    """The slope at the input that gives an output; it is exact up to the rounding of the output."""
    exact = function.slope(input_of(function, output, above))
    at_minimum = output <= function.minimum_value
    last = ~above & (output.abs() < _LAST)
    return torch.where(at_minimum, 0.0, torch.where(last, output, exact))


@functools.cache
def fit_pieces(function: ActivationFunction, degree: int) -> Pieces:
    """Polynomials of this degree for the slope as a function of t, fitted to the exact slope."""
    left = -np.sqrt(np.array(LEFT_ENDS) - function.minimum_value)
    ends = np.array([*left, *function.right_ends])
    centers, halves = (ends[:-1] + ends[1:]) / 2, np.diff(ends) / 2

    def fitted(center: float, half: float) -> np.ndarray:
        return _polynomial(lambda offset: exact_slope(function, center + offset), half, _FIT_TERMS, degree)

    return Pieces(ends, centers, np.array(list(map(fitted, centers, halves))))


def exact_slope(function: ActivationFunction, t: np.ndarray) -> np.ndarray:
    """The exact slope at coordinates t."""
    root = torch.as_tensor(t, dtype=torch.float64)
    return slope_of_output(function, root * root + function.minimum_value, root >= 0).numpy()


def approximate_slope(pieces: Pieces, t: Tensor) -> Tensor:
    """The fitted slope at coordinates t, as the kernels for accelerators compute it, in the tensor's own precision."""
    ends, centers, rows = (t.new_tensor(part) for part in (pieces.ends[1:-1], pieces.centers, pieces.coefficients))
    piece = torch.bucketize(t, ends)
    offset = t - centers.index_select(0, piece)
    slope = _value_at(offset, (power.index_select(0, piece) for power in reversed(rows.T.contiguous())))
    return slope.masked_fill_(t > pieces.ends[-1], 1.0).masked_fill_(t == 0, 0.0)
