"""The only reader of configs: from JSON to entries by canonical name. The raw dictionary ends here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from amped.base.aliases import aliases
from amped.base.commands import command
from amped.base.errors import AmpedError, ConfigError, FileError, Problem, did_you_mean, quoted
from amped.base.files import is_shipped, read_json, shipped_json
from amped.base.record import dataclass
from amped.base.words import is_unicode
from amped.configuring.config_schema import structure_problems
from amped.configuring.lengths import LENGTHS, PACKING
from amped.configuring.not_modeled import KEY, NotModeled
from amped.configuring.not_modeled import entries as not_modeled_entries
from amped.configuring.values import read_value
from amped.tables.prices import MARKET
from amped.tables.table_files import ACCELERATORS, KERNELS, MODELS, SYSTEMS
from amped.tables.tables import user_tables
from amped.theory.language.catalogue import Catalogue
from amped.theory.language.doors import inside
from amped.theory.language.quantity import CATEGORIES

OLD_EFFICIENCY = "effective_perf_perc_"


@dataclass(frozen=True)
class Entry:
    """One parameter of a config: a value, or where to get it.

    Attributes:
        name: canonical name; `written_name` is the name in the file.
        where: JSON path.
        kind: "value", "calculated" or "table".
        value: the value as it is written; a list is a sweep.
        column: the table column, for kind "table".
        category: the section of the config that holds it.
    """

    name: str
    written_name: str
    where: str
    kind: str
    value: Any
    column: str = ""
    category: str = ""


@dataclass(frozen=True)
class Config:
    """A config as it is written, by canonical names.

    Attributes:
        label: the file or the name, for messages.
        entries: parameters by canonical name.
        lookups: for each category with a lookup_config, its table (or None) and its row or rows (or None).
        old_style: whether AMPeD's older names are used, so that bandwidths without a unit are in bits per second.
        equals: entries with another name of a quantity, which must agree with it.
        notices: what the user should be told once.
        not_modeled: what amped does not model of it, as an importer wrote it.
        documents: the texts under "lengths" and "packing", if they are there.
        market: the texts under "cloud", "region", "term" and "grid", if they are there.
        problems: the problems with names; the caller adds those with values.
    """

    label: str
    description: str
    entries: Mapping[str, Entry]
    lookups: Mapping[str, tuple[str | None, str | list[str] | None]]
    old_style: bool
    equals: tuple[Entry, ...] = ()
    notices: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    not_modeled: tuple[NotModeled, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict)
    market: Mapping[str, str] = field(default_factory=dict)


# The keys by which a config.json of Hugging Face is known.
HUGGING_FACE = {"architectures", "model_type"}


def shipped_configs() -> list[str]:
    """The names of the configs that come with amped."""
    from importlib import resources  # slow to load

    return sorted(f.name[:-5] for f in resources.files("amped.configs").iterdir() if f.name.endswith(".json"))


def read_config(source: str | Path | Mapping[str, Any], catalogue: Catalogue, all_at_once: bool = False) -> Config:
    """Reads a config from a file, by the name of a shipped one, or from a mapping.

    Args:
        source: the config.
        catalogue: all quantities, whose names a config may have.
        all_at_once: leave problems with names to the caller, who reports them together with those of values.

    Raises:
        FileError: for a file that is missing or not JSON.
        ConfigError: with all problems, each with its JSON path.
    """
    raw, label = _raw(source)
    try:
        config = _parsed(raw, label, catalogue)
    except ConfigError as error:
        raise ConfigError(error.problems, file=label) from None
    if config.problems and not all_at_once:
        raise ConfigError(config.problems, file=label)
    return config


def _raw(source: object) -> tuple[Any, str]:
    """The JSON value of a config, and a label for messages.

    Raises:
        FileError: for a file that is missing or not JSON; ConfigError for another type.
    """
    if isinstance(source, Mapping):
        return _plain(source), "config"
    if not isinstance(source, str | Path):
        raise ConfigError(f"{quoted(source)} is no config", "give a file, the name of a shipped config, or a mapping")
    path, name = Path(source), str(source).removesuffix(".json")
    try:
        exists, is_file = path.exists() and bool(str(source)), path.is_file()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"no such file: {str(reason).lower()}", file=quoted(str(source))) from None
    if not is_file and is_shipped("configs", f"{name}.json"):
        return shipped_json("configs", f"{name}.json"), name
    if not exists:
        if kind := row_kind(name):
            raise FileError(
                f"is no config, but one of `amped list {kind}s`", command("estimate", f"--{kind}", name), str(source)
            )
        hint = did_you_mean(path.stem, shipped_configs()) or f"shipped are {', '.join(shipped_configs())}"
        raise FileError("no such file, and no shipped config of that name", hint, str(source))
    return read_json(path), str(source)


def row_kind(name: str) -> str | None:
    """The kind of row that a text names: "model", "system" or "accelerator"."""
    kinds = {"model": MODELS, "system": SYSTEMS, "accelerator": ACCELERATORS}
    return next((kind for kind, table in kinds.items() if user_tables().has(table, name)), None)


def _plain(source: Mapping[str, Any]) -> Any:
    """A mapping as JSON would have it: text keys, lists, Python's own numbers."""
    try:
        return json.loads(json.dumps(source, default=lambda value: value.item()))
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"the mapping is not JSON: {error}"[:200], "use text, numbers, lists and mappings") from None


def _parsed(raw: Any, label: str, catalogue: Catalogue) -> Config:
    """The config in a raw JSON value; problems with names are among its fields.

    Raises:
        ConfigError: for a value that has not the structure of a config.
    """
    _refuse_malformed(raw, label, catalogue)
    written = [entry for category in CATEGORIES for entry in _entries(category, raw.get(category, {}))]
    problems = [p for entry in written for p in _entry_problems(entry, catalogue)]
    used = [e for e in written if e.written_name not in aliases().retired and e.written_name not in aliases().equal_to]
    entries: dict[str, Entry] = {}
    for entry in (*used, *_efficiencies(written)):
        if (entry.name in catalogue or _names_kernels(entry)) and _sound(entry):
            problems += _clash(entries.get(entry.name), entry, catalogue)
            entries.setdefault(entry.name, entry)
    description = raw.get("description", "")
    if not is_unicode(description):
        problems.append(Problem("has text that is no Unicode", "description", "half a pair of UTF-16 stands alone"))
    if "performance_model" in raw:
        name = "performance_model"
        entries[name] = Entry(name, name, name, kind="value", value=raw[name])
    lookups = {c: raw[c]["lookup_config"] for c in CATEGORIES if "lookup_config" in raw.get(c, {})}
    return Config(
        label, description, entries,
        lookups={c: (lookup.get("lookup_table_name"), lookup.get("lookup_table_row")) for c, lookup in lookups.items()},
        old_style=any(aliases().is_old(e.written_name) for e in written),
        equals=tuple(e for e in written if e.written_name in aliases().equal_to and e.kind == "value" and _sound(e)),
        notices=tuple(_notices(written)), problems=tuple(problems), not_modeled=not_modeled_entries(raw.get(KEY, ())),
        documents={name: raw[name] for name in (LENGTHS, PACKING) if name in raw},
        market={name: raw[name] for name in MARKET if name in raw},
    )  # fmt: skip


def _refuse_malformed(raw: Any, label: str, catalogue: Catalogue) -> None:
    """Raises an error if a JSON value has not the structure of a config.

    Raises:
        ConfigError: with all problems of the structure and of the names.
    """
    if not isinstance(raw, dict):
        raise ConfigError(f"is {quoted(raw)}, not an object", f"a config has the keys {', '.join(CATEGORIES)}")
    if HUGGING_FACE & raw.keys():
        raise ConfigError("is a network of Hugging Face, and no config of amped", command("estimate", "--model", label))
    wrong = structure_problems(raw)
    if wrong:
        raise ConfigError([*wrong, *_name_problems(raw, catalogue)])


def _names_kernels(entry: Entry) -> bool:
    """Whether the entry names a row of kernel efficiencies."""
    return entry.name == KERNELS and entry.kind == "value" and isinstance(entry.value, str)


def _sound(entry: Entry) -> bool:
    """Whether the entry has exactly one source of its value: a formula, a table or a value that is not null."""
    return entry.kind in ("calculated", "table") or (entry.kind == "value" and entry.value not in (None, ...))


def _efficiencies(entries: list[Entry]) -> Iterator[Entry]:
    """AMPeD's effective_perf_perc_* entries as the matrix efficiency, if they all have one value."""
    given = [e for e in entries if e.written_name.startswith(OLD_EFFICIENCY) and e.kind == "value"]
    values = {e.value for e in given if isinstance(e.value, int | float) and not isinstance(e.value, bool)}
    if len(values) == 1:
        efficiency = values.pop()
        share = efficiency / 100 if efficiency > 1 else efficiency
        yield replace(given[0], name="matrix_efficiency", written_name="matrix_efficiency", value=share)


def _entries(category: str, section: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of the parameters in the section of a category; kind "both" if two sources are named."""
    for name, raw in section.get("parameters", {}).items():
        where = f"{category}.parameters.{name}"
        looked_up, calculated = raw.get("from_lookup_table"), raw.get("calculated")
        kind = "both" if looked_up and calculated else "table" if looked_up else "calculated" if calculated else "value"
        canonical = aliases().canonical(name)
        yield Entry(
            canonical, name, where, kind=kind, value=raw.get("value", ...), column=raw.get("lookup_name") or canonical,
            category=category,
        )  # fmt: skip


def _entry_problems(entry: Entry, catalogue: Catalogue) -> Iterator[Problem]:
    """The problem with the name or the source of an entry, if there is one."""
    old = aliases()
    if entry.written_name in old.retired:
        return
    if entry.name == KERNELS:
        if not _names_kernels(entry):
            yield Problem("is not the name of a row", entry.where, f"give a row of {KERNELS} as value")
    elif entry.name not in catalogue or catalogue[entry.name].mark.constrains:
        hint = (
            did_you_mean(entry.written_name, [*catalogue.public, *old.suggested()])
            or "`amped list parameters` shows them"
        )
        yield Problem(f"unknown parameter {quoted(entry.written_name)}", entry.where, hint)
    elif catalogue.is_inside(entry.name):
        yield inside(entry.name, catalogue, entry.where)
    elif entry.kind == "both":
        yield Problem("is to be calculated and to be looked up", entry.where, "set one of the two to false")
    elif entry.kind == "value" and entry.value is ...:
        yield Problem("has no value", entry.where, 'give "value", "calculated": true or "from_lookup_table": true')
    elif entry.kind == "value" and entry.value is None:
        yield Problem("is null, and neither calculated nor looked up", entry.where, "give one of the three")
    elif (
        entry.kind == "calculated"
        and entry.written_name not in old.equal_to
        and not _has_formula(entry.name, catalogue)
    ):
        yield Problem("cannot be calculated: it has no formula", entry.where, "give its value, or take it from a table")


def _has_formula(name: str, catalogue: Catalogue) -> bool:
    """Whether a quantity has a formula with arguments, or a default."""
    return any(f.arguments or f.function() is not None for f in catalogue[name].formulas)


def _clash(first: Entry | None, second: Entry, catalogue: Catalogue) -> list[Problem]:
    """A problem if two entries of one config give the same quantity different values; `first` is None for a single entry."""
    if first is None:
        return []
    same = first.kind == second.kind and (first.kind != "table" or first.column == second.column)
    if isinstance(first.value, list) or isinstance(second.value, list):
        same = same and first.value == second.value
    elif same and first.kind == "value" and (type(first.value), first.value) != (type(second.value), second.value):
        try:
            quantity = catalogue[second.name]
            same = read_value(quantity, first.value) == read_value(quantity, second.value)
        except AmpedError as error:
            return error.at(second.where)
    if same:
        return []
    return [Problem(f"'{second.name}' has two sources", second.where, f"the other is {first.where}; keep one")]


def _name_problems(raw: Mapping[str, Any], catalogue: Catalogue) -> Iterator[Problem]:
    """The problems with parameters of a config whose structure is wrong elsewhere, so that all are reported at once."""
    for category in CATEGORIES:
        section = raw.get(category)
        names = section.get("parameters") if isinstance(section, dict) else None
        parameters = {n: p for n, p in names.items() if isinstance(p, dict)} if isinstance(names, dict) else {}
        for entry in _entries(category, {"parameters": parameters}):
            yield from _entry_problems(entry, catalogue)


def _notices(entries: list[Entry]) -> Iterator[str]:
    """Notices about retired names among the entries."""
    retired = [e for e in entries if e.written_name in aliases().retired]
    if retired:
        yield f"not used any more: {', '.join(e.written_name for e in retired)}"
    valued = [f"{e.written_name} = {quoted(e.value)}" for e in retired if e.kind == "value" and _sound(e)]
    if valued:
        yield f"warning: these retired parameters have a value that changes nothing: {', '.join(valued)}"
