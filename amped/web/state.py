"""What the page says, as the question that the same options of the command line are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.aliases import aliases
from amped.base.commands import command
from amped.base.errors import ConfigError, FileError, TableError
from amped.base.files import parse_json, shipped_json
from amped.configuring.kernel_tables import NAME as KERNEL_TABLE
from amped.configuring.settings import setting
from amped.drafting.asking import Asking
from amped.interop import CONFIG
from amped.interop.models import as_row
from amped.interop.recognition import OBJECTS
from amped.interop.records import Imported
from amped.tables.table_files import MODELS, LookupTables
from amped.tables.tables import user_tables
from amped.theory.nouns.parallelisms import OPTIONS
from amped.web.controls import BY_CANONICAL, CONTROLS, DROPPED, ROWS, SEARCHED_ANEW

State = Mapping[str, str]
# The most names that the page says, and the longest text of one of them.
MOST_NAMES, LONGEST = 100, 100_000
# The names that the command line has an option for.
SHORT = {control.name for control in CONTROLS if control.name != control.canonical} | {*OPTIONS.values(), "etp"}


def state_of(raw: object) -> dict[str, str]:
    """The state that the page sent: texts by the names of its controls, without empty ones.

    Raises:
        ConfigError: for other types, too many or too long texts, or names that would read files.
    """
    if not isinstance(raw, Mapping) or not all(isinstance(word, str) for pair in raw.items() for word in pair):
        raise ConfigError("what the page says is not names with texts", "reload the page")
    if len(raw) > MOST_NAMES or any(len(text) > LONGEST for pair in raw.items() for text in pair):
        raise ConfigError("the address of the page is too long", "open the page without what follows #")
    named = {aliases().canonical(name): text.strip() for name, text in raw.items() if text.strip()}
    if KERNEL_TABLE in named or "formulas" in named:
        raise ConfigError("the page reads no files", f"use `amped estimate --set {KERNEL_TABLE}=FILE`")
    return {BY_CANONICAL.get(name, name): text for name, text in named.items()}


def own_of(question: Mapping[str, Any]) -> dict[str, str]:
    """The part of a state that the user gave: all of it but the mapping that the page marks as chosen.

    Raises:
        ConfigError: as of `state_of`.
    """
    chosen = question.get("chosen") or ()
    loose = {name for name in SEARCHED_ANEW if isinstance(chosen, list) and name in chosen}
    return {name: text for name, text in state_of(question.get("state")).items() if name not in loose}


def first() -> dict[str, str]:
    """The state that the page shows if the user names nothing."""
    return dict(shipped_json("web", "page/first.json"))


def asking(state: State, lookup_tables: LookupTables = None) -> Asking:
    """The question that a state of the page asks.

    Raises:
        AmpedError: for a network that cannot be read, or a value that amped has nothing for.
    """
    values: dict[str, object] = {}
    for name, text in state.items():
        if name == DROPPED:
            values["model"] = as_row(network(text))
        elif name in ROWS:
            values[name] = text
        else:
            values |= aliases().given(name, setting(text))
    if "model" in state and DROPPED not in state:
        values["model"] = _row_alone(state["model"], lookup_tables)
    return Asking(None, values, lookup_tables)


def _row_alone(name: str, lookup_tables: LookupTables) -> str:
    """The name of a network's row; a path is refused, because the page reads no files."""
    tables = user_tables(lookup_tables)
    try:
        return name if tables.has(MODELS, name) else tables.row(MODELS, name).name
    except TableError as error:
        raise TableError(error.problems, file="config") from None


@lru_cache(maxsize=16)
def network(text: str) -> Imported:
    """The network that the text of a dropped config.json describes.

    Raises:
        FileError, ConfigError: for another file, or a wrong value.
    """
    raw = parse_json(text, CONFIG)
    form = OBJECTS["hf"]
    if not isinstance(raw, Mapping) or not form.fits(raw):
        raise FileError("is no config.json of a Hugging Face model", "it has model_type and num_hidden_layers", CONFIG)
    return form.read(raw, CONFIG)


def words(verb: str, state: State, *more: str) -> str:
    """The command line that asks the question of a state.

    Args:
        verb: the verb of amped.
        state: the state.
        more: further words of the command.
    """
    parts = [verb]
    for name, text in state.items():
        if name == DROPPED:
            parts += ["--model", f"./{CONFIG}"]
        elif name in ROWS or name in SHORT:
            parts += [f"--{name}", text]
        else:
            parts += ["--set", f"{name}={text}"]
    return command(*parts, *more)


def changed(state: State, without: tuple[str, ...], more: Mapping[str, Any]) -> dict[str, str]:
    """A state without the names in `without`, and with the values of `more`, under the names of the page."""
    rest = {name: text for name, text in state.items() if name not in without}
    return rest | {BY_CANONICAL.get(name, name): text for name, text in more.items()}
