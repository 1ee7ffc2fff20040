"""A candidate as a complete config; `amped estimate` gives exactly its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import AmpedError, ConfigError
from amped.base.files import exists, is_folder, write_atomically
from amped.base.units import factor
from amped.configuring.config_writing import as_json, schema_uri
from amped.configuring.not_modeled import ANYWAY, KEY
from amped.configuring.scenario import Scenario, read_scenario
from amped.configuring.sources import Given, LookedUp
from amped.configuring.values import Value, read_value
from amped.estimation.estimation import estimated
from amped.exploration.answer import Exploration
from amped.exploration.results import Row
from amped.exploration.sweep_axes import SEARCHED
from amped.tables.table_files import KERNELS
from amped.tables.tables import Row as TableRow
from amped.theory.language.catalogue import Quantity
from amped.theory.language.quantity import CATEGORIES


def names_of_winners(count: int) -> list[str]:
    """The names of the files, in order: best-01.json and so on."""
    width = max(2, len(str(count)))
    return [f"best-{rank:0{width}}.json" for rank in range(1, count + 1)]


def refuse_taken(folder: Path) -> None:
    """Refuses a folder that holds winners of another exploration.

    Raises:
        ConfigError: if the folder has some, or if it is not a folder.
    """
    if not exists(folder):
        return
    if not is_folder(folder):
        raise ConfigError(f"{folder} is a file, not a folder", "choose another --save-best")
    if taken := sorted(path.name for path in folder.glob("best-*.json")):
        raise ConfigError(f"{folder} has {taken[0]}, which is not overwritten", "choose another --save-best")


def save_best(asked: Scenario, found: Exploration, folder: Path) -> list[Path]:
    """Writes each of the best candidates as a config; before it is written, it is read again and estimated.

    Raises:
        FileError: if one cannot be written.
    """
    refuse_taken(folder)
    written = []
    for rank, (name, row) in enumerate(zip(names_of_winners(len(found.best)), found.best, strict=True), 1):
        place = f"number {rank} of {found.candidates:,} candidates by {found.objective.replace('_', ' ')}"
        config = saved_config(asked, row, found.swept, "; ".join(filter(None, (asked.description, place))))
        _check(asked, config, row)
        written.append(write_atomically(folder / name, as_json(config)))
    return written


def _check(asked: Scenario, config: dict[str, Any], row: Row) -> None:
    again = read_scenario(config, {ANYWAY: True}, asked.question.lookup_tables, asked.question.formulas)
    step_time = estimated(again)["step_time"]
    if step_time != row["step_time"]:
        raise RuntimeError(
            f"the config of a winner gives a step of {step_time!r} s, the row has {row['step_time']!r} s"
        )


def saved_config(asked: Scenario, row: Row, swept: Sequence[str], description: str) -> dict[str, Any]:
    """The config of one row: swept names have the row's values, all else stays as it was asked.

    Args:
        asked: what was explored.
        row: a row of the answer.
        swept: the names that the row gives; the other names of it are results.
        description: the config's description of itself.
    """
    question = asked.question
    scenario = read_scenario(question.config, _given(asked, row, swept), question.lookup_tables, question.formulas)
    sources = scenario.sources
    config: dict[str, Any] = {"$schema": schema_uri(), "description": description}
    config |= {name: value for name, value in sources.choices.items() if name == "performance_model"}
    if sources.not_modeled:
        config[KEY] = [entry.written() for entry in sources.not_modeled]
    config |= {category: _section(sources.rows.get(category)) for category in CATEGORIES}
    for name, entry in _entries(scenario).items():
        config[_category(scenario, name)]["parameters"][name] = entry
    return config


def _given(asked: Scenario, row: Row, swept: Sequence[str]) -> dict[str, object]:
    """The overrides for a row's config: its swept values, and former overrides of names that were not searched."""
    catalogue, named = asked.catalogue, aliases().canonical
    varied = {name: row[name] for name in swept if name in row}
    gone = {*varied, *SEARCHED, *(other for name in varied if name in catalogue for other in catalogue[name].replaces)}
    kept = {name: value for name, value in asked.question.overrides.items() if named(name) not in gone}
    return kept | varied


def _section(row: TableRow | None) -> dict[str, Any]:
    """The section of a config that looks up a row, if there is one and it does not stand in a file."""
    if row is None or row.is_a_file:
        return {"parameters": {}}
    return {"lookup_config": {"lookup_table_name": row.table, "lookup_table_row": row.name}, "parameters": {}}


def _entries(scenario: Scenario) -> dict[str, dict[str, object]]:
    """Every parameter that does not come with a row; the row's mapping replaces that of the config."""
    question, sources = scenario.question, scenario.sources
    gone = {"performance_model", *(set(SEARCHED) - question.overrides.keys())}
    entries: dict[str, dict[str, object]] = {}
    for name, origin in sources.origins.items():
        written = question.config.entries.get(name)
        if (isinstance(origin, Given) and name not in gone) or (isinstance(origin, LookedUp) and origin.row.is_a_file):
            entries[name] = {"value": as_written(scenario.catalogue[name], origin.value, origin.written)}
        elif isinstance(origin, LookedUp) and written and written.kind == "table":
            column = {} if origin.column == name else {"lookup_name": origin.column}
            entries[name] = {"value": None, "from_lookup_table": True, **column}
    entries |= {name: {"value": None, "calculated": True} for name in sources.calculated if name not in gone}
    if KERNELS in {**question.config.entries, **question.overrides}:
        entries[KERNELS] = {"value": sources.rows[KERNELS].name}
    return entries


def _category(scenario: Scenario, name: str) -> str:
    """The section where the config has a parameter; else the section where the catalogue lists it."""
    places = (scenario.question.config.entries.get(name), scenario.catalogue.get(name))
    listed = (place.category for place in places if place)
    return next(filter(None, listed), CATEGORIES[-1 if name == KERNELS else 1])


def as_written(quantity: Quantity, value: Value, written: object) -> object:
    """What a config reads as exactly that value: the text that was written, a plain number, or one with its unit."""
    unit, bare = quantity.mark.unit, quantity.mark.bare
    if isinstance(value, str):
        return value
    if unit == "boolean":
        return bool(value)
    number = value / factor(bare, unit) if bare else value
    plain = int(number) if number.is_integer() and abs(number) < 2**53 else number
    for text in (written if isinstance(written, str) else plain, plain, f"{value!r} {unit}"):
        with suppress(AmpedError):
            if read_value(quantity, text) == value:
                return text
    raise RuntimeError(f"{quantity.name} = {value!r} cannot be written so that it is read as such")
