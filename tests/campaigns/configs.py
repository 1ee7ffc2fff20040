"""Configs: shipped ones and drawn ones, as they are and with a few mistakes; and `--set` over every name."""

import contextlib
import copy
import io
import json
from random import Random
from typing import Any

from amped.base.errors import AmpedError
from amped.cli.options import overrides
from amped.configuring.config import shipped_configs
from amped.library import estimate
from amped.tables.table_files import ACCELERATORS, MODELS, SYSTEMS
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, CATEGORIES, MAPPING, NETWORK, SYSTEM
from tests.campaigns.answers import seen_of_estimate, wrong_refusal
from tests.campaigns.records import Case, Kind, Seen, around, places_of
from tests.campaigns.runs import drawn_run
from tests.campaigns.values import all_names, config_of, drawn_value, fitting, inputs, nasty, row_of

ROWS = {"model": NETWORK, "system": SYSTEM, "accelerator": ACCELERATOR}
ROW_TABLES = {NETWORK: MODELS, SYSTEM: SYSTEMS, ACCELERATOR: ACCELERATORS}


def whole_config(random: Random) -> Case:
    """A shipped config, or a drawn one."""
    if random.random() < 0.5:
        return copy.deepcopy(config_of(random.choice(shipped_configs())))
    given = drawn_run(random)
    config: Case = {category: {"parameters": {}} for category in CATEGORIES}
    for name, value in given.items():
        if name in ROWS:
            config[ROWS[name]]["lookup_config"] = {"lookup_table_row": value}
        else:
            config[catalogue()[name].category or MAPPING]["parameters"][name] = {"value": value}
    return config


def _set(random: Random, config: Case) -> None:
    """A value that fits, in its section."""
    name = random.choice(inputs())
    _give(config, str(catalogue()[name].category), name, {"value": fitting(random, catalogue()[name])})


def _set_any(random: Random, config: Case) -> None:
    """Any name, in any section, with any entry."""
    name = random.choice(all_names())
    entry = {
        random.choice(("value", "calculated", "from_lookup_table", "lookup_name", "valu")): drawn_value(random, name)
    }
    _give(config, random.choice(CATEGORIES), name, random.choice((entry, entry, nasty(random))))


def _give(config: Case, category: str, name: str, entry: Any) -> None:
    section = config.setdefault(category, {})
    if isinstance(section, dict) and isinstance(section.setdefault("parameters", {}), dict):
        section["parameters"][name] = entry


def _replace(random: Random, config: Case) -> None:
    """Something else in any place."""
    place = random.choice(places_of(config) or [("description",)])
    around(config, place)[place[-1]] = nasty(random)


def _remove(random: Random, config: Case) -> None:
    """Something is missing."""
    places = places_of(config)
    if places:
        place = random.choice(places)
        del around(config, place)[place[-1]]


def _misspell(random: Random, config: Case) -> None:
    """Another key."""
    places = [place for place in places_of(config) if isinstance(around(config, place), dict)]
    if places:
        place = random.choice(places)
        inner = around(config, place)
        at = random.randrange(len(place[-1]) + 1)
        inner[place[-1][:at] + random.choice("aZ_ -\n[é") + place[-1][at + random.randint(0, 1) :]] = inner.pop(
            place[-1]
        )


def _other_row(random: Random, config: Case) -> None:
    """Another row of a table, or of another table."""
    category = random.choice([*ROW_TABLES])
    table = ROW_TABLES[category] if random.random() < 0.9 else MODELS
    section = config.setdefault(category, {})
    if isinstance(section, dict):
        section["lookup_config"] = {"lookup_table_row": row_of(random, table)}


CHANGES = (_set, _set, _set, _set, _other_row, _other_row, _set_any, _replace, _remove, _misspell)


def draw_config(random: Random) -> Case:
    config = whole_config(random)
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3))):
        random.choice(CHANGES)(random, config)
    return {"config": config}


def run_config(case: Case) -> Seen:
    config = case.get("config", {})
    return seen_of_estimate(lambda: estimate(config))


def draw_settings(random: Random) -> Case:
    names = random.sample(all_names(), random.choice((1, 1, 1, 2, 3)))
    settings = [f"{name}={_written(drawn_value(random, name))}" for name in names]
    return {"config": random.choice(shipped_configs()), "set": settings}


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def run_settings(case: Case) -> Seen:
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # which notes the names that others stand for
            given: dict[str, Any] = overrides(case.get("set", []))
    except AmpedError as error:
        return Seen(wrong_refusal(error), answered=0)
    return seen_of_estimate(lambda: estimate(case.get("config", "default"), **given))


CONFIGS = Kind("configs", draw_config, run_config, hourly=60_000, slice=120)
SETTINGS = Kind("settings", draw_settings, run_settings, hourly=20_000, slice=100)
