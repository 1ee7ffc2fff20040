"""The fastest choice of layouts, found exactly: min-sum elimination of one variable after the other.

Forward and backward pass, residual connections and shared layouts are all in one problem. The only approximation is
that the time of a layer is the sum of its operators' times. Source: Dechter, Bucket elimination (Artificial
Intelligence 113, 1999).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import ConfigError
from amped.kernels.layouts.graph import InfeasibleError, Relation, consistent, layouts_seen

LARGEST = 5e7


@dataclass(frozen=True)
class Factor:
    """Times over the domains of some variables; infinite if there is no row."""

    variables: tuple[str, ...]
    times: NDArray[np.float64]

    def spread(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """The times with a dimension for each of `names`; it has length one if they do not depend on the name."""
        order = [self.variables.index(name) for name in names if name in self.variables]
        moved = self.times.transpose(order)
        lengths = iter(moved.shape)
        return moved.reshape([next(lengths) if name in self.variables else 1 for name in names])


def solve_exact(given: Iterable[Relation], bound: Mapping[str, str] | None = None) -> dict[str, str]:
    """The layouts with the least sum of times.

    Raises:
        InfeasibleError: if no choice suits every operator.
        ConfigError: if a table of the elimination would be larger than 5e7.
    """
    left = consistent(given, bound)
    domains = layouts_seen(left)
    factors = [_factor(relation, domains) for relation in left]
    eliminated: list[tuple[str, Factor]] = []
    while remaining := sorted({name for factor in factors for name in factor.variables}):
        name = min(remaining, key=lambda each: (_table_size(each, factors, domains), each))
        factors, joined = _without(name, factors, domains)
        eliminated.append((name, joined))
    if not np.isfinite(sum(float(factor.times) for factor in factors)):
        raise InfeasibleError("no choice of layouts suits every operator at once", "measure more: --all")
    return _read_back(eliminated, domains)


def _factor(relation: Relation, domains: Mapping[str, list[str]]) -> Factor:
    times = np.full([len(domains[name]) for name in relation.variables], np.inf)
    for choice, time in relation.times.items():
        times[tuple(domains[name].index(lay) for name, lay in zip(relation.variables, choice, strict=True))] = time
    return Factor(relation.variables, times)


def _neighbors(name: str, factors: Iterable[Factor]) -> tuple[str, ...]:
    """The variable, and the variables that it shares a factor with."""
    others = {other for factor in factors if name in factor.variables for other in factor.variables}
    return (name, *sorted(others - {name}))


def _table_size(name: str, factors: Iterable[Factor], domains: Mapping[str, list[str]]) -> int:
    return prod(len(domains[each]) for each in _neighbors(name, factors))


def _without(
    name: str, factors: list[Factor], domains: Mapping[str, list[str]]
) -> tuple[list[Factor], Factor]:  # fmt: skip
    """The factors without a variable: the factors that have it are summed, and the best of its layouts is taken."""
    if _table_size(name, factors, domains) > LARGEST:
        raise ConfigError(f"the choice of {name} would need a table of more than {LARGEST:.0e} times", "bind a layout")
    names = _neighbors(name, factors)
    shape = [len(domains[each]) for each in names]
    joined = np.zeros(shape)
    for factor in factors:
        if name in factor.variables:
            joined = joined + factor.spread(names)
    rest = [factor for factor in factors if name not in factor.variables]
    return [*rest, Factor(names[1:], joined.min(axis=0))], Factor(names, joined)


def _read_back(eliminated: list[tuple[str, Factor]], domains: Mapping[str, list[str]]) -> dict[str, str]:
    """The best layout of each variable, in reverse order of elimination."""
    chosen: dict[str, int] = {}
    for name, factor in reversed(eliminated):
        place: tuple[Any, ...] = (slice(None), *(chosen[other] for other in factor.variables[1:]))
        column = factor.times[place]
        chosen[name] = int(np.argmin(column))
    return {name: domains[name][place] for name, place in chosen.items()}
