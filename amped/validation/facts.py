"""What a run may have done that amped has no parameter for.

A row lists it under `not_modeled`, or in a column of its own, so that nothing is lost.
"""

from __future__ import annotations

from typing import Any

from amped.base.errors import ConfigError, did_you_mean, quoted
from amped.base.files import shipped_json

_ROWS: dict[str, dict[str, Any]] = shipped_json("validation", "facts.json")
# Each fact, and what its value means.
FACTS: dict[str, str] = {name: row["meaning"] for name, row in _ROWS.items()}
# A run with one of these is another kind of work, so that no prediction is made.
ESSENTIAL = ("adapters", "quantization")


def checked(name: str, written: str) -> str:
    """The value of a fact, if it may have it.

    A fact with `known` names has one of them. A fact that `has_release` consists of parts, each a name and a release, as in
    `cudnn 9.11; transformer_engine 2.5`.

    Raises:
        ConfigError: for another value, with the nearest name.
    """
    row = _ROWS[name]
    parts = [part.strip() for part in written.split(";")] if row.get("has_release") else [written]
    for part in parts:
        what, _, release = part.rpartition(" ") if row.get("has_release") else (part, "", "0")
        if not any(map(str.isdigit, release)):
            raise ConfigError(f"{name} {quoted(part)} names no release", "write the name, a blank and the release")
        known = row.get("known", [what])
        if what not in known:
            hint = did_you_mean(what, known) or f"it is one of {', '.join(known)}"
            raise ConfigError(f"unknown {name} {quoted(what)}", hint)
    return written
