"""Small parts beside the blocks of a network: rows of `branches.json`, sized by a config.json.

A network's record in `families.json` names its rows. What they add up to are four quantities of amped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.interop.fields import table
from amped.interop.records import Reading, ReportLine
from amped.interop.sizes import sum_of

# The quantity of each sum of a row.
OF_SUM = {
    "weights": "branch_weights",
    "values": "branch_values",
    "vectors": "further_parameters",
    "tables": "further_tables",
}


@lru_cache(maxsize=1)
def rows() -> dict[str, dict[str, Any]]:
    """The parts beside the blocks, by name."""
    table_rows: dict[str, dict[str, Any]] = table("branches")["rows"]
    return table_rows


def read_branches(reading: Reading) -> dict[str, Any]:
    """Reads what the parts beside the blocks have together; empty if there are none."""
    totals = dict.fromkeys(OF_SUM.values(), 0.0)
    for name in reading.family.get("branches", ()):
        row = rows()[name]
        if _is_absent(reading, row):
            continue
        for quantity, size in _sizes(reading, row).items():
            totals[quantity] += size
    values = {name: round(total) for name, total in totals.items() if total}
    if "branch_values" in values:
        values.setdefault("branch_weights", 0)
    if further := values.get("further_parameters"):
        values["further_parameters"] = further + reading.values.get("further_parameters", 0)
    return values


def _is_absent(reading: Reading, row: Mapping[str, Any]) -> bool:
    """Whether the switch of a row is off in the file: the key that it needs is missing, false or 0. Its other keys then say nothing."""
    if "if" not in row or reading.get(row["if"], next(iter(_quantities(row)), "layers")):
        return False
    _take_keys(reading, row)
    return True


def _take_keys(reading: Reading, row: Mapping[str, Any]) -> None:
    """Marks the keys that a row explains as read."""
    keys, first = re.compile(row.get("keys") or "$^"), next(iter(_quantities(row)), "layers")
    for name in reading.raw:
        if keys.fullmatch(name) and name not in reading.taken:
            reading.get(name, first)


def _quantities(row: Mapping[str, Any]) -> list[str]:
    """The quantities to which a row adds."""
    return [quantity for name, quantity in OF_SUM.items() if name in row]


def _sizes(reading: Reading, row: Mapping[str, Any]) -> dict[str, float]:
    """What a row adds to each quantity; nothing, and told, if the file lacks a key that a sum needs."""
    _take_keys(reading, row)
    sums = {quantity: sum_of(reading, row[name], quantity) for name, quantity in OF_SUM.items() if name in row}
    key = f"model_type {reading.raw.get('model_type', '')}".strip()
    if None in sums.values():
        reading.unsupported(key, f"{row['what']}; the file does not say its sizes")
        return {}
    reading.report.used.append(ReportLine(key, f"{', '.join(sums)}: {row['what']}"))
    return {quantity: size for quantity, size in sums.items() if size is not None}
