"""The only reader of lookup tables: the shipped ones, those in `./lookup_tables/`, and those of `--lookup-tables`.

A table file is `{"table": NAME, "rows": {ROW: {COLUMN: VALUE, "aliases": […], "sources": […], "unverified": […]}}}`.
AMPeD's one-file form, `{TABLE: {ROW: {COLUMN: VALUE}}}`, is read too. Later folders are layered over earlier ones.
A row may derive from another: `{"extends": "H100 SXM", "memory_capacity": "96 GB"}`. A row without `extends` whose name a lower
layer has corrects that row: it takes from it what it does not say. With `"extends": null` it stands by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amped.base.errors import TableError, did_you_mean, plain, quoted
from amped.tables.row_names import other_names, without_owner
from amped.tables.rows import SHIPPED_FOLDER, derived, row_alone
from amped.tables.rows import Row as Row
from amped.tables.table_files import (
    ACCELERATORS,
    KERNELS,
    LINKS,
    MODELS,
    SHIPPED,
    SOFTWARE,
    SYSTEMS,
    LookupTables,
    Rows,
    read_tables,
    shipped,
    table_files,
    user_folders,
)

NODE = "number_of_accelerators_per_node"
# What helps where the table has no row of a network.
OTHER_MODELS = (
    "(another one: --model ./config.json, of Hugging Face; state-space layers and linear attention are not modeled)"
)
# The word in the form of an accelerator that is a card for a slot of any server.
CARD = "PCIe"
LISTED = {
    ACCELERATORS: "accelerators",
    MODELS: "models",
    SYSTEMS: "systems",
    LINKS: "links",
    KERNELS: "kernel-efficiencies",
    SOFTWARE: "software",
}


# The file of a layer, and the rows of a table in it.
Layer = tuple[str, Rows]
# Where a row is: the number of its layer, counted from 1 at the bottom, and its name.
Link = tuple[int, str]


# No name has more characters; a longer text would only be slow to compare.
LONGEST_NAME = 200


class Tables:
    """All lookup tables of a run, in layers."""

    def __init__(self, folders: tuple[Path, ...] = ()) -> None:
        """Puts the tables of `folders` as layers over the shipped ones; a folder may also be a single file.

        Raises:
            FileError, TableError: for a folder or a file without lookup tables.
        """
        self._layers: dict[str, list[Layer]] = {}
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
        return any(_name_of(name, rows) is not None for _, rows in self._stack(table))

    def ships(self, table: str, name: str) -> bool:
        """Whether amped's own table has a row with this name or alias."""
        return table in SHIPPED and _name_of(name, shipped(table)) is not None

    def row(self, table: str, name: str) -> Row:
        """A row by its name or an alias, without regard to case, spaces and hyphens.

        Raises:
            TableError: for an unknown table or row, with near names; for rows that extend one another.
        """
        return self._row(table, self.meant(table, name), self._stack(table), ())

    def meant(self, table: str, name: str) -> str:
        """The name of a row that another name means: a hub's id, a release, or of a system the accelerator that it is built with.

        A name that a row or an alias has, or that means nothing, stays as it is.

        Raises:
            TableError: for an unknown table.
        """
        if self.has(table, name):
            return name
        if table == SYSTEMS and self.has(ACCELERATORS, name):
            return system_of_its_form(name, self) or name
        return next((other for other in other_names(table, name) if self.has(table, other)), name)

    def _row(self, table: str, name: str, stack: list[Layer], chain: tuple[Link, ...]) -> Row:
        depth, found = _place(name, stack)
        if not depth:
            raise TableError(*self._no_row(table, name, stack, chain))
        (file, rows), below = stack[depth - 1], stack[: depth - 1]
        own, link = rows[found], (depth, found)
        base = own.get("extends", found if any(_name_of(found, lower) for _, lower in below) else None)
        if base is None:
            return row_alone(table, found, own, file)
        if link in chain:
            circle = " ← ".join(each for _, each in (*chain, link))
            raise TableError(f"rows of {table} extend one another: {circle}", "let one of them stand by itself")
        is_itself = _name_of(base, rows) == found
        return derived(self._row(table, base, below if is_itself else stack, (*chain, link)), found, own, file)

    def _no_row(self, table: str, name: str, stack: list[Layer], chain: tuple[Link, ...]) -> tuple[str, str]:
        """What is wrong with a name that no row has, and what to do."""
        known = {n for _, rows in stack for n in (*rows, *_aliases(rows))}
        parts = [part.strip() for part in name.split(",")]
        if parts[1:] and all(self.has(table, part) for part in parts):
            return f"{quoted(name)} is a list of rows of {table}", "name one; `amped explore --vary` takes several"
        hint = did_you_mean(without_owner(name) if table == MODELS else name, sorted(known))
        needed = f", which '{chain[-1][1]}' extends" if chain else ""
        shown = f"`amped list {LISTED[table]}` shows them" if table in LISTED else ""
        shown += "; tables of your own need --lookup-tables DIR" if shown and len(stack) == 1 else ""
        other = f" {OTHER_MODELS}" if table == MODELS and not needed else ""
        return f"table {table} has no row {quoted(name)}{needed}", f"{hint or shown}{other}"

    def _stack(self, table: str) -> list[Layer]:
        """The layers of a table, the shipped one first."""
        own = [(f"{SHIPPED_FOLDER}{table}.json", shipped(table))] if table in SHIPPED else []
        layers = own + self._layers.get(table, [])
        if not layers:
            hint = did_you_mean(table, (*SHIPPED, *self._layers))
            raise TableError(f"there is no lookup table {quoted(table)}", hint or f"there are {', '.join(SHIPPED)}")
        return layers


def _place(name: str, stack: list[Layer]) -> Link:
    """Where the row with this name or alias is; 0 for no row.

    An alias of a row that a higher layer corrects is an alias of the correction.
    """
    names = [_name_of(name, rows) if len(name) < LONGEST_NAME else None for _, rows in stack]
    depth = next((n for n in range(len(stack), 0, -1) if names[n - 1] is not None), 0)
    if not depth:
        return 0, ""
    found = str(names[depth - 1])
    others = {n: _name_of(found, stack[n - 1][1]) for n in range(len(stack), depth, -1)}
    return next(((n, other) for n, other in others.items() if other is not None), (depth, found))


def _name_of(name: str, rows: Rows) -> str | None:
    """The name of the row that a name or an alias means; most names are written as the table has them."""
    return name if name in rows else _index(rows).get(plain(name))


def _aliases(rows: Rows) -> dict[str, str]:
    return {alias: name for name, row in rows.items() for alias in row.get("aliases") or ()}


def user_tables(lookup_tables: LookupTables = None) -> Tables:
    """The shipped tables with the user's tables over them: first `./lookup_tables/`, then `lookup_tables`."""
    return Tables(user_folders(lookup_tables))


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


def system_built_with(accelerator: str, tables: Tables, node: object = None) -> str | None:
    """The first system that is built with an accelerator, or with a row that this accelerator extends; else None.

    Args:
        accelerator: the name of its row.
        tables: the lookup tables.
        node: the number of accelerators a node; the first system that has as many goes before the others.
    """
    row = tables.row(ACCELERATORS, accelerator)
    built = {plain(name) for name in (row.name, *row.ancestors)}
    systems = [tables.row(SYSTEMS, system) for system, name in _built_with(tables) if plain(name) in built]
    systems.sort(key=lambda system: node is not None and system.columns.get(NODE) != node)
    return systems[0].name if systems else None


def system_of_its_form(accelerator: str, tables: Tables, node: object = None) -> str | None:
    """The first system that is built with an accelerator, or else with one that goes into the same servers; else None.

    The arguments are those of `system_built_with`.
    """
    row = tables.row(ACCELERATORS, accelerator)
    others = [(name, tables.row(ACCELERATORS, n)) for name, n in _built_with(tables) if tables.has(ACCELERATORS, n)]
    alike = [(name, other) for name, other in others if _form(row) and _form(other) == _form(row)]
    exact = [name for name, other in alike if other.columns["form_factor"] == row.columns["form_factor"]]
    its_own = system_built_with(accelerator, tables, node)
    return next(iter((*filter(None, [its_own]), *exact, *(n for n, _ in alike))), None)


def _built_with(tables: Tables) -> Iterator[tuple[str, str]]:
    """Each system with the name of the accelerator that it is built with."""
    yield from ((name, str(tables.row(SYSTEMS, name).columns.get("accelerator"))) for name in tables.names(SYSTEMS))


def _form(row: Row) -> tuple[str, ...]:
    """What decides into which systems an accelerator goes: a card's slot, or else the maker, the form and the architecture.

    Nothing if the row does not say its form. Of an architecture the first two words count: "Da Vinci (910B3)", "TPU v4".
    """
    form, architecture = (str(row.columns.get(name) or "").split() for name in ("form_factor", "architecture"))
    if CARD in form:
        return CARD, str(row.columns.get("host_link"))
    return (str(row.columns.get("vendor")), " ".join(form), *architecture[:2]) if form else ()
