"""The encoder of images before a language model, from the sections of a config.json that describe it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.interop.fields import table
from amped.interop.records import Reading, Report, ReportLine
from amped.interop.sizes import sum_of

SECTION = "vision_config"
TOWERS, PROJECTORS = "towers", "projectors"
# The columns of a row that are no sums, and those that only other sums use.
NO_SUMS = ("source", "like", "needs", "assumed", "tower", "handed_width")
PREFIXES = ("tower_",)


def read_tower(raw: Mapping[str, Any], report: Report) -> tuple[dict[str, Any], set[str]]:
    """The sizes of the encoder of images and of its projector, and the keys of the file that say them; empty if not known.

    Args:
        raw: the whole file.
        report: where it is said what was read.
    """
    section, joined = raw.get(SECTION), table(TOWERS)[PROJECTORS].get(str(raw.get("model_type")))
    if not isinstance(section, Mapping) or joined is None:
        return {}, set()
    model_type = str(section.get("model_type") or joined["tower"])
    if model_type not in table(TOWERS)[TOWERS]:
        return {}, set()
    row, inner, outer = row_of(model_type), Reading(section), Reading(raw)
    needs_are_met = _has_what_it_needs(row, section) and _has_what_it_needs(joined, raw)
    if not (needs_are_met and _hands_on_whole_tokens(row, section, raw)):
        return {}, set()
    values = _sums(row, inner) or {}
    outer.values = dict(values)
    joined_values = _sums(joined, outer)
    sizes = {name: value for name, value in {**values, **(joined_values or {})}.items() if name.startswith(PREFIXES)}
    if not values or joined_values is None:
        return {}, set()
    report.used.append(ReportLine(SECTION, f"an encoder of images: {', '.join(sorted(sizes))}"))
    if "assumed" in row:
        report.defaulted.append(ReportLine("tower_tokens", row["assumed"]))
    keys = {key for key in (*outer.taken, *joined.get("needs", {})) if not isinstance(raw.get(key), Mapping)}
    return sizes, {SECTION, *keys}


@lru_cache(maxsize=64)
def row_of(model_type: str) -> Mapping[str, Any]:
    """The row of a tower, with the columns of the row that it is like."""
    row: dict[str, Any] = table(TOWERS)[TOWERS][model_type]
    return {**row_of(row["like"]), **row} if "like" in row else row


def _has_what_it_needs(row: Mapping[str, Any], raw: Mapping[str, Any]) -> bool:
    """Whether the keys that a row needs have one of the values that it names."""
    return all(raw.get(key) in values for key, values in row.get("needs", {}).items())


def _hands_on_whole_tokens(row: Mapping[str, Any], section: Mapping[str, Any], raw: Mapping[str, Any]) -> bool:
    """Whether the tokens that a tower hands on are as wide as those of the network; else the two do not run together."""
    width, text = section.get(row.get("handed_width", "")), raw.get("text_config")
    network = text if isinstance(text, Mapping) else raw
    return width is None or network.get("hidden_size", width) == width


def _sums(row: Mapping[str, Any], reading: Reading) -> dict[str, Any] | None:
    """The values of the sums of a row, by name; None if the file lacks a key that one of them needs.

    A sum may use the names of sums above it, and of the grid of patches once the sides of an image and of a patch are known.
    """
    waiting = {name: terms for name, terms in row.items() if name not in NO_SUMS}
    while waiting:
        found = {name: value for name, terms in waiting.items() if (value := sum_of(reading, terms)) is not None}
        if not found:
            return None
        reading.values |= found
        if {"image", "patch"} <= reading.values.keys():
            reading.values["patches"] = math.floor(reading.values["image"] / reading.values["patch"]) ** 2
        waiting = {name: terms for name, terms in waiting.items() if name not in found}
    return reading.values
