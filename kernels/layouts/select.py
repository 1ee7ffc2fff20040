"""From a table of measured times to a plan."""

from __future__ import annotations

from dataclasses import replace

from amped.base.errors import ConfigError, did_you_mean, quoted
from amped.kernels.layouts.exact import solve_exact
from amped.kernels.layouts.graph import lower_bound, relations, time_of
from amped.kernels.layouts.paths import STRATEGIES, solve_by_paths
from amped.kernels.layouts.plan import Plan
from amped.kernels.layouts.spec import LAYERS, OPERATORS
from amped.kernels.layouts.table import Table
from amped.kernels.layouts.variables import variables_of


def select(
    table: Table, strategy: str = "exact", split: tuple[str, ...] = (), attention: str = "explicit", batch: int = 0
) -> Plan:
    """The plan that a strategy chooses from measured times; `batch` gives a number of sequences that was not timed.

    Raises:
        InfeasibleError: with the operator for which no row fits.
        ConfigError: for an unknown strategy, or for variables to split with a strategy that does not split.
    """
    if strategy not in STRATEGIES:
        told = did_you_mean(strategy, STRATEGIES) or f"one of {', '.join(STRATEGIES)}"
        raise ConfigError(f"there is no strategy {quoted(strategy)}", told)
    if split and strategy == "exact":
        raise ConfigError("an exact choice splits nothing", "leave --split-vars out, or choose another --strategy")
    given = relations(table, LAYERS[attention])
    layouts = solve_exact(given) if strategy == "exact" else solve_by_paths(given, strategy, split, attention)
    dimensions = replace(table.dimensions, batch=batch or table.dimensions.batch)
    return Plan(
        dimensions, layouts, attention, strategy, _chosen(table, layouts, attention), time_of(given, layouts),
        lower_bound(given), {**table.measured, "dimensions": vars(table.dimensions)},
    )  # fmt: skip


def _chosen(table: Table, layouts: dict[str, str], attention: str) -> dict[str, dict[str, object]]:
    """The implementation and the time of each operator in the chosen layouts."""
    found = {}
    for operator in LAYERS[attention]:
        row = table.times(operator.name)[tuple(layouts[name] for name in variables_of(OPERATORS[operator.name]))]
        found[operator.name] = {"impl": row["impl"], "time_us": row["time_us"]}
    return found
