"""Answers the questions of same.py in one tree: python same_probe.py TREE QUESTIONS ANSWERS, both JSON; or TREE --shapes FILE.

It uses amped by its public door and by the attributes of what that returns: modules may move. Where an attribute is renamed,
its new name goes beside the old one in ATTRIBUTES.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import amped

# What an attribute of an answer is called since it was renamed: {"cells": ("values",)} would read either.
ATTRIBUTES: dict[str, tuple[str, ...]] = {}
# What an operator waits for, which older trees do not say on its record: the graph tells it.
NO_NUMBERS = ("after",)
OF_EXPLORATIONS = (
    "best", "front", "groups", "nearest", "needs", "swept", "units", "objective", "more", "wishes", "histogram", "columns",
)  # fmt: skip
SECONDS = "elapsed_time"
LISTS = ("accelerators", "models", "systems", "links", "kernel-efficiencies", "software", "configs")
ACCELERATOR = "H100 SXM"


def attribute(thing: object, name: str) -> Any:
    """One attribute of an answer, by any name it has had."""
    known = [each for each in (name, *ATTRIBUTES.get(name, ())) if hasattr(thing, each)]
    if not known:
        raise AttributeError(f"{type(thing).__name__} has no {name}: same_probe.py needs its new name in ATTRIBUTES")
    return getattr(thing, known[0])


def plain(value: Any, tree: str) -> Any:
    """A value as JSON has it: arrays as numbers, records as lists of their fields' values, the tree's path cut out."""
    if isinstance(value, str):
        return str(value).replace(tree, "TREE")
    if value is None or isinstance(value, bool | int | float):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
        while isinstance(value, list) and len(value) == 1:
            value = value[0]
        return value
    if dataclasses.is_dataclass(value):
        return [plain(each, tree) for each in _fields(value)]
    if isinstance(value, Mapping):
        return {str(name): plain(each, tree) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, tree) for each in value]
    return f"a {type(value).__name__}"


def _fields(record: Any) -> Iterator[Any]:
    """The fields of a record; those of a record in it stand in its place, without its name."""
    for name in (field.name for field in dataclasses.fields(record) if field.name not in NO_NUMBERS):
        value = getattr(record, name)
        yield from list(_fields(value))[1:] if dataclasses.is_dataclass(value) else (value,)


def answered(question: Callable[[], Any], tree: str) -> Any:
    """The answer as plain data; a refusal or a crash is one too."""
    try:
        return plain(question(), tree)
    except amped.AmpedError as error:
        return {"refusal": plain(f"{type(error).__name__}: {error}", tree)}
    except Exception as error:
        return {"crash": plain(f"{type(error).__name__}: {error}", tree)}


def estimated(config: Any, overrides: dict[str, Any]) -> dict[str, Any]:
    """Everything that an estimate evaluated, chose and tells."""
    found = amped.estimate(config, **overrides)
    cells = attribute(attribute(found, "results"), "cells")
    told = {name: attribute(found, name) for name in ("choices", "breakdown", "notices", "error_band")}
    return {"quantities": {name: data for name, (data, _) in cells.items()}} | told | {"results": found.to_dict()}


def explored(config: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Everything that an exploration found, but the seconds it took."""
    if "pareto" in arguments:
        arguments = arguments | {"pareto": tuple(arguments["pareto"])}
    found = amped.explore(config, **arguments)
    told = {name: value for name, value in found.to_dict().items() if name != SECONDS}
    return told | {name: attribute(found, name) for name in OF_EXPLORATIONS}


def command_line() -> Any:
    """The command and its verbs; `amped.cli.app` is where it stays."""
    main = importlib.import_module("typer.main")
    return main.get_command(importlib.import_module("amped.cli.app").app)


def printed(*arguments: str) -> str:
    """What a verb prints; mistakes are raised."""
    runner = importlib.import_module("typer.testing").CliRunner()
    done = runner.invoke(importlib.import_module("amped.cli.app").app, list(arguments))
    if done.exception is not None:
        raise done.exception
    return str(done.stdout)


def verbs(command: Any, name: str = "amped") -> Iterator[tuple[str, list[str]]]:
    """Every verb with its options and arguments."""
    yield name, [word for place, each in enumerate(command.params) for word in _words(each, place)]
    for inner, verb in getattr(command, "commands", {}).items():
        yield from verbs(verb, f"{name} {inner}")


def _words(parameter: Any, place: int) -> list[str]:
    """The spellings of an option and the choices it has; an argument is written at its place, without a name."""
    is_argument = parameter.param_type_name == "argument"
    spellings = [f"argument {place + 1}"] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    members = [each.value for each in kind] if isinstance(kind, enum.EnumMeta) else get_args(kind)
    return spellings + [f"{spellings[0]} {member}" for member in members if isinstance(member, str)]


def offered() -> dict[str, Any]:
    """What a user may write: verbs and options, parameters and quantities, rows of tables, names for Python."""
    entries = json.loads(printed("parameters", "--json"))
    known = {each["name"]: {key: each[key] for key in ("unit", "choices", "default")} for each in entries}
    rows = {what: [next(iter(each.values())) for each in json.loads(printed("list", what, "--json"))] for what in LISTS}
    python = {name: _arguments(getattr(amped, name)) for name in amped.__all__}
    return {"verbs": dict(verbs(command_line())), "names": known, "rows": rows, "python": python}


def _arguments(thing: Any) -> list[str]:
    return list(inspect.signature(thing).parameters) if inspect.isfunction(thing) else []


def validated() -> dict[str, Any]:
    """The rows of the tree's own table of measurements by name and quantity: rows that the older tree lacks are new."""
    rows = json.loads(printed("validate", "--json"))["rows"]
    return {f"{row['id']} {row['quantity']}": row for row in rows}


def fitted(table: str, kernels: str) -> dict[str, Callable[[], Any]]:
    """The errors of fits to training steps and to kernels, and what they are of."""

    def of_steps() -> Any:
        (found,) = json.loads(
            printed("calibrate", "--table", table, "--accelerator", ACCELERATOR, "--dry-run", "--json")
        ).values()
        return [{key: value for key, value in each.items() if "error" in key or key == "rows"} for each in found]

    def of_kernels() -> Any:
        return json.loads(printed("bench", "fit", kernels, "--dry-run", "--json"))["errors"]

    return {f"calibrate {ACCELERATOR}": of_steps, "bench fit": of_kernels}


def questions_of(asked: Mapping[str, Any]) -> dict[str, dict[str, Callable[[], Any]]]:
    """The questions of each section, each ready to be called."""
    found: dict[str, dict[str, Callable[[], Any]]] = {}
    for section in ("shapes", "configs", "mappings"):
        if section in asked:
            found[section] = {label: _asking(estimated, *each) for label, each in asked[section].items()}
    if "explorations" in asked:
        found["explorations"] = {label: _asking(explored, *each) for label, each in asked["explorations"].items()}
    if "rows" in asked:
        found["rows"] = {"own table": validated}
    if "offered" in asked:
        found["offered"] = {"all": offered}
    if "fits" in asked:
        found["fits"] = fitted(*asked["fits"])
    return found


def _asking(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def shapes(tree: Path) -> dict[str, Any]:
    """The shapes of the laws, as the tests' helpers ask them: a mapping is put into sections with what overrides it."""
    sys.path[:0] = [str(tree), *sorted({str(file.parent) for file in tree.glob("tests/**/helpers_*.py")})]
    today = (tree / "tests" / "helpers" / "laws.py").is_file()
    laws = importlib.import_module("tests.helpers.laws" if today else "helpers_laws")
    return {
        label: (laws.sectioned(config | overrides), {}) if isinstance(config, dict) else (config, overrides)
        for label, (config, overrides) in laws.SHAPES.items()
    }


def main(where: str, questions: str, answers: str) -> None:
    """Answers every question, section by section; progress goes to stderr."""
    tree = Path(where).resolve()
    if tree not in Path(str(amped.__file__)).resolve().parents:
        sys.exit(f"amped is that of {amped.__file__}, not of {tree}")
    if questions == "--shapes":
        try:
            Path(answers).write_text(json.dumps(shapes(tree)), "utf-8")
        except Exception as error:
            sys.exit(f"its shapes cannot be read: {type(error).__name__}: {error}")
        return
    found: dict[str, Any] = {}
    for section, asked in questions_of(json.loads(Path(questions).read_text("utf-8"))).items():
        started = time.perf_counter()
        found[section] = {label: answered(question, str(tree)) for label, question in asked.items()}
        took = time.perf_counter() - started
        print(f"{Path(answers).stem}: {section} in {took:.1f} s", file=sys.stderr, flush=True)
    Path(answers).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
