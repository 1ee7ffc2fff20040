"""Layers of linear attention in a config.json: which layers have it, and its sizes; and layers of a single block each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from amped.configuring.layout_text import as_pattern
from amped.interop.fields import table
from amped.interop.huggingface_parts import BLOCK_LETTERS, part_of
from amped.interop.records import Reading

LAYERS, ATTENTIONS, BLOCKS = "number_of_linear_attention_layers", "number_of_attention_layers", "single_block_pattern"
WIDTHS = ("linear_key_head_dimension", "linear_value_head_dimension")
COUNTS = {"M": LAYERS, "*": ATTENTIONS, "-": "number_of_dense_layers", "E": "number_of_MoE_layers"}


def linear_rows() -> Mapping[str, Mapping[str, Any]]:
    """How a config.json says the sizes of each linear attention that amped models, by the word of families.json."""
    rows: Mapping[str, Mapping[str, Any]] = table("linear_attention")["rows"]
    return rows


def is_linear(reading: Reading, word: str) -> bool:
    """Whether a word in a list of layers means a linear attention that amped models."""
    return part_of(word, reading.family) in linear_rows()


def read_linear_attention(reading: Reading, kinds: Sequence[str]) -> dict[str, Any]:
    """Reads the number and the sizes of layers with linear attention; empty if no layer has it.

    Args:
        reading: the file.
        kinds: the kind of attention of each layer.
    """
    marks = [is_linear(reading, word) for word in kinds]
    if not any(marks):
        return {}
    word = kinds[marks.index(True)]
    row = linear_rows()[str(part_of(word, reading.family))]
    _take_keys_without_effect(reading, row)
    values: dict[str, Any] = {"linear_attention_kind": row["kind"], **_sizes(reading, row)}
    letters = reading.raw.get(BLOCK_LETTERS)
    if letters:
        for key in (BLOCK_LETTERS, "mlp_layer_types"):
            reading.get(key, BLOCKS)
        return values | {name: letters.count(letter) for letter, name in COUNTS.items()} | {BLOCKS: letters}
    values |= {LAYERS: sum(marks), ATTENTIONS: len(marks) - sum(marks)}
    return values if all(marks) else {**values, "linear_layer_pattern": as_pattern(marks)}


def _sizes(reading: Reading, row: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of linear attention.

    A width of heads that no key gives is that of attention, or that of an expansion of the network.
    """
    sizes = dict[str, int](row.get("fixed", {}))
    sizes |= _channels(reading, row)
    for quantity, names in row["keys"].items():
        key = next((name for name in names if isinstance(reading.raw.get(name), int)), None)
        if key is not None:
            sizes[quantity] = reading.needed(key, quantity)
    if "split" in row:
        width = reading.number(row["split"], WIDTHS[1]) or int(reading.values["dimensionality"])
        sizes[WIDTHS[1]] = width // sizes["linear_value_heads"]
    widths = [name for name in WIDTHS if name not in sizes and "keyless" not in row]
    if widths and "expansions" in row:
        named = [reading.number(name, WIDTHS[1]) for name in row["expansions"]]
        width = next(filter(None, named), 2) * int(reading.values["dimensionality"])
        return sizes | dict.fromkeys(widths, width // sizes.get("linear_value_heads", 1))
    values = reading.values
    head = values.get("head_dimension") or int(values["dimensionality"]) // int(values["attention_heads"])
    return sizes | dict.fromkeys(widths, int(head))


def _channels(reading: Reading, row: Mapping[str, Any]) -> dict[str, int]:
    """The channels, each a head of its own: a multiple of the residual stream's width. Empty if heads have several entries."""
    if "channels" not in row:
        return {}
    factors = [reading.number(name, "linear_value_heads") for name in row["channels"]]
    return {"linear_value_heads": next(filter(None, factors), 1) * int(reading.values["dimensionality"])}


def _take_keys_without_effect(reading: Reading, row: Mapping[str, Any]) -> None:
    """Marks keys without effect as read, and reports those that change what amped models."""
    ignored = re.compile("|".join(row.get("ignored", ())) or "$^")
    for name in reading.raw:
        if ignored.fullmatch(name):
            reading.get(name, LAYERS)
    for name, plain in row.get("plain", {}).items():
        if name in reading.raw and reading.get(name, LAYERS) is not plain:
            reading.unsupported(name, f"{name} = {reading.raw[name]} in linear attention")
