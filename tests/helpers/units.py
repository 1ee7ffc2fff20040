"""The unit that a name promises by its last word."""

import re


def unit_of_name(name: str) -> str | None:
    """The unit that the last word of a name promises, or None. Words after `_per_` or `_between_` do not count."""
    stem = re.split(r"_per_|_between_", name)[0]
    words = {
        "time": "s",
        "latency": "s",
        "bytes": "byte",
        "flops": "flop",
        "flop_rate": "flop/s",
        "bandwidth": "byte/s",
        "energy": "J",
        "power": "W",
        "cost": "dollar",
        "efficiency": "1",
        "fraction": "1",
        "utilization": "1",
        "degree": "count",
        "size": "count",
    }
    if name.startswith("number_of_") or stem.startswith("number_of_"):
        return "count"
    return next((unit for word, unit in words.items() if stem == word or stem.endswith("_" + word)), None)
