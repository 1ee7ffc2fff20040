"""How large a network or a part of one is at most, by the sizes that its own section of a config.json says.

Towers beside a language model, networks of a kind that amped does not know, and networks that it cannot read as a language
model have this bound. The rows `tower` and `unknown_network` of `not_modeled.json` say the sums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from amped.configuring.not_modeled import SIZES, NotModeled
from amped.interop.huggingface_parts import rows
from amped.interop.records import Reading, ReportLine
from amped.interop.sizes import sum_of

# Sections that have sizes of layers, and those that say something else of the same layers.
SECTIONS, NO_LAYERS = (
    re.compile(r"\w*(config|encoder|decoder|model)"),
    re.compile(
        r"(quantization|compression|generation|per_layer|attn|\w*attention|ffn|mlp|moe|router|rope|mamba|ssm|(sparse|linear)_\w*)_config"
    ),
)
BILLION = 1e9
TOWER = "tower"
OF_NETWORK = tuple(size for size in SIZES if size != "layers")


def sections(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The sections of a file that have layers of their own, each with its key."""
    for key, value in raw.items():
        if isinstance(value, Mapping) and SECTIONS.fullmatch(key) and not NO_LAYERS.fullmatch(key):
            yield key, value


def at_most(raw: Mapping[str, Any], outer: float = 0.0) -> dict[str, Any] | None:
    """An upper bound of each size of a network or a tower with all its sections; None if one of its sizes is not known.

    Args:
        raw: its section.
        outer: the width of the network that receives its output.
    """
    sizes = _sizes(Reading(raw, values={"outer": outer}), _tower_row(raw))
    section_sizes = [at_most(section, outer) for _, section in sections(raw)]
    all_sizes = section_sizes if sizes is None else [sizes, *section_sizes]
    if not all_sizes or None in all_sizes:
        return None
    return {size: sum(part[size] for part in all_sizes if part) for size in OF_NETWORK}


def _tower_row(raw: Mapping[str, Any]) -> str:
    """The row of `not_modeled.json` for a tower: the first row whose keys the section has, else the usual tower."""
    rows_with_keys = ((name, row["when"]) for name, row in rows().items() if "when" in row)
    return next((name for name, keys in rows_with_keys if any(re.fullmatch(keys, key) for key in raw)), TOWER)


def _sizes(reading: Reading, name: str) -> dict[str, Any] | None:
    """The sizes of a row of `not_modeled.json`, by name; None if the file lacks a key that one of them needs."""
    sums = {size: sum_of(reading, rows()[name].get(size, ())) for size in OF_NETWORK}
    return None if None in sums.values() else {size: value or 0.0 for size, value in sums.items()}


def tower(key: str, raw: Mapping[str, Any], outer: float = 0.0) -> ReportLine:
    """A line of the report about a tower beside the language model, with its sizes if its section says them.

    Args:
        key: the key of the section.
        raw: the section.
        outer: the width of the language model.
    """
    what, sizes = rows()[TOWER]["what"], at_most(raw, outer)
    if sizes is None or not any(sizes.values()):
        return ReportLine(key, f"{what}; its section does not say its sizes")
    return ReportLine(key, what, NotModeled(f"{key}: {what}", **sizes))


def size_in_words(raw: Mapping[str, Any]) -> str:
    """A phrase with the largest number of parameters of a network; empty if its sizes are not known."""
    sizes = at_most(raw)
    return f"; by its own sizes it has at most {sizes['parameters'] / BILLION:.3g} billion parameters" if sizes else ""


def unknown_network(reading: Reading, key: str, what: str) -> ReportLine:
    """A line of the report about a network whose model_type amped does not know.

    Its bound: the unknown part is at most as large as all sizes of the file allow. Without these sizes there is no bound.
    """
    sizes, bounds = _sizes(reading, "unknown_network"), at_most(reading.raw)
    if bounds is None or sizes is None:
        return ReportLine(key, what)
    numbers: dict[str, Any] = {size: max(bounds[size], sizes[size]) for size in OF_NETWORK}
    return ReportLine(key, what, NotModeled(f"{key}: {what}", **numbers))


def with_key_bounds(reading: Reading, line: ReportLine, row: str) -> ReportLine:
    """A line about unknown keys, with a bound: the sizes that a row of `not_modeled.json` gives for each of the keys.

    The line stays as it is if it has sizes, if it is about experts, or if the width of the network is not known.

    Args:
        reading: the keys of the file, with the width of the network.
        line: the line, with its keys separated by commas.
        row: "unknown_key" (each key may be the width of three matrices, or mean one as wide as the residual stream), or
            "key_of_a_projector" (the keys stand beside a language model and its towers).
    """
    if line.entry or "expert" in line.key or not reading.values.get("dimensionality"):
        return line
    totals: dict[str, Any] = dict.fromkeys(OF_NETWORK, 0.0)
    for key in line.key.split(", "):
        value = reading.raw.get(key)
        width = value if isinstance(value, int) and value > 1 else 0
        sizes = _sizes(replace(reading, values={**reading.values, "value": width}), row)
        totals = {size: total + (sizes or {}).get(size, 0.0) for size, total in totals.items()}
    return ReportLine(line.key, line.what, NotModeled(str(line), **totals))
