"""The only reader of lookup tables: the shipped ones, those in `./lookup_tables/`, and those of `--lookup-tables`.

A table file is `{"table": NAME, "rows": {ROW: {COLUMN: VALUE, "aliases": […], "sources": […], "unverified": […]}}}`.
AMPeD's one-file form, `{TABLE: {ROW: {COLUMN: VALUE}}}`, is read too. Later folders are layered over earlier ones.
A row may derive from another: `{"extends": "H100 SXM", "memory_capacity": "96 GB"}`. A row without `extends` whose name a lower
layer has corrects that row: it takes from it what it does not say. With `"extends": null` it stands by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path

from amped.base.errors import TableError, did_you_mean, plain, quoted
from amped.base.record import dataclass
from amped.base.words import answers
from amped.tables.row_names import mixture_of_size, nearest_in_words, other_names, without_owner
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
    standing_folders,
    table_files,
    user_folders,
)

# What helps where the table has no row of software.
OTHER_SOFTWARE = "(software that no row describes: --software default, the middle of the known stacks)"
NODE = "number_of_accelerators_per_node"
# What helps where the table has no row of a network.
OTHER_MODELS = "(another one: --model ./config.json, of Hugging Face)"
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
# Where a row is: the number of its layer, counted from 1 at the bottom, and its name.
Link = tuple[int, str]
# No name has more characters; a longer text would only be slow to compare.
LONGEST_NAME = 200


@dataclass
class Layer:
    """The rows of a table in one file, which lie over those of other files."""

    file: str
    rows: Rows

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each row by its names and aliases, without case, spaces and hyphens; a name is preferred to an alias."""
        return {plain(alias): name for alias, name in _aliases(self.rows).items()} | {plain(n): n for n in self.rows}

    def meant(self, name: str) -> str | None:
        """The name of the row with this name or alias; None if there is none."""
        return name if name in self.rows else self.names.get(plain(name))


class Tables:
    """All lookup tables of a run, in layers."""

    def __init__(self, folders: tuple[Path, ...] = ()) -> None:
        """Puts the tables of `folders` as layers over the shipped ones; a folder may also be a single file.

        Raises:
            FileError, TableError: for a folder or a file without lookup tables.
        """
        self.folders = folders
        self._layers: dict[str, list[Layer]] = {}
        self._known_rows: dict[tuple[str, str], Row] = {}
        self.notices: list[str] = []
        for folder in folders:
            for path in table_files(folder):
                tables, notices = read_tables(path)
                self.notices += [f"{path}: {notice}" for notice in notices]
                for table, rows in tables.items():
                    self._layers.setdefault(table, []).append(Layer(str(path), rows))

    def names(self, table: str) -> list[str]:
        """The names of the rows of a table, the shipped ones first.

        Raises:
            TableError: for an unknown table.
        """
        return list(dict.fromkeys(name for layer in self._stack(table) for name in layer.rows))

    def all_names(self) -> list[str]:
        """The names of all tables, the shipped ones first."""
        return list(dict.fromkeys((*SHIPPED, *self._layers)))

    def has(self, table: str, name: str) -> bool:
        """Whether a table has a row with this name or alias."""
        return any(layer.meant(name) is not None for layer in self._stack(table))

    def ships(self, table: str, name: str) -> bool:
        """Whether amped's own table has a row with this name or alias."""
        return table in SHIPPED and _shipped_layer(table).meant(name) is not None

    def row(self, table: str, name: str) -> Row:
        """The row with this name or alias, without regard to case, spaces and hyphens.

        Raises:
            TableError: for an unknown table or row, with near names; for rows that extend one another.
        """
        known = self._known_rows.get((table, name))
        if known is None:
            known = self._row(table, self.meant(table, name), self._stack(table), ())
            self._known_rows[table, name] = known
        return known

    def meant(self, table: str, name: str) -> str:
        """The name under which a table has a row that other tools call `name`.

        It may be a hub's id, a release of software, software whose name shares words with that of a row, or, for a system, the
        accelerator that it is built with. A name or an alias of a row, an unknown name, and a word that has an answer of its own
        (`answers`) stay as they are.

        Raises:
            TableError: for an unknown table.
        """
        if self.has(table, name):
            return name
        if table == SYSTEMS and self.has(ACCELERATORS, name):
            return system_of_its_form(name, self) or name
        others = (other for other in other_names(table, name) if self.has(table, other))
        if table == SOFTWARE and plain(name) not in answers():
            return next(others, None) or self.nearest_stack(name) or name
        if table == MODELS:
            return next(others, None) or mixture_of_size(without_owner(name), self._names_of_rows(table)) or name
        return next(others, name)

    def nearest_stack(self, name: str) -> str | None:
        """The software whose name shares most words with a name that no row has, the newest of equal ones; None if none does."""
        rows = [self.row(SOFTWARE, stack) for stack in self.names(SOFTWARE)] if len(name) < LONGEST_NAME else []
        rows.sort(key=lambda row: -int(row.columns.get("release_year") or 0))
        return nearest_in_words(name, [(row.name, (row.name, *row.aliases)) for row in rows])

    def _names_of_rows(self, table: str) -> list[tuple[str, tuple[str, ...]]]:
        """Each row of a table with its name and aliases."""
        return [
            (name, (name, *(row.get("aliases") or ())))
            for layer in self._stack(table)
            for name, row in layer.rows.items()
        ]

    def _row(self, table: str, name: str, stack: list[Layer], chain: tuple[Link, ...]) -> Row:
        """The row with this name or alias in the highest layer, merged with the rows that it extends or corrects.

        Args:
            table: the name of the table.
            name: the name or an alias.
            stack: the layers that are searched.
            chain: the rows that extend this one, for messages.

        Raises:
            TableError: for an unknown row, and for rows that extend one another.
        """
        depth = _highest_layer(name, stack)
        if not depth:
            raise TableError(*self._no_row(table, name, stack, chain))
        # An alias of a row that a higher layer corrects is an alias of the correction.
        name = str(stack[depth - 1].meant(name))
        depth = _highest_layer(name, stack)
        layer, below = stack[depth - 1], stack[: depth - 1]
        name = str(layer.meant(name))
        columns, link = layer.rows[name], (depth, name)
        base = columns.get("extends", name if _highest_layer(name, below) else None)
        if base is None:
            return row_alone(table, name, columns, layer.file)
        if link in chain:
            circle = " ← ".join(extended for _, extended in (*chain, link))
            raise TableError(f"rows of {table} extend one another: {circle}", "let one of them stand by itself")
        is_itself = layer.meant(base) == name
        return derived(self._row(table, base, below if is_itself else stack, (*chain, link)), name, columns, layer.file)

    def _no_row(self, table: str, name: str, stack: list[Layer], chain: tuple[Link, ...]) -> tuple[str, str]:
        """The message and the advice for a name that no row has.

        The arguments are those of `_row`.
        """
        names = {name for layer in stack for name in (*layer.rows, *_aliases(layer.rows))}
        listed_names = [part.strip() for part in name.split(",")]
        if listed_names[1:] and all(self.has(table, part) for part in listed_names):
            return f"{quoted(name)} is a list of rows of {table}", "name one; `amped explore --vary` takes several"
        hint = did_you_mean(without_owner(name) if table == MODELS else name, sorted(names))
        extended_by = f", which '{chain[-1][1]}' extends" if chain else ""
        list_advice = f"`amped list {LISTED[table]}` shows them" if table in LISTED else ""
        list_advice += "; tables of your own need --lookup-tables DIR" if list_advice and len(stack) == 1 else ""
        other_advice = (
            {MODELS: f" {OTHER_MODELS}", SOFTWARE: f" {OTHER_SOFTWARE}"}.get(table, "") if not extended_by else ""
        )
        return f"table {table} has no row {quoted(name)}{extended_by}", f"{hint or list_advice}{other_advice}"

    def _stack(self, table: str) -> list[Layer]:
        """The layers of a table, the shipped one first.

        Raises:
            TableError: for an unknown table.
        """
        layers = [*([_shipped_layer(table)] if table in SHIPPED else []), *self._layers.get(table, [])]
        if not layers:
            hint = did_you_mean(table, (*SHIPPED, *self._layers))
            raise TableError(f"there is no lookup table {quoted(table)}", hint or f"there are {', '.join(SHIPPED)}")
        return layers


def _highest_layer(name: str, stack: list[Layer]) -> int:
    """The number (from 1) of the highest layer that has a row with this name or alias; 0 if none has."""
    layers = range(len(stack), 0, -1) if len(name) < LONGEST_NAME else ()
    return next((depth for depth in layers if stack[depth - 1].meant(name) is not None), 0)


@lru_cache(maxsize=8)
def _shipped_layer(table: str) -> Layer:
    """The rows of a table that comes with amped, as a layer."""
    return Layer(f"{SHIPPED_FOLDER}{table}.json", shipped(table))


def _aliases(rows: Rows) -> dict[str, str]:
    """The name of the row for each alias."""
    return {alias: name for name, row in rows.items() for alias in row.get("aliases") or ()}


def user_tables(lookup_tables: LookupTables = None) -> Tables:
    """The shipped tables with the user's tables over them: the standing ones, `./lookup_tables/`, then `lookup_tables`.

    Its notices say which tables stand there without being named.
    """
    folders = user_folders(lookup_tables)
    tables = Tables(folders) if folders else _shipped_tables()
    tables.notices += [f"tables of {whose} apply: {folder}" for folder, whose in standing_folders()]
    return tables


@cache
def _shipped_tables() -> Tables:
    """The shipped tables alone, of which each row is read once in a process: no file of a user's can change them."""
    return Tables()


def system_built_with(accelerator: str, tables: Tables, node_size: object = None) -> str | None:
    """The name of the first system that is built with an accelerator, or with a row that this accelerator extends; None if none is.

    Args:
        accelerator: the name of its row.
        tables: the lookup tables.
        node_size: the number of accelerators per node; a system with as many is preferred.
    """
    row = tables.row(ACCELERATORS, accelerator)
    accelerator_names = {plain(name) for name in (row.name, *row.ancestors)}
    systems = [
        tables.row(SYSTEMS, system)
        for system, name in _systems_with_accelerators(tables)
        if plain(name) in accelerator_names
    ]
    systems.sort(key=lambda system: node_size is not None and system.columns.get(NODE) != node_size)
    return systems[0].name if systems else None


def system_of_its_form(accelerator: str, tables: Tables, node_size: object = None) -> str | None:
    """The name of a system for an accelerator: one that is built with it, else one whose accelerators fit the same servers; else None.

    The arguments are those of `system_built_with`.
    """
    row, own_system = tables.row(ACCELERATORS, accelerator), system_built_with(accelerator, tables, node_size)
    if own_system or not _form(row):
        return own_system
    form_factors = {}
    for system, name in _systems_with_accelerators(tables):
        if tables.has(ACCELERATORS, name) and _form(other := tables.row(ACCELERATORS, name)) == _form(row):
            form_factors[system] = other.columns["form_factor"]
    return min(form_factors, key=lambda name: form_factors[name] != row.columns["form_factor"], default=None)


def _systems_with_accelerators(tables: Tables) -> Iterator[tuple[str, str]]:
    """Each system and the accelerator that it is built with, by the names of their rows."""
    yield from ((name, str(tables.row(SYSTEMS, name).columns.get("accelerator"))) for name in tables.names(SYSTEMS))


def _form(row: Row) -> tuple[str, ...]:
    """A tuple that is equal for accelerators that fit the same servers; empty if the row does not say its form.

    For a card it is the slot, else the maker, the form and the architecture. Of an architecture the first two words count: "Da
    Vinci (910B3)", "TPU v4".
    """
    form, architecture = (str(row.columns.get(name) or "").split() for name in ("form_factor", "architecture"))
    if CARD in form:
        return CARD, str(row.columns.get("host_link"))
    return (str(row.columns.get("vendor")), " ".join(form), *architecture[:2]) if form else ()
