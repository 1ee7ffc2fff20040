"""The fastest choice of layouts, found exactly: min-sum elimination of one variable after the other.

Forward and backward pass, residual connections and shared layouts are all in one problem. The only approximation is
that the time of a layer is the sum of its operators' times. Source: Dechter, Bucket elimination (Artificial
Intelligence 113, 1999).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import ConfigError
from amped.kernels.tensor_layouts.graph import (
    InfeasibleError,
    Relation,
    consistent,
    layouts_seen,
    lower_bound,
    relations,
    time_of,
)
from amped.kernels.tensor_layouts.plan import Plan
from amped.kernels.tensor_layouts.spec import LAYERS
from amped.kernels.tensor_layouts.table import Table

LARGEST = 5e7
# Times with a dimension for each variable, which has length one if they do not depend on the variable.
Times = NDArray[np.float64]


def select(table: Table, attention: str = "explicit", batch: int = 0) -> Plan:
    """The fastest plan by measured times; `batch`, if not 0, is the number of sequences of the plan.

    Raises:
        InfeasibleError: with the operator for which no row fits.
    """
    all_relations = relations(table, LAYERS[attention])
    layouts = solve_exact(all_relations)
    rows = {r.name: table.times(r.name)[tuple(layouts[name] for name in r.variables)] for r in all_relations}
    return Plan(
        dimensions=replace(table.dimensions, batch=batch or table.dimensions.batch), layouts=layouts, attention=attention,
        strategy="exact", operators={name: {part: row[part] for part in ("impl", "time_us")} for name, row in rows.items()},
        predicted_us=time_of(all_relations, layouts), lower_bound_us=lower_bound(all_relations),
        measured={**table.measured, "dimensions": vars(table.dimensions)},
    )  # fmt: skip


def solve_exact(given: Iterable[Relation]) -> dict[str, str]:
    """The layout of each variable, by name, with the least sum of times.

    Raises:
        InfeasibleError: if no choice suits every operator.
        ConfigError: if a table of the elimination would be larger than 5e7.
    """
    usable = consistent(given)
    domains = dict(sorted(layouts_seen(usable).items()))
    tables = [_times(relation, domains) for relation in usable]
    open_axes = {axis for axis, layouts in enumerate(domains.values()) if len(layouts) > 1}
    eliminated: dict[int, Times] = {}
    while open_axes:
        axis = min(open_axes, key=lambda each: (_joined_size(each, tables), each))
        if _joined_size(axis, tables) > LARGEST:
            what = f"the choice of {list(domains)[axis]} would need a table of more than {LARGEST:.0e} times"
            raise ConfigError(what, "measure fewer layouts")
        joined: Times = sum(_on(axis, tables), np.zeros(()))
        eliminated[axis] = joined
        tables = [*(each for each in tables if each.shape[axis] == 1), joined.min(axis, keepdims=True)]
        open_axes.remove(axis)
    if not np.isfinite(sum(tables)).all():
        raise InfeasibleError("no choice of layouts suits every operator at once", "measure more: --all")
    return _read_back(eliminated, domains)


def _times(relation: Relation, domains: Mapping[str, list[str]]) -> Times:
    """The times of a relation, with an axis for each variable of the problem; infinite if there is no row."""
    times = np.full([len(domains[name]) if name in relation.variables else 1 for name in domains], np.inf)
    for choice, time in relation.times.items():
        layouts = dict(zip(relation.variables, choice, strict=True))
        times[tuple(domains[name].index(layouts[name]) if name in layouts else 0 for name in domains)] = time
    return times


def _on(axis: int, tables: Sequence[Times]) -> list[Times]:
    """The tables that depend on the variable of an axis."""
    return [table for table in tables if table.shape[axis] > 1]


def _joined_size(axis: int, tables: Sequence[Times]) -> int:
    """The size of the sum of all tables that depend on the variable of an axis."""
    return prod(np.broadcast_shapes(*(table.shape for table in _on(axis, tables))))


def _read_back(eliminated: dict[int, Times], domains: Mapping[str, list[str]]) -> dict[str, str]:
    """The best layout of each variable, found in reverse order of elimination.

    `eliminated` has, by axis, the times from which the variable was eliminated.
    """
    chosen = [0] * len(domains)
    for axis, times in reversed(eliminated.items()):
        places = (place if length > 1 else 0 for place, length in zip(chosen, times.shape, strict=True))
        column = times[tuple(slice(None) if dimension == axis else place for dimension, place in enumerate(places))]
        chosen[axis] = int(np.argmin(column))
    return {name: layouts[place] for (name, layouts), place in zip(domains.items(), chosen, strict=True)}
