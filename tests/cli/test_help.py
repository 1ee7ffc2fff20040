"""The help of every verb: options in groups, one example that can be copied, short summaries, and no line too wide."""

import ast
import itertools
import os
import shlex
from functools import cache
from unittest import mock

import pytest
import typer
from typer.testing import CliRunner

from amped.cli.app import app
from amped.cli.described import described
from amped.cli.help import CONFIG, GROUPS, MAPPING, OUTPUT, OWN
from tests.helpers.culprits import for_each
from tests.helpers.places import ROOT

LONGEST_SUMMARY = 45


def commands(command: object, path: tuple[str, ...] = ()) -> dict[str, object]:
    """Every verb, and every verb of a verb, by its words."""
    found: dict[str, object] = {}
    for name, inner in command.commands.items():  # type: ignore[attr-defined]
        found |= commands(inner, (*path, name)) if hasattr(inner, "commands") else {" ".join((*path, name)): inner}
    return found


COMMANDS = commands(typer.main.get_command(app))


@cache
def page(words: str, columns: int) -> str:
    with mock.patch.dict(os.environ, {"COLUMNS": str(columns)}):
        done = CliRunner().invoke(app, [*words.split(), "--help"], terminal_width=columns)
    assert done.exit_code == 0
    return done.output


@for_each(COMMANDS)
def test_summaries_of_options_are_short(words) -> None:
    told = {p.name: p.help or "" for p in COMMANDS[words].params if not getattr(p, "hidden", False)}
    assert {name: text for name, text in told.items() if not 0 < len(text) <= LONGEST_SUMMARY} == {}


@pytest.mark.parametrize("columns", [80, 100])
def test_a_page_is_no_wider_than_the_terminal(columns) -> None:
    lines = [(words, line) for words in COMMANDS for line in page(words, columns).splitlines()]
    assert [each for each in lines if len(each[1]) > columns] == []


@for_each(COMMANDS)
def test_a_page_has_one_example_that_can_be_copied(words) -> None:
    text = page(words, 80)
    assert text.count("Example:") == 1
    lines = itertools.takewhile(str.strip, text.split("Example:\n")[1].splitlines())
    command = "\n".join(lines).replace("\\\n", " ")
    assert shlex.split(command)[1 : 1 + len(words.split())] == words.split()
    assert "\n" not in command.strip()


def test_options_stand_in_groups() -> None:
    heads = [line[:-1] for line in page("estimate", 100).splitlines() if line.endswith(":") and line[0] != " "]
    assert [head for head in heads if head in GROUPS] == [OWN, CONFIG, MAPPING, "Batch and precision", OUTPUT]
    text = page("estimate", 100)
    mapping = text.split(f"{MAPPING}:\n")[1].split("\n\n")[0]
    assert [line.split()[0] for line in mapping.splitlines()][:3] == ["--gpus", "--nodes", "--dp"]
    assert "--json" in text.split(f"{OUTPUT}:\n")[1]
    assert "x>=" not in page("why", 100)


@pytest.mark.parametrize("words", ["bench", "layouts", "memory"])
def test_a_verb_of_verbs_lists_them_uncut(words) -> None:
    listed = page(words, 80).split("Commands:\n")[1].split("\n\n")[0]
    assert "..." not in listed
    assert all(name.split()[1] in listed for name in COMMANDS if name.startswith(f"{words} "))


def test_a_line_for_an_option_names_a_parameter_and_every_option_has_a_line() -> None:
    unknown = []
    for path in sorted(ROOT.glob("amped/cli/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                parameters = {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
                parameters |= {
                    a.target.id
                    for a in ast.walk(node)
                    if isinstance(a, ast.AnnAssign) and isinstance(a.target, ast.Name)
                }
                unknown += [(path.name, name) for name in described(ast.get_docstring(node) or "").keys() - parameters]
    assert unknown == []
    without_help = [
        (words, p.name)
        for words, command in COMMANDS.items()
        for p in command.params
        if not (p.help or getattr(p, "hidden", False))
    ]
    assert without_help == []
