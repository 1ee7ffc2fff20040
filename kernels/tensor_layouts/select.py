"""From a table of measured times to a plan."""

from __future__ import annotations

from dataclasses import replace

from amped.kernels.tensor_layouts.exact import solve_exact
from amped.kernels.tensor_layouts.graph import lower_bound, relations, time_of
from amped.kernels.tensor_layouts.plan import Plan
from amped.kernels.tensor_layouts.spec import LAYERS
from amped.kernels.tensor_layouts.table import Table
from amped.kernels.tensor_layouts.variables import variables_of


def select(table: Table, attention: str = "explicit", batch: int = 0) -> Plan:
    """The fastest plan by measured times; `batch` gives a number of sequences that was not timed.

    Raises:
        InfeasibleError: with the operator for which no row fits.
    """
    given = relations(table, LAYERS[attention])
    layouts = solve_exact(given)
    dimensions = replace(table.dimensions, batch=batch or table.dimensions.batch)
    return Plan(
        dimensions, layouts, attention, "exact", _chosen(table, layouts, attention), time_of(given, layouts),
        lower_bound(given), {**table.measured, "dimensions": vars(table.dimensions)},
    )  # fmt: skip


def _chosen(table: Table, layouts: dict[str, str], attention: str) -> dict[str, dict[str, object]]:
    """The implementation and the time of each operator in the chosen layouts."""
    found = {}
    for operator in LAYERS[attention]:
        row = table.times(operator.name)[tuple(layouts[name] for name in variables_of(operator))]
        found[operator.name] = {"impl": row["impl"], "time_us": row["time_us"]}
    return found
