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
    """The names of the files of the best candidates, in order: best-01.json and so on."""
    width = max(2, len(str(count)))
    return [f"best-{rank:0{width}}.json" for rank in range(1, count + 1)]


def refuse_taken(folder: Path) -> None:
    """Refuses a folder that holds winners of another exploration.

    Raises:
        ConfigError: if the folder has files of winners, or if it is not a folder.
    """
    if not exists(folder):
        return
    if not is_folder(folder):
        raise ConfigError(f"{folder} is a file, not a folder", "choose another --save-best")
    if taken := sorted(path.name for path in folder.glob("best-*.json")):
        raise ConfigError(f"{folder} has {taken[0]}, which is not overwritten", "choose another --save-best")


def save_best(asked: Scenario, found: Exploration, folder: Path) -> list[Path]:
    """Writes each of the best candidates as a config, and returns the paths.

    Before a config is written, it is read again and estimated.

    Args:
        asked: the config and the overrides that were explored.
        found: the exploration.
        folder: the folder for the configs.

    Raises:
        ConfigError: if the folder has winners of another exploration.
        FileError: if a config cannot be written.
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
    """Raises a RuntimeError if the estimate of a config has another step time than the row from which it was made."""
    scenario = read_scenario(config, {ANYWAY: True}, asked.question.lookup_tables, asked.question.formulas)
    step_time = estimated(scenario)["step_time"]
    if step_time != row["step_time"]:
        raise RuntimeError(f"the config of a winner gives a step of {step_time!r} s, the row {row['step_time']!r} s")


def saved_config(asked: Scenario, row: Row, swept: Sequence[str], description: str) -> dict[str, Any]:
    """The config of one row: swept parameters have the row's values, all else is as in the config that was explored.

    Args:
        asked: the config and the overrides that were explored.
        row: a row of the answer.
        swept: the names of the swept parameters; the other names in the row are results.
        description: the text that the config has as its description.
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
    """The overrides for the config of a row: the swept values of the row, and the user's overrides of all other names."""
    catalogue, canonical = asked.catalogue, aliases().canonical
    swept_values = {name: row[name] for name in swept if name in row}
    replaced = {other for name in swept_values if name in catalogue for other in catalogue[name].replaces}
    dropped = {*swept_values, *SEARCHED, *replaced}
    overrides = {name: value for name, value in asked.question.overrides.items() if canonical(name) not in dropped}
    return overrides | swept_values


def _section(row: TableRow | None) -> dict[str, Any]:
    """A section of a config without parameters. It looks up the row, unless there is no row or the row is a file."""
    if row is None or row.is_a_file:
        return {"parameters": {}}
    return {"lookup_config": {"lookup_table_name": row.table, "lookup_table_row": row.name}, "parameters": {}}


def _entries(scenario: Scenario) -> dict[str, dict[str, object]]:
    """The entry of each parameter that the config must have, by name: all but those that come with a row.

    Degrees of the config are left out, because the row of the candidate gives all degrees.
    """
    question, sources = scenario.question, scenario.sources
    dropped = {"performance_model", *(set(SEARCHED) - question.overrides.keys())}
    entries: dict[str, dict[str, object]] = {}
    for name, origin in sources.origins.items():
        written = question.config.entries.get(name)
        if (isinstance(origin, Given) and name not in dropped) or (
            isinstance(origin, LookedUp) and origin.row.is_a_file
        ):
            entries[name] = {"value": as_written(scenario.catalogue[name], origin.value, origin.written)}
        elif isinstance(origin, LookedUp) and written and written.kind == "table":
            column = {} if origin.column == name else {"lookup_name": origin.column}
            entries[name] = {"value": None, "from_lookup_table": True, **column}
    entries |= {name: {"value": None, "calculated": True} for name in sources.calculated if name not in dropped}
    if KERNELS in {**question.config.entries, **question.overrides}:
        entries[KERNELS] = {"value": sources.rows[KERNELS].name}
    return entries


def _category(scenario: Scenario, name: str) -> str:
    """The section where the config has a parameter; else the section where the catalogue lists it."""
    places = (scenario.question.config.entries.get(name), scenario.catalogue.get(name))
    listed = (place.category for place in places if place)
    return next(filter(None, listed), CATEGORIES[-1 if name == KERNELS else 1])


def as_written(quantity: Quantity, value: Value, written: object) -> object:
    """An entry of a config that is read as exactly a value: the user's text, a plain number, or a number with its unit.

    Args:
        quantity: the parameter.
        value: its value in canonical units.
        written: how the user wrote the value, if that is a text.

    Raises:
        RuntimeError: if no such entry is read as the value.
    """
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
