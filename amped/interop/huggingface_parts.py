"""Parts of a network that amped does not model, and how large they are: rows of `not_modeled.json`, sized by the file.

A word in a list of kinds of layers that amped does not know is told, and never taken for the usual kind in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from amped.configuring.not_modeled import SIZES, NotModeled
from amped.interop.fields import table
from amped.interop.records import Reading, ReportLine
from amped.interop.sizes import INTO, sum_of

# Kinds of feed-forward networks, and whether each is a mixture of experts.
FEEDFORWARDS = {"dense": False, "mlp": False, "sparse": True, "moe": True, "absent_feedforward": False}


@lru_cache(maxsize=1)
def rows() -> dict[str, dict[str, Any]]:
    """The parts by name, each with what it takes from the row that it is like."""
    table_rows: dict[str, dict[str, Any]] = table("not_modeled")["rows"]
    return {name: {**table_rows.get(row.get("like", ""), {}), **row} for name, row in table_rows.items()}


def part_of(word: str, family: Mapping[str, Any]) -> str | None:
    """The part that a word in a list of layers names: in this family, or in all of them."""
    reading: str | None = family.get("layers", {}).get(word)
    return reading or next((name for name, row in rows().items() if word in row.get("words", ())), None)


def as_blocks(raw: Mapping[str, Any], family: Mapping[str, Any]) -> Mapping[str, Any]:
    """A file whose layers are each one block (Nemotron-H), with each mixing block and a feed-forward block as one layer."""
    letters: Mapping[str, str] = family.get("blocks", {})
    listed = next((raw[key] for key in ("layers_block_type", "hybrid_override_pattern") if raw.get(key)), None)
    if not letters or not isinstance(listed, str | list) or not all(isinstance(word, str) for word in listed):
        return raw
    kinds = [letters.get(word, word) for word in listed]
    blocks = [kind for kind in kinds if kind in FEEDFORWARDS]
    mixers = [kind for kind in kinds if kind not in FEEDFORWARDS]
    number = max(len(mixers), len(blocks))
    return {
        **raw, "num_hidden_layers": number, "layer_types": mixers + ["absent_attention"] * (number - len(mixers)),
        "mlp_layer_types": blocks + ["absent_feedforward"] * (number - len(blocks)),
    }  # fmt: skip


def as_plain(raw: Mapping[str, Any], family: Mapping[str, Any]) -> Mapping[str, Any]:
    """A file with the sections that say more of the same layers taken in, and a width for each layer as one where all are the same."""
    merged = dict(raw)
    for key in family.get("merged", ()):
        inner = merged.pop(key, None)
        if isinstance(inner, Mapping):
            merged |= {name: value for name, value in inner.items() if merged.get(name) is None}
    widths = merged.get("intermediate_size")
    if isinstance(widths, list) and widths and all(width == widths[0] for width in widths):
        merged["intermediate_size"] = widths[0]
    return as_blocks(merged, family)


def tell_layers(reading: Reading, key: str, words: Sequence[str], usual: Iterable[str], unknown: str) -> None:
    """Tells the words of a list of layers that are not usual, with the size of their part, or of what stands for unknown ones."""
    for word, number in Counter(word for word in words if word not in usual).items():
        before = f"{number} of {len(words)} layers are {word}: "
        tell_part(reading, part_of(word, reading.family) or unknown, key, number, before)


def tell_parts(reading: Reading, words: Sequence[str]) -> None:
    """Tells the parts that all layers of a family have; one that the file's own list of layers names is told already."""
    named = {part_of(word, reading.family) for word in words}
    for name in reading.family.get("parts", ()):
        if name not in named and (layers := number_of_layers(reading, rows()[name])):
            tell_part(reading, name, f"model_type {reading.raw.get('model_type', '')}".strip(), layers)


def number_of_layers(reading: Reading, row: Mapping[str, Any]) -> float:
    """In how many layers a part is: in all, or in as many as the file says; in none where it does not say it."""
    if "if" in row and reading.raw.get(row["if"]) is not True:
        return 0.0
    return (sum_of(reading, row["in"]) or 0.0) if "in" in row else float(reading.values["layers"])


def tell_part(reading: Reading, name: str, key: str, layers: float, before: str = "") -> None:
    """Tells one part in some layers, with its sizes; a size that the file does not give leaves it without a bound."""
    row = rows()[name]
    what, keys = before + row["what"], re.compile(row.get("keys") or "$^")
    for name_of_key in reading.raw:
        if keys.fullmatch(name_of_key) and name_of_key not in reading.taken:
            reading.get(name_of_key, INTO)
    sizes = {size: sum_of(reading, row.get(size, ())) for size in SIZES if size != "layers"}
    once = sum_of(reading, row.get("once", ()))
    if None in (*sizes.values(), once):
        reading.unsupported(key, f"{what}; the file does not say its sizes")
        return
    numbers: dict[str, Any] = {size: (value or 0.0) * layers for size, value in sizes.items()}
    numbers["parameters"] += once or 0.0
    entry = NotModeled(f"{key}: {what}", row["touches"], layers if row["touches"] else 0, **numbers)
    reading.report.unsupported.append(ReportLine(key, what, entry))


def mixtures(reading: Reading, kinds: Sequence[str]) -> list[bool]:
    """For each layer whether it is a mixture of experts; a kind that amped does not know is one, and is told."""
    usual = {kind for kind in FEEDFORWARDS if part_of(kind, reading.family) is None}
    tell_layers(reading, "mlp_layer_types", kinds, usual, "unknown_feedforward")
    return [FEEDFORWARDS.get(kind, True) for kind in kinds]
