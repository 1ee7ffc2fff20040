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
from amped.interop.huggingface_sparse import with_kinds_of_layers
from amped.interop.records import Reading, ReportLine, whole
from amped.interop.sizes import INTO, sum_of

# Kinds of feed-forward networks, and whether each is a mixture of experts.
FEEDFORWARDS = {"dense": False, "mlp": False, "sparse": True, "moe": True, "absent_feedforward": False}

# Megatron's letter for a single block of each kind, and the key that they stand in.
LETTERS_OF_BLOCKS = {
    "linear_attention": "M",
    "full_attention": "*",
    "mlp": "-",
    "dense": "-",
    "moe": "E",
    "sparse": "E",
}
BLOCK_LETTERS = "letters of single blocks"
# Keys that some files give for each layer.
LISTED = ("intermediate_size", "moe_intermediate_size", "moe_topk", "num_shared_expert")
# No network has as many layers.
MOST_LAYERS = 100_000


@lru_cache(maxsize=1)
def rows() -> dict[str, dict[str, Any]]:
    """The parts that amped does not model, by name, each merged with the row that it is like."""
    table_rows: dict[str, dict[str, Any]] = table("not_modeled")["rows"]
    return {name: {**table_rows.get(row.get("like", ""), {}), **row} for name, row in table_rows.items()}


def part_of(word: str, family: Mapping[str, Any]) -> str | None:
    """The name of the part that a word in a list of layers means in this family or in all families; None for no part.

    Args:
        word: such as "mamba".
        family: the record of the model_type.
    """
    name_in_family: str | None = family.get("layers", {}).get(word)
    return name_in_family or next((name for name, row in rows().items() if word in row.get("words", ())), None)


def as_blocks(raw: Mapping[str, Any], family: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a file whose layers are single blocks (Nemotron-H), with their letters; another file as it is.

    The lists of kinds say which layers have a mixer, and which a feed-forward network. In some families all are of one kind.
    """
    letters: Mapping[str, str] = family.get("blocks", {})
    block_list = next((raw[key] for key in ("layers_block_type", "hybrid_override_pattern") if raw.get(key)), None)
    if every := family.get("every_block"):
        block_list = [every] * whole(raw.get("num_hidden_layers"), "num_hidden_layers")
    if not letters or not isinstance(block_list, str | list) or not all(isinstance(word, str) for word in block_list):
        return raw
    kinds = [letters.get(word, word) for word in block_list]
    if not {*kinds} <= LETTERS_OF_BLOCKS.keys():
        return raw
    feedforwards = [kind if kind in FEEDFORWARDS else "absent_feedforward" for kind in kinds]
    mixers = ["absent_attention" if kind in FEEDFORWARDS else kind for kind in kinds]
    written = "".join(LETTERS_OF_BLOCKS[kind] for kind in kinds)
    return {
        **raw, "num_hidden_layers": len(kinds), "layer_types": mixers, "mlp_layer_types": feedforwards, BLOCK_LETTERS: written,
    }  # fmt: skip


def as_pairs(raw: Mapping[str, Any], family: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a file whose layers are each two, with a mixture beside them (LongCat-Flash): twice as many layers.

    The first layer of a pair has the mixture; its own feed-forward network is then like a shared expert of it. Source: arXiv
    2509.01322, section 2.2 (shortcut-connected mixtures).
    """
    number = raw.get("num_layers")
    if (
        not family.get("shortcut")
        or not isinstance(number, int)
        or isinstance(number, bool)
        or not 0 < number < MOST_LAYERS
    ):
        return raw
    kinds = {
        "mlp_layer_types": ["sparse", "dense"] * number,
        "shared_expert_intermediate_size": raw.get("ffn_hidden_size"),
    }
    return {**raw, "num_layers": 2 * number, **kinds}


def as_plain(raw: Mapping[str, Any], family: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a file without its inner sections: those that describe the same layers are merged into it.

    A list of equal numbers, one for each layer, becomes one number, single blocks are joined to layers, and pairs are cut into layers.
    """
    merged = dict(raw)
    for key in family.get("merged", ()):
        section = merged.pop(key, None)
        if isinstance(section, Mapping):
            merged |= {name: value for name, value in section.items() if merged.get(name) is None}
    for key in LISTED:
        numbers = merged.get(key)
        if isinstance(numbers, list) and numbers and all(number == numbers[0] for number in numbers):
            merged[key] = numbers[0]
    return as_pairs(as_blocks(with_kinds_of_layers(merged, family), family), family)


def report_layers(reading: Reading, key: str, words: Sequence[str], usual: Iterable[str], unknown: str) -> None:
    """Reports the layers whose kind is not usual, each kind with the size of its part.

    Args:
        reading: the file.
        key: the key of the list.
        words: the kind of each layer.
        usual: the kinds that amped models.
        unknown: the part whose size bounds a kind that no part has.
    """
    for word, number in Counter(word for word in words if word not in usual).items():
        prefix = f"{number} of {len(words)} layers are {word}: "
        report_part(reading, part_of(word, reading.family) or unknown, key, number, prefix)


def report_parts(reading: Reading, words: Sequence[str]) -> None:
    """Reports the parts that all networks of the family have, except those that the kinds of layers (`words`) name."""
    reported = {part_of(word, reading.family) for word in words}
    for name in reading.family.get("parts", ()):
        if name not in reported and (layers := number_of_layers(reading, rows()[name])):
            report_part(reading, name, f"model_type {reading.raw.get('model_type', '')}".strip(), layers)


def number_of_layers(reading: Reading, row: Mapping[str, Any]) -> float:
    """The number of layers with a part: all, or the number in the file; 0 if the file does not give it or switches it off."""
    if "if" in row and reading.raw.get(row["if"]) is not True:
        return 0.0
    return (sum_of(reading, row["in"]) or 0.0) if "in" in row else float(reading.values["layers"])


def report_part(reading: Reading, name: str, key: str, layers: float, prefix: str = "") -> None:
    """Reports one part that amped does not model, with its sizes in all its layers.

    If the file lacks a key that a size needs, the part is reported without a bound.

    Args:
        reading: the file.
        name: the row of the part.
        key: the key that shows that the network has the part.
        layers: the number of layers with the part.
        prefix: the words before the description of the part.
    """
    row = rows()[name]
    what, keys = prefix + row["what"], re.compile(row.get("keys") or "$^")
    for name_of_key in reading.raw:
        if keys.fullmatch(name_of_key) and name_of_key not in reading.taken:
            reading.get(name_of_key, INTO)
    sizes = {size: sum_of(reading, row.get(size, ())) for size in SIZES if size != "layers"}
    fixed_parameters = sum_of(reading, row.get("once", ()))
    if None in (*sizes.values(), fixed_parameters):
        reading.unsupported(key, f"{what}; the file does not say its sizes")
        return
    numbers: dict[str, Any] = {size: (value or 0.0) * layers for size, value in sizes.items()}
    numbers["parameters"] += fixed_parameters or 0.0
    entry = NotModeled(f"{key}: {what}", row["touches"], layers if row["touches"] else 0, **numbers)
    reading.report.unsupported.append(ReportLine(key, what, entry))


def mixtures(reading: Reading, kinds: Sequence[str]) -> list[bool]:
    """For each layer, whether it is a mixture of experts. A kind that amped does not know counts as one, and is reported."""
    kinds = [reading.family.get("words", {}).get(kind, kind) for kind in kinds]
    usual = {kind for kind in FEEDFORWARDS if part_of(kind, reading.family) is None}
    usual |= {"absent_feedforward"} if BLOCK_LETTERS in reading.raw else set()
    report_layers(reading, "mlp_layer_types", kinds, usual, "unknown_feedforward")
    return [FEEDFORWARDS.get(kind, True) for kind in kinds]
