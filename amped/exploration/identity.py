"""What determines the findings of an exploration, as plain data; equal identities have equal findings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from amped.base import version
from amped.base.errors import ConfigError, quoted
from amped.base.files import read_text, shipped_folder
from amped.configuring.config import Config, Entry
from amped.configuring.scenario import Question
from amped.exploration.request import Options, Request
from amped.tables.table_files import table_files, table_paths, user_folders

# Rooms that only show and compare, and options that only confirm the user's intention.
NOT_OF_THE_ANSWER = ("cli", "interop", "report", "schema", "validation")
NOT_OF_THE_IDENTITY = ("yes",)


def identity(request: Request) -> dict[str, Any]:
    """The versions, the code, and everything that was asked; files are represented by a digest of their content."""
    question, config = request.question, request.question.config
    options = {n: v for n, v in asdict(request.options).items() if n not in NOT_OF_THE_IDENTITY}
    asked = {
        "amped": version.__version__,
        "code of amped": code(),
        "numpy": np.__version__,
        "config": {name: asdict(entry) for name, entry in config.entries.items()},
        "lookups": config.lookups,
        "old_style": config.old_style,
        "equals": {entry.written_name: asdict(entry) for entry in config.equals},
        "overrides": question.overrides,
        "tables": {
            f"{place}/{file.name}": digest(file.read_bytes())
            for place, folder in enumerate(user_folders(question.lookup_tables))
            for file in table_files(folder)
        },
        "formulas": _digest_of_formulas(question),
        "vary": request.vary,
        "options": options,
    }
    return dict(plain(asked))


def fingerprint(request: Request) -> str:
    """A short text for the identity."""
    return digest(json.dumps(identity(request), sort_keys=True).encode())


def told(request: Request) -> dict[str, Any]:
    """What does not change the findings, but is needed to ask the question again and to show the answer."""
    config = request.question.config
    paths = [str(path.resolve()) for path in table_paths(request.question.lookup_tables)]
    return {"label": config.label, "description": config.description, "notices": [*config.notices],
            "lookup_tables": paths}  # fmt: skip


def request_of(asked: Mapping[str, Any], beside: Mapping[str, Any], formulas: Path | None) -> Request:
    """The request with this `identity` and this `told`. Formulas are code, which runs only if the caller names it."""
    config = Config(
        label=beside["label"],
        description=beside["description"],
        entries={name: Entry(**entry) for name, entry in asked["config"].items()},
        lookups={category: (table, row) for category, (table, row) in asked["lookups"].items()},
        old_style=asked["old_style"],
        equals=tuple(Entry(**entry) for entry in asked["equals"].values()),
        notices=tuple(beside["notices"]),
    )
    question = Question(config, asked["overrides"], beside["lookup_tables"], formulas)
    options = Options(**{name: _tuples(value) for name, value in asked["options"].items()})
    return Request(question, {name: _tuples(values) for name, values in asked["vary"].items()}, options)


def portable(request: Request) -> Request:
    """The request in a form for another process, which may run in another folder.

    Raises:
        ConfigError: for formulas that exist only in this process.
    """
    question = request.question
    formulas = Path(str(question.formulas)).resolve() if _digest_of_formulas(question) else None
    tables = tuple(path.resolve() for path in table_paths(question.lookup_tables))
    return replace(request, question=replace(question, lookup_tables=tables, formulas=formulas))


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """A text `place: what there, what here` for each place in which two nested mappings differ."""
    one, other = dict(_flat(there)), dict(_flat(here))
    return [
        f"{name}: {_shown(one, name)} there, {_shown(other, name)} here"
        for name in {**one, **other}
        if one.get(name, ...) != other.get(name, ...)
    ]


def _shown(values: Mapping[str, Any], name: str) -> str:
    return quoted(values[name]) if name in values else "nothing"


def _flat(nested: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of nested mappings, with its place."""
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


@lru_cache(maxsize=1)
def code() -> str:
    """A digest of the code and the tables that findings depend on, so that an edited formula gives other findings."""
    package, tables = Path(__file__).resolve().parent.parent, shipped_folder("lookup_tables")
    files = {path.relative_to(package): path for path in (*package.rglob("*.py"), package / "base" / "units.txt")}
    files = {name: path for name, path in files.items() if name.parts[0] not in NOT_OF_THE_ANSWER}
    files |= {Path("lookup_tables", path.name): path for path in tables.glob("*.json")}
    sums = {name.as_posix(): digest(path.read_bytes()) for name, path in files.items()}
    return digest(json.dumps(sums, sort_keys=True).encode())


def digest(content: bytes) -> str:
    """A short text that practically no other content has."""
    return hashlib.sha256(content).hexdigest()[:16]


def _digest_of_formulas(question: Question) -> str:
    if question.formulas is None:
        return ""
    if not isinstance(question.formulas, str | Path):
        raise ConfigError("formulas of a module in memory cannot be asked again elsewhere or later",
                          "give the file they are in: formulas='mine.py'")  # fmt: skip
    return digest(read_text(Path(question.formulas)).encode())


def plain(value: Any) -> Any:
    """The value in the form that JSON gives back."""
    return json.loads(json.dumps(value, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v)))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
