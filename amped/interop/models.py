"""A config.json where a model's name may stand: `--model ./config.json`, or the folder that has one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.errors import FileError
from amped.base.files import exists, is_file
from amped.configuring.not_modeled import KEY
from amped.interop import CONFIG
from amped.tables.table_files import MODELS, LookupTables
from amped.tables.tables import user_tables
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import NETWORK

if TYPE_CHECKING:  # the readers are loaded for a file only
    from amped.interop.records import Imported

STARTS = ("./", "../", "/", "~", ".\\", "..\\")


def with_model(values: Mapping[str, Any], lookup_tables: LookupTables = None) -> dict[str, Any]:
    """Overrides with the network of a config.json as the value of "model", if "model" is the path of a file or a folder.

    Other overrides are returned unchanged.

    Raises:
        FileError, ConfigError: for a file that is missing or wrong.
    """
    name = values.get("model")
    path = Path(name).expanduser() if isinstance(name, str) else None
    if path is None or not _means_file(str(name), path, lookup_tables):
        return dict(values)
    from amped.interop.recognition import read_file  # the readers are loaded for a file only

    return {**values, "model": as_row(read_file(path, "hf"))}


def _means_file(name: str, path: Path, lookup_tables: LookupTables) -> bool:
    """Whether a name means a file: it looks like a path, or it is a folder with a config.json and no row has that name.

    Raises:
        FileError: if it looks like a path and there is no such file.
    """
    if name.startswith(STARTS) or name.endswith(".json"):
        if not exists(path):
            raise FileError(
                "no such file",
                "--model takes a config.json, a folder with one, or a name of `amped list models`",
                name,
            )
        return True
    return is_file(path / CONFIG) and not user_tables(lookup_tables).has(MODELS, name)


def named_model(name: str | None) -> str | Imported | None:
    """The network of a name or a path: the name of its row, or the imported config.json; None if no name is given.

    Raises:
        FileError, ConfigError, TableError: for a file that is missing or wrong, or a name that no table has.
    """
    if name is None:
        return None
    from amped.interop.recognition import read_file

    path = Path(name).expanduser()
    return read_file(path) if _means_file(name, path, None) else user_tables().row(MODELS, name).name


def as_row(imported: Imported) -> dict[str, Any]:
    """The network of a file in the form that overrides take for a row of their own.

    The keys are name, file, columns (values by quantity), notices, and what amped does not model. The sequence is unverified,
    because a config.json says only the longest one.
    """
    quantities = catalogue()
    columns = {name: value for name, value in imported.values.items() if quantities[name].category == NETWORK}
    columns |= {"sources": [imported.file], "unverified": ["context"]}
    notices = [f"{imported.file}: {line.what}" for line in imported.report.defaulted if line.key == "context"]
    return {
        "name": imported.name,
        "file": imported.file,
        "columns": columns,
        "notices": notices,
        KEY: imported.report.not_modeled(),
    }
