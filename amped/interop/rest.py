"""What becomes of the keys that no quantity takes: without effect, costly, or unknown. Nothing is dropped in silence."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import quoted
from amped.configuring.not_modeled import SHARES, SIZES, NotModeled
from amped.interop.fields import table
from amped.interop.records import Reading, ReportLine
from amped.interop.sizes import sum_of

OFF: tuple[Any, ...] = (None, False, 0, [], {}, "", "none")


@lru_cache(maxsize=32)
def _ignored(tables: str) -> list[tuple[str, re.Pattern[str]]]:
    return [(why, re.compile(pattern)) for why, pattern in table(tables)["ignored"]]


@lru_cache(maxsize=32)
def _costly(tables: str) -> list[tuple[re.Pattern[str], Mapping[str, Any]]]:
    return [(re.compile(row["keys"]), row) for row in table(tables)["unsupported"]]


def without_effect(tables: str, key: str) -> str | None:
    """Why a key of a format has no effect; None if it may have one."""
    return next((why for why, pattern in _ignored(tables) if pattern.fullmatch(key)), None)


def costly(tables: str, key: str) -> Mapping[str, Any] | None:
    """The row of something that may cost and that amped does not model, to which a key belongs; None if there is none."""
    return next((row for pattern, row in _costly(tables) if pattern.fullmatch(key)), None)


def tell_rest(tables: str, reading: Reading, unknown: str | None = None) -> None:
    """Tells what became of keys that no quantity takes.

    Args:
        tables: the table with the patterns `ignored` and the rows `unsupported` of the format, and its `defaults`.
        reading: the file, with its values so far and the report where it is told.
        unknown: why an unknown key is ignored; without it, an unknown key is told as something that may cost.
    """
    ignored, costs, strange = (defaultdict[str, list[str]](list) for _ in range(3))
    defaults, rows = table(tables).get("defaults", {}), dict[str, Mapping[str, Any]]()
    of_family: Mapping[str, str] = reading.family.get("ignored", {})
    for key, value in reading.rest().items():
        why = of_family.get(key) or without_effect(tables, key) or unknown
        if key in defaults and defaults[key] == value:
            ignored["the default"].append(key)
        elif value in OFF and key not in defaults:
            ignored["off"].append(key)
        elif key not in of_family and (row := costly(tables, key)) is not None:
            costs[row["what"]].append(key)
            rows[row["what"]] = row
        elif why is not None:
            ignored[why].append(key)
        else:
            strange[f"{quoted(value)}: amped does not know this key; it may cost time or memory"].append(key)
    report = reading.report
    report.unsupported += [_not_modeled(reading, rows[what], ", ".join(keys)) for what, keys in costs.items()]
    report.unsupported += [ReportLine(", ".join(keys), why) for why, keys in strange.items()]
    report.ignored += [ReportLine(", ".join(keys), why) for why, keys in ignored.items()]


def _not_modeled(reading: Reading, row: Mapping[str, Any], keys: str) -> ReportLine:
    """Something that amped does not model, with its sizes if its row has some and the file says what they need."""
    what = f"{row['what']}, which amped does not model"
    sizes: dict[str, Any] = {name: _size(reading, row[name]) for name in SIZES if name in row}
    shares = {name: {part: _size(reading, of) for part, of in row[name].items()} for name in SHARES if name in row}
    if not (sizes or shares) or None in (
        *sizes.values(),
        *(share for parts in shares.values() for share in parts.values()),
    ):
        return ReportLine(keys, what)
    return ReportLine(keys, what, NotModeled(f"{keys}: {row['what']}", **sizes | shares))


def _size(reading: Reading, written: Any) -> float | None:
    """A number, or a sum of products of numbers, keys and quantities."""
    return float(written) if isinstance(written, int | float) else sum_of(reading, written)
