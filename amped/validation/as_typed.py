"""Rows of measurements as a person would type them: without the switches that only a recipe or a page of benchmarks says."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any

from amped.base.errors import AmpedError
from amped.base.files import shipped_json
from amped.tables.recipes import BY_FORCE, RECIPE, in_manner
from amped.tables.tables import Tables
from amped.validation.table import Row


class Typed(StrEnum):
    """What is typed of the software: its name with the release, or its name alone."""

    RELEASE = "release"
    NAME = "name"


def as_typed(row: Row, typed: Typed, tables: Tables) -> Row:
    """A row with the values that people type: network, machine, degrees, batch, precision, recomputation and software.

    Software is taken as its recipes run it if recipes are known and the row is a benchmark: of a page of benchmarks, or with experts
    that are balanced by force.
    """
    untyped = shipped_json("validation", "untyped.json")["parameters"]
    settings = {name: value for name, value in row.settings.items() if name not in untyped}
    if "software" in settings:
        settings["software"] = _software(row, str(settings["software"]), typed, tables)
    return replace(row, settings=settings)


def _software(row: Row, name: str, typed: Typed, tables: Tables) -> str:
    """The software of a row, in the manner in which it ran, as far as its row tells."""
    release = row.facts.get("software_release", name) if typed is Typed.RELEASE else name
    pages = shipped_json("validation", "untyped.json")["benchmarks"]
    is_benchmark = row.texts.get("source") in pages or any(
        _equal(row.settings.get(parameter), value) for parameter, value in BY_FORCE.items()
    )
    try:
        return in_manner(tables, release, RECIPE) if is_benchmark else name
    except AmpedError:  # no recipes of this software are known
        return name


def _equal(written: Any, value: float | str) -> bool:
    """Whether a written value is a number or a word."""
    try:
        return float(written) == value
    except (TypeError, ValueError):
        return str(written) == value
