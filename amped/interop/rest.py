"""What becomes of the keys that no quantity takes: without effect, costly, or unknown. Nothing is dropped in silence."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import quoted
from amped.configuring.not_modeled import SHARES, SIZES, NotModeled
from amped.interop.fields import table
from amped.interop.records import Reading, ReportLine
from amped.interop.sizes import sum_of

OFF: tuple[Any, ...] = (None, False, 0, [], {}, "", "none")


@lru_cache(maxsize=32)
def _ignored_patterns(tables: str) -> list[tuple[str, re.Pattern[str]]]:
    """The patterns of keys without effect in a format, each after the reason."""
    return [(why, re.compile(pattern)) for why, pattern in _rows(tables, "ignored")]


@lru_cache(maxsize=32)
def _costly_patterns(tables: str) -> list[tuple[re.Pattern[str], Mapping[str, Any]]]:
    """The patterns of keys in a format that may cost time or memory, each with its row."""
    return [(re.compile(row["keys"]), row) for row in _rows(tables, "unsupported")]


def _rows(tables: str, kind: str) -> list[Any]:
    """The rows of a kind in a table, and then those of the table that it is like, if it names one."""
    own = table(tables)
    return [*own[kind], *(_rows(own["like"], kind) if "like" in own else ())]


def without_effect(tables: str, key: str) -> str | None:
    """The reason why a key of a format has no effect; None if it may have one."""
    return next((why for why, pattern in _ignored_patterns(tables) if pattern.fullmatch(key)), None)


def costly_feature(tables: str, key: str) -> Mapping[str, Any] | None:
    """The row of the feature to which a key belongs, if amped does not model the feature and it may cost something; else None."""
    return next((row for pattern, row in _costly_patterns(tables) if pattern.fullmatch(key)), None)


def report_unread_keys(
    tables: str, reading: Reading, unknown: str | None = None, key_in_file: Callable[[str], str] = str
) -> None:
    """Reports the keys that no quantity takes: as ignored, as a feature that amped does not model, or as unknown.

    Args:
        tables: the table with the patterns `ignored` and the rows `unsupported` of the format, and its `defaults`.
        reading: the file, with its values so far and its report.
        unknown: why an unknown key is ignored; None: an unknown key is reported as something that may cost.
        key_in_file: how a key is written in the file.
    """
    ignored, keys_by_feature, unknown_keys = (defaultdict[str, list[str]](list) for _ in range(3))
    defaults, rows = table(tables).get("defaults", {}), dict[str, Mapping[str, Any]]()
    ignored_in_family: Mapping[str, str] = reading.family.get("ignored", {})
    for key, value in reading.unread_keys().items():
        name, reason = key_in_file(key), ignored_in_family.get(key) or without_effect(tables, key) or unknown
        if key in defaults and defaults[key] == value:
            ignored["the default"].append(name)
        elif value in OFF and key not in defaults:
            ignored["off"].append(name)
        elif key not in ignored_in_family and (row := costly_feature(tables, key)) is not None:
            keys_by_feature[row["what"]].append(name)
            rows[row["what"]] = row
        elif reason is not None:
            ignored[reason].append(name)
        else:
            unknown_keys[f"{quoted(value)}: amped does not know this key; it may cost time or memory"].append(name)
    report = reading.report
    report.unsupported += [not_modeled(reading, rows[what], ", ".join(keys)) for what, keys in keys_by_feature.items()]
    report.unsupported += [ReportLine(", ".join(keys), reason) for reason, keys in unknown_keys.items()]
    report.ignored += [ReportLine(", ".join(keys), reason) for reason, keys in ignored.items()]


def not_modeled(reading: Reading, row: Mapping[str, Any], keys: str) -> ReportLine:
    """A line of the report about a feature that amped does not model.

    If `row` has formulas for the feature's sizes or shares, and the file has every key in them, the line carries these numbers as a bound.

    Args:
        reading: the file.
        row: the row of the feature.
        keys: the keys of the file that belong to it.
    """
    what = f"{row['what']}, which amped does not model"
    sizes: dict[str, Any] = {name: _size(reading, row[name]) for name in SIZES if name in row}
    shares = {
        name: {part: _size(reading, terms) for part, terms in row[name].items()} for name in SHARES if name in row
    }
    numbers = [*sizes.values(), *(share for parts in shares.values() for share in parts.values())]
    if not numbers or None in numbers:
        return ReportLine(keys, what)
    return ReportLine(keys, what, NotModeled(f"{keys}: {row['what']}", **sizes | shares))


def _size(reading: Reading, written: Any) -> float | None:
    """A number, or the value of a sum as `sum_of` reads it; None if it is not known."""
    return float(written) if isinstance(written, int | float) else sum_of(reading, written)
