"""Every coefficient: what selects it, its bounds, its values in the tables, and the rows where it was fitted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from amped.calibration.coefficients import BY_NAME, MOST_OF_A_STACK, MOST_OF_AN_ACCELERATOR
from amped.configuring.values import read_value
from amped.tables.table_files import ABOUT, KERNELS, SOFTWARE, SYSTEMS
from amped.tables.tables import Row, Tables
from amped.theory.language.catalogue import Catalogue
from amped.theory.language.quantity import ACCELERATOR, MAPPING, SYSTEM

# For each table: what its rows are about, and how many numbers of a row may be fitted.
SELECTED_BY = {KERNELS: "accelerator", SYSTEMS: "system", SOFTWARE: "software stack"}
LIMITS = {KERNELS: MOST_OF_AN_ACCELERATOR, SOFTWARE: MOST_OF_A_STACK}
PRECISION, ALL_ALIKE = "precision", "all alike"
# The last words of names that are coefficients.
NAMED_AS_ONE = re.compile(
    r"(_efficiency|_fraction|_latency|_overhead_time|_launch_time|reconfiguration_time|_ramp_(bytes|depth|length|rows)|_operand_bytes|"
    r"(wave|tile)_quantization|energy_of_operand_byte|cache_intensity|split_product_time|oversubscription|reserved_memory_bytes|fused_backward_products|_traffic_factor|_copies|_head_ramp|_edge_length|"
    r"host_time_per_(layer|step|launch)|_tile_rows|elementary_function_time|random_number_time)$"
)
NOT_NUMBERS = ("boolean", "choice", "layout", "pattern", "blocks", "kernel_table")


@dataclass(frozen=True)
class Listed:
    """One coefficient.

    Attributes:
        selected_by: "accelerator", "precision", "system", "software stack", or "all alike".
        lowest, highest: the bounds of a fit, or else of accepted values; None if there is no bound.
        fittable: whether `amped calibrate` fits it.
        values: the value in each row that has it, in the canonical unit; the default if no table has it.
        fitted_in: the rows whose value was fitted to measurements.
        unverified_in: the rows whose value is in doubt.
    """

    name: str
    unit: str
    meaning: str
    selected_by: tuple[str, ...]
    lowest: float | None
    highest: float | None
    fittable: bool
    values: dict[str, float]
    fitted_in: tuple[str, ...] = ()
    unverified_in: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counted:
    """The fitted numbers of one row of a table.

    Attributes:
        fitted: the columns that are fitted, with those that the row inherits.
        limit: the most numbers of the row that may be fitted.
    """

    table: str
    row: str
    fitted: tuple[str, ...]
    limit: int


def coefficients(tables: Tables, quantities: Catalogue) -> list[Listed]:
    """Every coefficient, those of accelerators first.

    Args:
        tables: the lookup tables, whose columns may be coefficients.
        quantities: the catalogue, whose parameters may be coefficients.
    """
    rows = {table: list(_rows(tables, table)) for table in SELECTED_BY}
    columns = [
        (table, column) for table, rows_of_table in rows.items() for row in rows_of_table for column in row.columns
    ]
    categories = (ACCELERATOR, SYSTEM, MAPPING, None)
    columns += [("", name) for name, q in quantities.items() if q.mark.kind == "parameter" and q.category in categories]
    table_of: dict[str, str] = {}
    for table, name in columns:
        if name in quantities and name not in table_of and _is_coefficient(name, table, quantities):
            table_of[name] = table
    return [
        _listed(name, table, [row for row in rows.get(table, ()) if row.columns.get(name) is not None], quantities)
        for name, table in table_of.items()
    ]


def counts(tables: Tables) -> list[Counted]:
    """The fitted numbers of each row that has some, and how many it may have."""
    return [
        Counted(table, row.name, fitted=row.fitted, limit=limit)
        for table, limit in LIMITS.items()
        for row in _rows(tables, table)
        if row.fitted
    ]


def _rows(tables: Tables, table: str) -> Iterator[Row]:
    """The rows of a table; none if there is no such table."""
    if table in tables.all_names():
        yield from (tables.row(table, name) for name in tables.names(table))


def _is_coefficient(name: str, table: str, quantities: Catalogue) -> bool:
    """Whether a name is a number that no datasheet has.

    That is each number of kernel efficiencies; in other tables, the last words of the name tell.
    """
    is_number = (
        name not in ABOUT and quantities[name].mark.kind != "records" and quantities[name].mark.unit not in NOT_NUMBERS
    )
    return is_number and (table == KERNELS or NAMED_AS_ONE.search(name) is not None)


def _listed(name: str, table: str, rows: list[Row], quantities: Catalogue) -> Listed:
    """One coefficient as a line of the list.

    Args:
        name: the coefficient.
        table: the table that has it as a column; empty for a parameter that no table has.
        rows: the rows of the table that have a value of it.
        quantities: the catalogue.
    """
    quantity, coefficient = quantities[name], BY_NAME.get(name)
    mark = quantity.mark
    lowest = mark.at_least if mark.at_least is not None else mark.above
    values = {row.name: float(read_value(quantity, row.columns[name])) for row in rows}
    default = quantity.formulas[0].function() if not table and not quantity.formulas[0].arguments else None
    return Listed(
        name, mark.unit, quantity.summary, selected_by=_selected_by(name, table, quantities),
        lowest=coefficient.lowest if coefficient else lowest, highest=coefficient.highest if coefficient else mark.at_most,
        fittable=coefficient is not None, values=values or ({"default": float(default)} if default is not None else {}),
        fitted_in=tuple(row.name for row in rows if name in row.fitted),
        unverified_in=tuple(row.name for row in rows if name in row.unverified),
    )  # fmt: skip


def _selected_by(name: str, table: str, quantities: Catalogue) -> tuple[str, ...]:
    """What selects the value of a coefficient: what the rows of its table are about, and perhaps the precision.

    The precision selects it too, if only products in one precision use the coefficient.
    """
    users = [quantity for quantity in quantities.values() if any(name in f.arguments for f in quantity.formulas)]
    is_of_one_precision = all(any(f.mark.choice == "matrix_precision" for f in user.formulas) for user in users)
    return (SELECTED_BY.get(table, ALL_ALIKE), *((PRECISION,) if is_of_one_precision and table == KERNELS else ()))
