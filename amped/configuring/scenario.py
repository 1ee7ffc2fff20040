"""One question to amped: a config, the overrides, the tables and the formulas, brought together."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, FileError, Problem, quoted
from amped.base.files import is_file, read_text
from amped.base.numbers import settable
from amped.base.plug_ins import FORMULAS, entry_points_of
from amped.base.record import dataclass
from amped.configuring.config import Config, read_config
from amped.configuring.dualpipe import FOLDED, folded
from amped.configuring.gathering import ROW_NAMES, build_sources
from amped.configuring.not_modeled import ANYWAY
from amped.configuring.sources import Sources
from amped.tables.table_files import LookupTables
from amped.tables.tables import user_tables
from amped.theory.language.catalogue import Catalogue, catalogue, collect
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from amped.theory.nouns.shardings import SHARDINGS

ConfigSource = str | Path | Mapping[str, Any] | Config


@dataclass(frozen=True)
class Question:
    """The arguments of `read_scenario`, so that the question can be asked again elsewhere or with other overrides."""

    config: Config
    overrides: Mapping[str, object]
    lookup_tables: LookupTables = None
    formulas: ModuleType | str | Path | None = None


@dataclass(frozen=True)
class Scenario:
    """What is asked: the sources of all values, and the formulas to use."""

    label: str
    description: str
    catalogue: Catalogue
    sources: Sources
    question: Question

    @property
    def title(self) -> str:
        """The title of the results."""
        return self.description or self.label

    @property
    def offered_zero_stages(self) -> tuple[int, ...]:
        """The ZeRO stages that the software has, in ascending order; all stages if its row does not list them."""
        software = self.sources.rows.get(MAPPING)
        offered = software.columns.get("offered_zero_stages") if software else None
        return tuple(sorted(offered or range(len(SHARDINGS))))


def read_scenario(
    config: ConfigSource,
    overrides: Mapping[str, object] | None = None,
    lookup_tables: LookupTables = None,
    formulas: ModuleType | str | Path | None = None,
) -> Scenario:
    """Reads everything that a run needs.

    Args:
        config: a file, the name of a shipped config, a mapping, or what `load_config` returned.
        overrides: values by name; rows under "model", "system" and "accelerator".
        lookup_tables: a folder (or file) of lookup tables that overrule the shipped ones.
        formulas: a module of marked functions, or its file. A file is run as Python code.

    Raises:
        AmpedError: with all problems.
    """
    quantities = catalogue((*standing_formulas(), *((formula_module(formulas),) if formulas is not None else ())))
    if not isinstance(config, Config):
        config = read_config(config, quantities, all_at_once=True)
    overrides = folded(overrides or {}, {n: e.value for n, e in config.entries.items() if e.kind == "value"})
    sources = build_sources(config, user_tables(lookup_tables), quantities, overrides)
    given, _ = aliases().all_given(overrides)
    question = Question(config, given, lookup_tables, formulas)
    title = _title(config, sources, given)
    return Scenario(config.label, title, catalogue=quantities, sources=sources, question=question)


def asked_again(question: Question, overrides: Mapping[str, object] | None = None) -> Scenario:
    """The scenario of a question, with further overrides.

    Raises:
        AmpedError: with all problems.
    """
    further, _ = aliases().all_given(overrides or {})
    return read_scenario(question.config, {**question.overrides, **further}, question.lookup_tables, question.formulas)


def _title(config: Config, sources: Sources, overrides: Mapping[str, object]) -> str:
    """The description of the config; if rows or values are given in addition, these are named, too."""
    given = {name: value for name, value in overrides.items() if value is not None and name not in (ANYWAY, FOLDED)}
    if not given:
        return config.description
    title = config.description or config.label
    if given.keys() & ROW_NAMES.keys():
        named = [NETWORK, SYSTEM, *([ACCELERATOR] if "accelerator" in given else [])]
        rows = [sources.rows[category].name for category in named if category in sources.rows]
        by = f" by {sources.rows[MAPPING].name}" if MAPPING in sources.rows else ""
        title = f"{' on '.join(rows)}{by}, else as config {config.label}"
    values = aliases().in_words({name: value for name, value in given.items() if name not in ROW_NAMES})
    changes = ", ".join(f"{n} = {settable(v) if isinstance(v, float) else v}" for n, v in values.items())
    return f"{title}, with {changes}" if changes else title


def refuse_sweeps(scenario: Scenario, verb: str) -> None:
    """Refuses lists of values, because an estimate is of one configuration.

    Raises:
        ConfigError: with every list, and the verb that takes it.
    """
    lists = [*scenario.sources.sweeps, *(f"lookup_table_row of {c}" for c in scenario.sources.row_sweeps)]
    if lists:
        raise ConfigError(
            (Problem(f"'{name}' is a list, and {verb} takes one value", advice="`amped explore` takes lists, and `amped sensitivity`") for name in lists),
            file=scenario.label,
        )  # fmt: skip


class _AsWritten(SourceFileLoader):
    """Runs a file as it is now.

    Python's cache of compiled files misses a change within a second that keeps the size.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The file, compiled now; the cache of compiled files is not used."""
        del fullname
        return self.source_to_code(self.get_data(self.path), self.path)


def formula_module(source: ModuleType | str | Path) -> ModuleType:
    """The module with the user's own formulas: the module itself, or the file run as Python code.

    Raises:
        FileError: if the file is missing or does not run.
    """
    if isinstance(source, ModuleType):
        return _with_formulas(source, source.__name__)
    if not isinstance(source, str | Path):
        raise FileError(f"{quoted(source)} is no module and no file", "give a .py file of marked functions")
    name, module = python_file(Path(source), "formulas")
    if name not in sys.modules:
        sys.modules[name] = _with_formulas(module, str(source))
    return module


@cache
def standing_formulas() -> tuple[ModuleType, ...]:
    """The modules of formulas of other packages, whose entry points name them.

    Raises:
        FileError: for a module that cannot be imported or has no formula.
    """
    return tuple(_imported(name, module) for name, module in entry_points_of(FORMULAS))


def _imported(name: str, module: str) -> ModuleType:
    """The module of an entry point."""
    try:
        return _with_formulas(importlib.import_module(module), module)
    except ImportError as error:
        what = f"the entry point {quoted(name)} of {FORMULAS} cannot be imported: {error}"
        raise FileError(what, "mend or uninstall the package that has it") from None


def python_file(path: Path, holds: str) -> tuple[str, ModuleType]:
    """A unique name for the current text of a user's Python file, and the module that running the file gives.

    Args:
        path: the file.
        holds: the content of the file in a word, for messages and the name: "formulas", for example.

    Raises:
        FileError: if the file is missing or does not run.
    """
    if not is_file(path):
        raise FileError(f"no such file of {holds}", file=str(path))
    name = f"amped_user_{holds}_{path.stem}_{abs(hash((str(path.resolve()), read_text(path))))}"
    if name in sys.modules:  # this text has been run before
        return name, sys.modules[name]
    if path.suffix != ".py":
        raise FileError(
            "is not a Python file",
            f"name a .py file of {'marked functions' if holds == 'formulas' else holds}",
            str(path),
        )
    loader = _AsWritten(name, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    module.__file__ = str(path)
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise FileError(f"does not run: {type(error).__name__}: {error}", f"mend the {holds}", str(path)) from error
    return name, module


def _with_formulas(module: ModuleType, file: str) -> ModuleType:
    """The module, if it has a marked function.

    Raises:
        FileError: if it has none.
    """
    if not collect(module):
        advice = "mark them: from amped.theory.language.quantity import quantity, parameter, records"
        raise FileError("has no marked function", advice, file)
    return module
