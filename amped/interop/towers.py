"""The encoder of images or of sound before a language model, from the sections of a config.json that describe it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.interop.fields import table
from amped.interop.records import Reading, Report, ReportLine
from amped.interop.sizes import sum_of

SECTION = "vision_config"
TOWERS, PROJECTORS, BEFORE = "towers", "projectors", "before_training"
# The columns of a row that are no sums, and those that only other sums use.
NO_SUMS = ("source", "like", "needs", "otherwise", "assumed", "tower", "handed_width", "section")
PREFIXES = ("tower_",)


def read_tower(raw: Mapping[str, Any], report: Report) -> tuple[dict[str, Any], set[str]]:
    """The sizes of the encoder of images or of sound and of its projector, and the keys of the file that say them.

    An encoder that is not known has no sizes. Sections of tokenizers that run before the training are told as such.

    Args:
        raw: the whole file.
        report: where it is said what was read.
    """
    model_type = str(raw.get("model_type"))
    before = {key: why for key, why in table(TOWERS)[BEFORE].get(model_type, {}).items() if key in raw}
    report.ignored += [ReportLine(key, why) for key, why in before.items()]
    joined = table(TOWERS)[PROJECTORS].get(model_type, {})
    name = joined.get("section", SECTION)
    section: Any = raw.get(name) if name else raw
    row = _row_that_fits(joined, section)
    if row is None or not (_has_what_it_needs(joined, raw) and _hands_on_whole_tokens(row, section, raw)):
        return {}, {*before}
    inner, outer = Reading(section), Reading(raw)
    outer.values = dict(_sums(row, inner) or {})
    values = outer.values and _sums(joined, outer)
    if not values:
        return {}, {*before}
    sizes = {name: value for name, value in values.items() if name.startswith(PREFIXES)}
    if "assumed" in row:
        report.defaulted.append(ReportLine("tower_tokens", row["assumed"]))
    of_tower = [name] if name else [*inner.taken]
    of_tower += sorted(_outer_keys(raw, {*outer.taken}, joined) - {*of_tower})
    report.used.append(ReportLine(", ".join(of_tower), f"an encoder: {', '.join(sorted(sizes))}"))
    return sizes, {*of_tower, *before}


def _outer_keys(raw: Mapping[str, Any], taken: set[str], joined: Mapping[str, Any]) -> set[str]:
    """The keys outside a tower's section that are of its projector alone; those of a flat file are the language model's, too."""
    is_flat = not isinstance(raw.get("text_config"), Mapping)
    keys = {*(() if is_flat else taken), *joined.get("needs", {})}
    return {key for key in keys if not isinstance(raw.get(key), Mapping)}


def _row_that_fits(joined: Mapping[str, Any], section: Any) -> Mapping[str, Any] | None:
    """The row of the tower in a section, or the row that stands in for it if the section lacks what it needs; None if no row fits."""
    if not joined or not isinstance(section, Mapping):
        return None
    own = section.get("model_type") if joined.get("section", SECTION) else None
    model_type: str | None = str(own or joined["tower"])
    while model_type in table(TOWERS)[TOWERS]:
        row = row_of(str(model_type))
        if _has_what_it_needs(row, section):
            return row
        model_type = row.get("otherwise")
    return None


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
