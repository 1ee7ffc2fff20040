"""What other packages, a folder of the user's and the environment add to amped without being named in a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from amped.base.errors import FileError, quoted

# The groups of entry points: packages with tables, and modules of formulas.
TABLES, FORMULAS = "amped.tables", "amped.formulas"
# The variables of the environment: folders of tables, and whose prices are taken.
TABLES_VARIABLE, CLOUD_VARIABLE = "AMPED_LOOKUP_TABLES", "AMPED_CLOUD"
CONFIG_VARIABLE, CONFIG_FOLDER = "XDG_CONFIG_HOME", ".config"


@cache
def entry_points_of(group: str) -> tuple[tuple[str, str], ...]:
    """The name and the module of each entry point of a group, by name.

    `importlib.metadata` takes longer to import than most of amped, so that it is imported only if a package names the group.
    """
    if not any(f"[{group}]" in text for text in _texts()):
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted((point.name, point.value) for point in entry_points(group=group)))


@cache
def _texts() -> tuple[str, ...]:
    """The files with the entry points of all packages on the path."""
    return tuple(_read(sys.path))


def _read(path: list[str]) -> Iterator[str]:
    """The texts of these files in some folders; what cannot be read is left out, as Python does."""
    for folder in path:
        for file in Path(folder).glob("*-info/entry_points.txt") if folder and Path(folder).is_dir() else ():
            try:
                yield file.read_text("utf-8")
            except (OSError, UnicodeError):
                continue


def folder_of(module: str, point: str, group: str) -> Path:
    """The folder of the package that an entry point names.

    Raises:
        FileError: if there is no such package.
    """
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None or not found.submodule_search_locations:
        what = f"the entry point {quoted(point)} of {group} names {quoted(module)}, which is no package"
        raise FileError(what, "mend or uninstall the package that has it")
    return Path(next(iter(found.submodule_search_locations)))


def users_folder() -> Path:
    """The folder with the user's own tables: `amped` in `XDG_CONFIG_HOME`, which is `~/.config` if it is not set."""
    configured = os.environ.get(CONFIG_VARIABLE)
    return (Path(configured) if configured else Path.home() / CONFIG_FOLDER) / "amped"


def folders_of_environment() -> tuple[Path, ...]:
    """The folders of tables that the environment names, the lowest layer first."""
    return tuple(Path(part) for part in os.environ.get(TABLES_VARIABLE, "").split(os.pathsep) if part)


def cloud_of_environment() -> str:
    """Whose prices the environment names; empty if it names none."""
    return os.environ.get(CLOUD_VARIABLE, "")
