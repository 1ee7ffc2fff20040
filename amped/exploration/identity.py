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
    """All that determines the findings, as plain data: versions, code, and what was asked.

    Files are represented by a digest of their content.
    """
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
    """A digest of the identity."""
    return digest(json.dumps(identity(request), sort_keys=True).encode())


def told(request: Request) -> dict[str, Any]:
    """The data that do not change the findings, but are needed to ask the question again and to show the answer."""
    config = request.question.config
    paths = [str(path.resolve()) for path in table_paths(request.question.lookup_tables)]
    return {"label": config.label, "description": config.description, "notices": [*config.notices],
            "lookup_tables": paths}  # fmt: skip


def request_of(asked: Mapping[str, Any], beside: Mapping[str, Any], formulas: Path | None) -> Request:
    """The request that has an identity.

    Args:
        asked: what `identity` gave for the request.
        beside: what `told` gave for the request.
        formulas: the file of the user's formulas. They are code, which runs only if the caller names the file.
    """
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
    """A line for each value in which two nested mappings differ: its place, the value there, and the value here."""
    values_there, values_here = dict(_flat(there)), dict(_flat(here))
    return [
        f"{name}: {_shown(values_there, name)} there, {_shown(values_here, name)} here"
        for name in {**values_there, **values_here}
        if values_there.get(name, ...) != values_here.get(name, ...)
    ]


def _shown(values: Mapping[str, Any], name: str) -> str:
    """The value of a name as text; "nothing" if the name is missing."""
    return quoted(values[name]) if name in values else "nothing"


def _flat(nested: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The place and the value of each entry of nested mappings. A place joins the keys by dots, after `before`."""
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


@lru_cache(maxsize=1)
def code() -> str:
    """A digest of the code and the tables on which findings depend: findings of edited formulas are told apart."""
    package, tables = Path(__file__).resolve().parent.parent, shipped_folder("lookup_tables")
    files = {path.relative_to(package): path for path in (*package.rglob("*.py"), package / "base" / "units.txt")}
    files |= {Path("lookup_tables", path.name): path for path in tables.glob("*.json")}
    sums = {
        name.as_posix(): digest(path.read_bytes())
        for name, path in files.items()
        if name.parts[0] not in NOT_OF_THE_ANSWER
    }
    return digest(json.dumps(sums, sort_keys=True).encode())


def digest(content: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256 sum of some bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def _digest_of_formulas(question: Question) -> str:
    """A digest of the file of the user's formulas; empty without formulas.

    Raises:
        ConfigError: for formulas that exist only in this process.
    """
    if question.formulas is None:
        return ""
    if not isinstance(question.formulas, str | Path):
        raise ConfigError("formulas of a module in memory cannot be asked again elsewhere or later",
                          "give the file they are in: formulas='mine.py'")  # fmt: skip
    return digest(read_text(Path(question.formulas)).encode())


def plain(value: Any) -> Any:
    """A value as JSON gives it back: arrays become lists, and other objects become texts."""
    return json.loads(json.dumps(value, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v)))


def _tuples(value: Any) -> Any:
    """A value whose lists have become tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
