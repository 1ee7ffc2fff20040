"""Files of lookup tables, shipped or the user's: they are found, read, and refused if they hold no table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import FileError, Problem, TableError, quoted
from amped.base.files import is_file, is_folder, read_json, shipped_folder, shipped_json
from amped.base.plug_ins import TABLES as GROUP
from amped.base.plug_ins import TABLES_VARIABLE, entry_points_of, folder_of, folders_of_environment, users_folder
from amped.tables.table_schema import columns, row_problems

ACCELERATORS = "accelerator_specifications"
MODELS = "transformer_network_parameters"
SYSTEMS = "system_specifications"
LINKS = "link_specifications"
KERNELS = "kernel_efficiencies"
SOFTWARE = "software_specifications"
SHIPPED = (ACCELERATORS, MODELS, SYSTEMS, LINKS, KERNELS, SOFTWARE)
# Columns that describe the row itself, and not the thing in it. The first five are lists of text.
LISTS = ("aliases", "sources", "sources_opened", "unverified", "fitted")
OF_COLUMNS = ("unverified", "fitted")
ABOUT = (
    *LISTS,
    "fitted_on",
    "anchored_on",
    "anchored_runs",
    "own_runs",
    "notes",
    "description",
    "extends",
    "preliminary",
)
# What a product costs and draws: a derived row is another product, and has no price and no power until it says so. With some of
# them, it says what is predicted from them.
PREDICTED_FROM = {"accelerator_price": "cost", "thermal_design_power": "energy"}
OF_A_PRODUCT = (*PREDICTED_FROM, "price_basis", "list_price", "node_power_maximum")
# The peaks in the two formats of 16 bits, which matrix units run at one rate.
SIXTEEN_BITS = ("fp16_peak_flop_rate", "bf16_peak_flop_rate")
# For some columns: the column that has the same value where nobody gives it, as in multi-head attention.
FOLLOWERS = {"attention_heads": "key_value_heads"}
# For some columns: the columns that follow from it. A derived row with another value of it does not inherit these.
_MEASURED = ("measured_matmul_flop_rate", "measured_matmul_fraction", "measured_matmul_source")
PEAKS = (
    "fp64_peak_flop_rate", "fp64_matrix_peak_flop_rate", "fp32_peak_flop_rate", "fp32_matrix_peak_flop_rate",
    "tf32_peak_flop_rate", "fp16_peak_flop_rate", "bf16_peak_flop_rate", "fp16_fp16_accumulate_peak_flop_rate",
    "fp8_peak_flop_rate", "fp8_fp16_accumulate_peak_flop_rate", "fp6_peak_flop_rate", "fp4_peak_flop_rate",
    "int8_peak_operation_rate", "int4_peak_operation_rate",
)  # fmt: skip
COMPANIONS = {
    "accelerator_price": ("price_basis",),
    "frequency": (*PEAKS, "boost_frequency", *_MEASURED),
    **dict.fromkeys(("number_of_cores", "functional_units_per_core", "mac_per_cycle_per_unit"), (*PEAKS, *_MEASURED)),
    **dict.fromkeys(("fp16_peak_flop_rate", "bf16_peak_flop_rate"), _MEASURED),
    "inter_accelerator_efficiency": ("inter_accelerator_efficiency_basis",),
    "inter_node_efficiency": ("inter_node_efficiency_basis",),
}
# The files of prices and of grids in a folder of tables.
PRICES = "prices.csv"
GRIDS = "grids.csv"
# The folder of tables that amped looks into without being told.
HERE = Path("lookup_tables")
Rows = Mapping[str, Mapping[str, Any]]
# The user's own tables: a folder or a file, several of which the later ones are layered over the earlier ones, or none.
LookupTables = str | Path | Sequence[str | Path] | None


def canonical_column(name: str) -> str:
    """The name of a column that amped uses; AMPeD's tables have other names for some columns."""
    return _column_aliases().get(name) or aliases().canonical(name)


@lru_cache(maxsize=1)
def _column_aliases() -> dict[str, str]:
    """The names of columns in amped by their names in AMPeD's tables."""
    names: dict[str, str] = shipped_json("schema", "amped_aliases.json")["table_columns"]
    return names


@lru_cache(maxsize=8)
def shipped(table: str) -> Rows:
    """The rows of a table that comes with amped."""
    rows: Rows = shipped_json("lookup_tables", f"{table}.json")["rows"]
    return rows


def table_paths(lookup_tables: LookupTables) -> tuple[Path, ...]:
    """The folders and files of the user's own tables, the lowest layer first.

    Raises:
        FileError: for a value that is no path and no sequence of paths.
    """
    paths = (lookup_tables,) if isinstance(lookup_tables, str | Path) else lookup_tables or ()
    if not isinstance(paths, Sequence) or not all(isinstance(path, str | Path) for path in paths):
        what = f"{quoted(lookup_tables)} is no folder of lookup tables"
        raise FileError(what, "give the path of a folder or a file, or several paths")
    return tuple(Path(path) for path in paths if str(path))


def standing_folders() -> tuple[tuple[Path, str], ...]:
    """The folders with tables that apply without being named, the lowest first, each with whose it is, in words.

    Those of other packages come first, then the user's own folder, then those that the environment names.

    Raises:
        FileError: for an entry point without a package, or a folder in the environment that is not there.
    """
    of_packages = [(folder_of(module, name, GROUP), f"package {name}") for name, module in entry_points_of(GROUP)]
    own = [(users_folder(), "your own folder")] if _has_tables(users_folder()) else []
    named = folders_of_environment()
    if missing := [folder for folder in named if not folder.exists()]:
        raise FileError("no such folder of lookup tables", f"{TABLES_VARIABLE} names it", str(missing[0]))
    return (*of_packages, *own, *((folder, TABLES_VARIABLE) for folder in named))


def _has_tables(folder: Path) -> bool:
    """Whether a folder has a table."""
    return folder.is_dir() and any((*folder.glob("*.json"), *(is_file(folder / name) for name in (PRICES, GRIDS))))


def user_folders(lookup_tables: LookupTables = None) -> tuple[Path, ...]:
    """The folders over the shipped tables, the lowest first.

    These are the standing ones, then `./lookup_tables/` if it has tables, then the user's own tables.
    """
    given, standing = table_paths(lookup_tables), tuple(folder for folder, _ in standing_folders())
    named_folders = {path.resolve() for path in (shipped_folder("lookup_tables"), *standing, *given)}
    is_default = _has_tables(HERE) and HERE.resolve() not in named_folders
    return (*standing, HERE, *given) if is_default else (*standing, *given)


def table_files(folder: Path) -> list[Path]:
    """The table files of a folder, in alphabetical order; for a file, the file itself.

    Raises:
        FileError: if there is no such folder, or no table in it.
    """
    if is_file(folder):
        return [folder]
    if not is_folder(folder):
        raise FileError("no such folder of lookup tables", file=str(folder))
    files = sorted(folder.glob("*.json"))
    if not files and not any(is_file(folder / name) for name in (PRICES, GRIDS)):
        raise FileError("has no .json file in it", "name a folder of lookup tables", str(folder))
    return files


def read_tables(path: Path) -> tuple[dict[str, Rows], list[str]]:
    """The tables of one file by name, with canonical names of columns; and notices on columns that are not used any more.

    Raises:
        FileError: if the file is not JSON; TableError: if it is not a table, with all problems at once.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise TableError(
            "is not a lookup table", 'a table is {"table": NAME, "rows": {ROW: {COLUMN: VALUE}}}', str(path)
        )
    named = content.get("table", path.stem)
    tables = [(named, content["rows"])] if "rows" in content else list(content.items())
    problems = [problem for table, rows in tables for problem in _table_problems(table, rows)]
    if problems or not tables:
        raise TableError(problems or "holds no table", file=str(path))
    written = dict.fromkeys(column for _, rows in tables for columns in rows.values() for column in columns)
    retired = ", ".join(column for column in written if column in aliases().retired)
    notices = [f"not used any more: {retired}"] if retired else []
    return {
        table: {row: _with_canonical_names(columns) for row, columns in rows.items()} for table, rows in tables
    }, notices


def _with_canonical_names(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row under their canonical names, also in values that list columns."""
    return {
        canonical_column(name): [*map(canonical_column, value)] if name in OF_COLUMNS and value else value
        for name, value in columns.items()
    }


def _table_problems(table: object, rows: object) -> Iterator[Problem]:
    """The problems with the name and the rows of a table."""
    if not isinstance(table, str):
        yield Problem(f"the table's name {quoted(table)} is not text")
    else:
        shape = {name: kind for name, kind in columns(table).items() if name in ABOUT}
        yield from row_problems(table, rows, shape)
