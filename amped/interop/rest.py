"""What becomes of the keys that no quantity takes: without effect, costly, or unknown. Nothing is dropped in silence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import quoted
from amped.interop.fields import table
from amped.interop.records import Report, Told


@lru_cache(maxsize=32)
def _patterns(tables: str, group: str) -> list[tuple[str, re.Pattern[str]]]:
    return [(why, re.compile(pattern)) for why, pattern in table(tables)[group]]


def reason(tables: str, group: str, key: str) -> str | None:
    """Why a key is in a group of a table; None if it is not."""
    return next((why for why, pattern in _patterns(tables, group) if pattern.fullmatch(key)), None)


def tell_rest(
    tables: str,
    rest: Mapping[str, Any],
    report: Report,
    own: Mapping[str, str] | None = None,
    unknown: str | None = None,
) -> None:
    """Tells what became of keys that no quantity takes.

    Args:
        tables: the table with the patterns `ignored` and `unsupported` of the format, and its `defaults`.
        rest: the keys and their values.
        report: where it is told.
        own: further keys without effect, and why.
        unknown: why an unknown key is ignored; without it, an unknown key is told as something that may cost.
    """
    ignored, costly, defaults = dict[str, list[str]](), dict[str, list[str]](), table(tables).get("defaults", {})
    for key, value in rest.items():
        why = (own or {}).get(key) or reason(tables, "ignored", key) or unknown
        if value in (None, False, 0, [], {}, "", "none"):
            ignored.setdefault("off", []).append(key)
        elif key in defaults and defaults[key] == value:
            ignored.setdefault("the default", []).append(key)
        elif key not in (own or {}) and (cost := reason(tables, "unsupported", key)) is not None:
            costly.setdefault(f"{cost}, which amped does not model", []).append(key)
        elif why is not None:
            ignored.setdefault(why, []).append(key)
        else:
            costly.setdefault(f"{quoted(value)}: amped does not know this key; it may cost time or memory", []).append(
                key
            )
    report.unsupported += [Told(", ".join(found), why) for why, found in costly.items()]
    report.ignored += [Told(", ".join(found), why) for why, found in ignored.items()]
