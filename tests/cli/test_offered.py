"""Nothing is lost: what users can type and read today stays, by the list in `offered.json`. What is new is added there."""

import json
from collections.abc import Iterator

import typer

import amped
from amped.cli.app import app
from amped.configuring.config import shipped_configs
from amped.theory.language.catalogue import catalogue
from tests.helpers.places import DATA

# Each value is the words of one kind, with a space between two.
OFFERED = json.loads((DATA / "offered.json").read_text("utf-8"))


def options_of(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Each verb by its words, with its options."""
    for name, inner in command.commands.items():  # type: ignore[attr-defined]
        if hasattr(inner, "commands"):
            yield from options_of(inner, (*path, name))
        else:
            yield " ".join((*path, name)), {o for p in inner.params for o in (*p.opts, *p.secondary_opts)}


def lost(kind: str, there: dict[str, set[str]]) -> dict[str, set[str]]:
    """What a kind of names lists and what is not there any more."""
    missing = {name: {*words.split()} - there.get(name, set()) for name, words in OFFERED[kind].items()}
    return {name: words for name, words in missing.items() if words or name not in there}


def test_every_verb_has_the_options_that_it_had() -> None:
    assert lost("verbs", dict(options_of(typer.main.get_command(app)))) == {}


def test_every_choice_is_there() -> None:
    assert lost("choices", {name: {*map(str, q.mark.choices)} for name, q in catalogue().items()}) == {}


def test_every_parameter_result_config_and_function_is_there() -> None:
    results = [amped.estimate(config).to_dict() for config in ("default", "mixtral-8x7b")]
    there = {
        "parameters": {name for name, q in catalogue().items() if q.category},
        "results": {name for one in results for name in one},
        "configs": {*shipped_configs()},
        "door": {*amped.__all__},
    }
    assert lost("names", there) == {}
