"""The only reader of lookup tables: the shipped ones, those in `./lookup_tables/`, and those of `--lookup-tables`.

A table file is `{"table": NAME, "rows": {ROW: {COLUMN: VALUE, "aliases": […], "sources": […], "unverified": […]}}}`.
AMPeD's one-file form, `{TABLE: {ROW: {COLUMN: VALUE}}}`, is read too. Later folders overrule earlier ones row by row.
A row may derive from another: `{"extends": "H100 SXM", "memory_capacity": "96 GB"}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from amped.base.errors import TableError, did_you_mean, plain, quoted
from amped.base.record import dataclass
from amped.tables.table_files import (
    ABOUT,
    ACCELERATORS,
    COMPANIONS,
    KERNELS,
    LINKS,
    MODELS,
    SHIPPED,
    SOFTWARE,
    SYSTEMS,
    Rows,
    canonical_column,
    read_tables,
    shipped,
    table_files,
    user_folders,
)

SHIPPED_FOLDER = "amped/lookup_tables/"
NODE = "number_of_accelerators_per_node"
# What helps where the table has no row of a network.
OTHER_MODELS = (
    "(another one: --model ./config.json, of Hugging Face; state-space layers and linear attention are not modeled)"
)
LISTED = {
    ACCELERATORS: "accelerators",
    MODELS: "models",
    SYSTEMS: "systems",
    LINKS: "links",
    KERNELS: "kernel-efficiencies",
    SOFTWARE: "software",
}


@dataclass(frozen=True)
class Row:
    """One row of a table: its columns, and where the values come from.

    Attributes:
        columns: the values as they are written in the table, by canonical name.
        inherited: the columns whose values come from the row that this row extends.
        ancestors: the rows that this row extends, the nearest first.
        is_a_file: whether the row is a whole file, which another tool wrote, and is in no table.
    """

    table: str
    name: str
    columns: Mapping[str, Any] = field(repr=False)
    file: str
    inherited: frozenset[str] = frozenset()
    ancestors: tuple[str, ...] = ()
    is_a_file: bool = False

    def column(self, name: str) -> Any:
        """The value of a column.

        Raises:
            TableError: if the row has no such column.
        """
        found = self.columns.get(canonical_column(name), self.columns.get(name))
        if found is None:
            lacks = "has no value in column" if name in self.columns else "has no column"
            known = [column for column, value in self.columns.items() if column not in ABOUT and value is not None]
            raise TableError(f"row '{self.name}' of {self.table} {lacks} {quoted(name)}", did_you_mean(name, known))
        return found

    @property
    def is_shipped(self) -> bool:
        """Whether the row comes with amped."""
        return self.file.startswith(SHIPPED_FOLDER)

    @property
    def unverified(self) -> tuple[str, ...]:
        """The columns whose values are not confirmed by a source that somebody has read."""
        return tuple(self.columns.get("unverified") or ())

    @property
    def fitted(self) -> tuple[str, ...]:
        """The columns whose values were fitted to measured training steps."""
        return tuple(self.columns.get("fitted") or ())

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the row comes from."""
        return tuple(self.columns.get("sources") or ())

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the row."""
        return tuple(self.columns.get("aliases") or ())


class Tables:
    """All lookup tables of a run, in layers."""

    def __init__(self, folders: tuple[Path, ...] = ()) -> None:
        """Puts the tables of `folders` as layers over the shipped ones; a folder may also be a single file.

        Raises:
            FileError, TableError: for a folder or a file without lookup tables.
        """
        self._layers: dict[str, list[tuple[str, Rows]]] = {}
        self.notices: list[str] = []
        for folder in folders:
            for path in table_files(folder):
                found, told = read_tables(path)
                self.notices += [f"{path}: {notice}" for notice in told]
                for table, rows in found.items():
                    self._layers.setdefault(table, []).append((str(path), rows))

    def names(self, table: str) -> list[str]:
        """The names of the rows of a table, the shipped ones first.

        Raises:
            TableError: for an unknown table.
        """
        return list(dict.fromkeys(name for _, rows in self._stack(table) for name in rows))

    def all_names(self) -> list[str]:
        """The names of all tables, the shipped ones first."""
        return list(dict.fromkeys((*SHIPPED, *self._layers)))

    def has(self, table: str, name: str) -> bool:
        """Whether a table has a row with this name or alias."""
        return any(plain(name) in _index(rows) for _, rows in self._stack(table))

    def ships(self, table: str, name: str) -> bool:
        """Whether amped's own table has a row with this name or alias."""
        return table in SHIPPED and plain(name) in _index(shipped(table))

    def row(self, table: str, name: str) -> Row:
        """A row by its name or an alias, without regard to case, spaces and hyphens.

        Raises:
            TableError: for an unknown table or row, with near names; for rows that extend one another.
        """
        return self._row(table, name, self._stack(table), ())

    def _row(self, table: str, name: str, stack: list[tuple[str, Rows]], chain: tuple[str, ...]) -> Row:
        for depth in range(len(stack), 0, -1):
            file, rows = stack[depth - 1]
            found = _index(rows).get(plain(name)) if len(name) < 200 else None
            if found is None:
                continue
            base = rows[found].get("extends")
            if base is None:
                return Row(table, found, rows[found], file)
            if f"{file}:{found}" in chain:
                circle = " ← ".join(link.rpartition(":")[2] for link in (*chain, f":{found}"))
                raise TableError(f"rows of {table} extend one another: {circle}", "let one of them stand by itself")
            below = stack[: depth - 1] if plain(base) == plain(found) else stack
            return _derived(self._row(table, base, below, (*chain, f"{file}:{found}")), found, rows[found], file)
        known = {n for _, rows in stack for n in (*rows, *_aliases(rows))}
        hint = did_you_mean(name, sorted(known))
        needed = f", which '{chain[-1].rpartition(':')[2]}' extends" if chain else ""
        shown = f"`amped list {LISTED[table]}` shows them" if table in LISTED else ""
        shown += "; tables of your own need --lookup-tables DIR" if shown and len(stack) == 1 else ""
        other = f" {OTHER_MODELS}" if table == MODELS and not needed else ""
        raise TableError(f"table {table} has no row {quoted(name)}{needed}", f"{hint or shown}{other}")

    def _stack(self, table: str) -> list[tuple[str, Rows]]:
        """The layers of a table, the shipped one first."""
        own = [(f"{SHIPPED_FOLDER}{table}.json", shipped(table))] if table in SHIPPED else []
        layers = own + self._layers.get(table, [])
        if not layers:
            hint = did_you_mean(table, (*SHIPPED, *self._layers))
            raise TableError(f"there is no lookup table {quoted(table)}", hint or f"there are {', '.join(SHIPPED)}")
        return layers


def _derived(base: Row, name: str, own: Mapping[str, Any], file: str) -> Row:
    """A row that extends another: its own columns, the other row's columns for the rest, and the sources of both."""
    gone = {companion for column in own for companion in COMPANIONS.get(column, ())}
    inherited = {column: value for column, value in base.columns.items() if column not in {*ABOUT, *own, *gone}}
    unverified, fitted = (
        [*(own.get(told) or ()), *(c for c in base.columns.get(told) or () if c in inherited)]
        for told in ("unverified", "fitted")
    )
    sources = [*(own.get("sources") or ()), *base.sources]
    told: dict[str, Any] = {"unverified": unverified, "fitted": fitted, "sources": list(dict.fromkeys(sources))}
    if fitted:
        told["fitted_on"] = "; ".join(row["fitted_on"] for row in (own, base.columns) if row.get("fitted_on"))
    columns = {**inherited, **own, **told}
    return Row(base.table, name, columns, file, frozenset(inherited), (base.name, *base.ancestors))


def _aliases(rows: Rows) -> dict[str, str]:
    return {alias: name for name, row in rows.items() for alias in row.get("aliases") or ()}


def user_tables(extra: str | Path | None = None) -> Tables:
    """The shipped tables with the user's tables over them: first `./lookup_tables/`, then `extra`."""
    return Tables(user_folders(Path(extra) if extra else None))


_INDEXES: dict[int, tuple[Rows, dict[str, str]]] = {}
# A program that runs for long reads a user's tables again and again; without a limit, indexes of tables that nobody uses any more
# would pile up.
MOST_INDEXES = 64


def _index(rows: Rows) -> dict[str, str]:
    """The row names by the text that they are matched by; a name wins over an alias.

    Made once for each table that is read.
    """
    known = _INDEXES.get(id(rows))
    if known is None or known[0] is not rows:
        if len(_INDEXES) >= MOST_INDEXES:
            _INDEXES.clear()
        known = _INDEXES[id(rows)] = (rows, _indexed(rows))
    return known[1]


def _indexed(rows: Rows) -> dict[str, str]:
    return {plain(alias): name for alias, name in _aliases(rows).items()} | {plain(name): name for name in rows}


def system_with(accelerator: str, tables: Tables, node: object = None) -> str | None:
    """The first system that is built with an accelerator, or with a row that this accelerator extends; else None.

    Args:
        accelerator: the name of its row.
        tables: the lookup tables.
        node: the number of accelerators a node; the first system that has as many goes before the others.
    """
    row = tables.row(ACCELERATORS, accelerator)
    built = {plain(name) for name in (row.name, *row.ancestors)}
    rows = (tables.row(SYSTEMS, name) for name in tables.names(SYSTEMS))
    systems = [each for each in rows if plain(str(each.columns.get("accelerator"))) in built]
    systems.sort(key=lambda each: node is not None and each.columns.get(NODE) != node)
    return systems[0].name if systems else None
