"""Errors in Python's words: where the command line says `--tp 3`, a call says `tensor_parallel_degree=3`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from amped.base.aliases import aliases
from amped.base.errors import AmpedError

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
# A command of a shell, which stays as it is.
_COMMAND = re.compile(r"(`amped [^`]*`|\bamped [a-z-]+(?: [a-z][\w-]*)* -.*$)", re.M)
# An option, and a value that can be told from the sentence around it: quoted, a number, a placeholder, NAME=VALUE.
_QUOTED = r"'[^']*'|\"[^\"]*\""
_OPTION = re.compile(
    rf"--(?P<name>[a-z][a-z0-9-]*)(?:[ =](?P<value>{_QUOTED}|[A-Za-z_][A-Za-z0-9_]*=(?:{_QUOTED}|[^\s;:)]+)|-?\d[\w.]*|[A-Z]{{2,}}\b))?"
)
# Options whose value is a small word.
_OF_WORDS = re.compile(r"--(cloud|term|region|grid|manner|packing) ([a-z][\w-]*)(?= or |[,;)]|$)")
_SETTING, _SWEEP = "set", "vary"
# A setting or a sweep without its value, where an error says which one it is about.
_NAMED = re.compile(r"--(set|vary) ([a-z]\w*)(?![\w=])")
_SWITCHES = {"anyway": "anyway=True", "yes": "yes=True", "ideal": "goodput_fraction=1"}


def in_python(text: str) -> str:
    """A sentence with options as arguments of a call; commands stay as they are."""
    parts = _COMMAND.split(text)
    return "".join(
        part if place % 2 else _OPTION.sub(_argument, _OF_WORDS.sub(r'--\1 "\2"', _NAMED.sub(_named, part)))
        for place, part in enumerate(parts)
    )


def _named(found: re.Match[str]) -> str:
    """The argument that a setting or a sweep without its value is."""
    return found[2] if found[1] == _SETTING else f"vary['{found[2]}']"


def _argument(found: re.Match[str]) -> str:
    """An option with its value as an argument."""
    name, value = found["name"].replace("-", "_"), found["value"]
    if name in _SWITCHES:
        return _SWITCHES[name]
    if name in (_SETTING, _SWEEP):
        written_name, _, written = (value or "NAME=VALUE").strip("'").partition("=")
        setting = aliases().option(written_name)
        values = ", ".join(map(_literal, written.strip('"').split(",")))
        return f"{setting}={_literal(written)}" if name == _SETTING else f"vary={{'{setting}': [{values}]}}"
    name = aliases().option(name)
    return name if value is None else f"{name}={_literal(value)}"


def _literal(value: str) -> str:
    """The text of a value as Python writes it."""
    if value in ("true", "false"):
        return value.capitalize()
    is_written = value[:1] in "'\"…" or (value.isalpha() and value.isupper()) or re.fullmatch(r"-?\d[\d.e+]*", value)
    return value if is_written else repr(value)


def speaks_python(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """A function whose errors say arguments instead of options."""

    @functools.wraps(function)
    def called(*args: Arguments.args, **options: Arguments.kwargs) -> Answer:
        try:
            return function(*args, **options)
        except AmpedError as error:
            problems = [
                replace(p, what=in_python(p.what), where=in_python(p.where), advice=in_python(p.advice))
                for p in error.problems
            ]
            raise type(error)(problems, file=error.file) from None

    return called
