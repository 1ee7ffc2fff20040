"""From a table of measured times to a plan."""

from __future__ import annotations

from dataclasses import replace

from amped.kernels.tensor_layouts.exact import solve_exact
from amped.kernels.tensor_layouts.graph import lower_bound, relations, time_of
from amped.kernels.tensor_layouts.plan import Plan
from amped.kernels.tensor_layouts.spec import LAYERS
from amped.kernels.tensor_layouts.table import Table


def select(table: Table, attention: str = "explicit", batch: int = 0) -> Plan:
    """The fastest plan by measured times; `batch` gives a number of sequences that was not timed.

    Raises:
        InfeasibleError: with the operator for which no row fits.
    """
    given = relations(table, LAYERS[attention])
    layouts = solve_exact(given)
    rows = {r.name: table.times(r.name)[tuple(layouts[name] for name in r.variables)] for r in given}
    return Plan(
        dimensions=replace(table.dimensions, batch=batch or table.dimensions.batch), layouts=layouts, attention=attention,
        strategy="exact", operators={name: {part: row[part] for part in ("impl", "time_us")} for name, row in rows.items()},
        predicted_us=time_of(given, layouts), lower_bound_us=lower_bound(given),
        measured={**table.measured, "dimensions": vars(table.dimensions)},
    )  # fmt: skip
