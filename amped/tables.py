"""The only reader of lookup tables: shipped ones, the user's in `./lookup_tables/`, and those of `--lookup-tables`.

A table file is `{"table": NAME, "rows": {ROW: {COLUMN: VALUE, "aliases": […], "sources": […], "unverified": […]}}}`.
AMPeD's one-file form, `{TABLE: {ROW: {COLUMN: VALUE}}}`, is read too. Later folders overrule earlier ones row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from amped.errors import FileError, Problem, TableError, did_you_mean, plain, quoted
from amped.files import parse_json, read_json

ACCELERATORS = "accelerator_specifications"
MODELS = "transformer_network_parameters"
SYSTEMS = "system_specifications"
SHIPPED = (ACCELERATORS, MODELS, SYSTEMS)
# Columns that describe a row rather than what it is about.
ABOUT = ("aliases", "sources", "sources_opened", "unverified", "notes", "description")
# Names of columns in AMPeD's own tables.
COLUMN_ALIASES = {"tokens": "vocabulary_size"}


@dataclass(frozen=True)
class Row:
    """One row of a table: its columns, and where they come from."""

    table: str
    name: str
    columns: Mapping[str, Any] = field(repr=False)
    file: str

    def column(self, name: str) -> Any:
        """The value of a column.

        Raises:
            TableError: if the row has no such column.
        """
        found = self.columns.get(COLUMN_ALIASES.get(name, name), self.columns.get(name))
        if found is None:
            raise TableError(f"row '{self.name}' of {self.table} has no column '{name}'",
                             did_you_mean(name, [c for c in self.columns if c not in ABOUT]))  # fmt: skip
        return found

    @property
    def unverified(self) -> tuple[str, ...]:
        """Columns whose value was not confirmed by a source that was read."""
        return tuple(self.columns.get("unverified") or ())

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the row comes from."""
        return tuple(self.columns.get("sources") or ())


class Tables:
    """All lookup tables of a run, layered."""

    def __init__(self, folders: tuple[Path, ...] = ()) -> None:
        """Layers the tables of `folders` over the shipped ones; a folder may also be one file.

        Raises:
            FileError, TableError: for a folder or a file that is not one of tables.
        """
        self._layers: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for folder in folders:
            for path in _table_files(folder):
                for table, rows in _read(path).items():
                    self._layers.setdefault(table, []).append((str(path), rows))

    def names(self, table: str) -> list[str]:
        """Names of the rows of a table, shipped ones first.

        Raises:
            TableError: for an unknown table.
        """
        return list(dict.fromkeys(name for _, rows in self._stack(table) for name in rows))

    def row(self, table: str, name: str) -> Row:
        """A row by its name or an alias, without regard to case, spaces and hyphens.

        Raises:
            TableError: for an unknown table or row, with the nearest names.
        """
        for file, rows in reversed(self._stack(table)):
            found = _index(rows).get(plain(name)) if len(name) < 200 else None
            if found is not None:
                return Row(table, found, rows[found], file)
        known = {n for _, rows in self._stack(table) for n in (*rows, *_aliases(rows))}
        listed = {ACCELERATORS: "accelerators", MODELS: "models", SYSTEMS: "systems"}.get(table)
        hint = did_you_mean(name, sorted(known)) or (f"`amped list {listed}` shows them" if listed else "")
        raise TableError(f"table {table} has no row {quoted(name)}", hint)

    def _stack(self, table: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The layers of a table, the shipped one first."""
        own = [(f"amped/lookup_tables/{table}.json", shipped(table))] if table in SHIPPED else []
        layers = own + self._layers.get(table, [])
        if not layers:
            raise TableError(f"there is no lookup table {quoted(table)}",
                             did_you_mean(table, (*SHIPPED, *self._layers)) or f"there are {', '.join(SHIPPED)}")  # fmt: skip
        return layers


@lru_cache(maxsize=8)
def shipped(table: str) -> Mapping[str, Any]:
    """The rows of a table that comes with amped."""
    text = resources.files("amped.lookup_tables").joinpath(f"{table}.json").read_text("utf-8")
    rows: Mapping[str, Any] = parse_json(text, table)["rows"]
    return rows


def user_folders(extra: Path | None = None) -> tuple[Path, ...]:
    """The folders to layer over the shipped tables: `./lookup_tables/` where it is not the shipped one, then `extra`."""
    here = Path("lookup_tables")
    own = Path(str(resources.files("amped.lookup_tables")))
    layered = [here] if here.is_dir() and here.resolve() != own.resolve() and any(here.glob("*.json")) else []
    return (*layered, *([extra] if extra else []))


def _table_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise FileError("no such folder of lookup tables", file=str(folder))
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileError("has no .json file in it", "name a folder of lookup tables", str(folder))
    return files


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    """The tables of one file, by name."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise TableError(
            "is not a lookup table", 'a table is {"table": NAME, "rows": {ROW: {COLUMN: VALUE}}}', str(path)
        )
    if "rows" in content:
        content = {content.get("table", path.stem): content["rows"]}
    problems = [p for table, rows in content.items() for p in _shape_problems(table, rows)]
    if problems or not content:
        raise TableError(problems or "holds no table", file=str(path))
    return content


def _shape_problems(table: object, rows: object) -> list[Problem]:
    if not isinstance(table, str):
        return [Problem(f"the table's name {quoted(table)} is not text")]
    if not isinstance(rows, dict):
        return [Problem("is not a table of rows", where=table, advice="expected {ROW: {COLUMN: VALUE}}")]
    return [
        Problem(f"is {quoted(row)}, not a row", where=f"{table}.{name}", advice="expected {COLUMN: VALUE}")
        for name, row in rows.items()
        if not isinstance(row, dict)
    ]


def _aliases(rows: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, row in rows.items():
        aliases = row.get("aliases") or ()
        found.update({alias: name for alias in aliases if isinstance(alias, str)} if isinstance(aliases, list) else {})
    return found


def _index(rows: Mapping[str, Any]) -> dict[str, str]:
    """Row names by how they are matched: names before aliases."""
    return {plain(alias): name for alias, name in _aliases(rows).items()} | {plain(name): name for name in rows}
