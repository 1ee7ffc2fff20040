"""Hugging Face's config.json: the network, from its keys and from what its model_type implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from amped.base.errors import FileError, did_you_mean, quoted
from amped.interop.fields import fields, plain_values, table
from amped.interop.huggingface_parts import as_plain
from amped.interop.huggingface_rules import RULES
from amped.interop.huggingface_sizes import (
    beside_towers,
    sections,
    told_size,
    tower,
    unknown_keys,
    unknown_network,
)
from amped.interop.records import Imported, Reading, Report, ReportLine
from amped.interop.rest import tell_rest
from amped.interop.sizes import is_size

FORM = "huggingface"
# Where the language model of a network of several kinds stands.
NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
# Keys of a network that takes patches of images without a tower (Fuyu).
PATCHES = ("image_size", "patch_size", "num_channels")
# The record that a network of an unknown model_type is read with.
COMMON = "llama"


def read(raw: Mapping[str, Any], file: str) -> Imported:
    """The network of a config.json.

    Raises:
        ConfigError: for a key with a wrong value, or if it has no layers.
    """
    report = Report()
    network = _language_model(raw, report)
    kind = str(network.get("model_type") or raw.get("model_type") or "")
    implied = _family_of(kind, network, report)
    reading = Reading(as_plain(network, implied), values=dict(implied.get("facts", {})), report=report, family=implied)
    values, origins = reading.values, dict.fromkeys(reading.values, f"model_type {kind}")
    for name, key, value in plain_values(FORM, reading):
        values[name], origins[name] = value, key
    _refuse_without_layers(values, file, kind, raw)
    for rule in RULES:
        values |= (of_rule := rule(reading))
        origins = dict.fromkeys(of_rule, "a rule") | origins
    reading.values = {name: value for name, value in values.items() if value is not None}
    reading.refuse_wrong(origins)
    _tell_unknown(kind, reading)
    report.used += [ReportLine(key, into) for key, into in reading.taken.items()]
    return Imported(FORM, file, _title(raw, network, file), reading.values, origins, report)


def _language_model(raw: Mapping[str, Any], report: Report) -> Mapping[str, Any]:
    """The part of the file that is about the language model; towers beside it are told."""
    towers, width = [key for key, _ in sections(raw) if key not in NESTED], _width(raw)
    report.unsupported += [tower(key, raw[key], width) for key in towers]
    for key in NESTED:
        if isinstance(raw.get(key), Mapping):
            outer = {name: value for name, value in raw.items() if name not in (key, *towers)}
            shared = {name: outer.pop(name) for name in ("tie_word_embeddings",) if name in outer}
            _tell_outer(
                {name: value for name, value in outer.items() if name not in raw[key]}, bool(towers), width, report
            )
            report.used.append(ReportLine(key, "the language model"))
            return _language_model({**shared, **raw[key]}, report)
    return {name: value for name, value in raw.items() if name not in towers}


def _tell_outer(outer: Mapping[str, Any], has_towers: bool, width: float, report: Report) -> None:
    """Tells the keys beside the section of the language model: with a tower they are about what joins both."""
    patches = {name: outer[name] for name in PATCHES if not has_towers and name in outer}
    if patches:
        section = {**patches, "hidden_size": width, "num_hidden_layers": 0}
        report.unsupported.append(tower(", ".join(patches), section, width))
    joint = Reading({name: value for name, value in outer.items() if name not in patches})
    tell_rest("keys", joint)
    beside = Reading(outer, values={"dimensionality": width})
    report.unsupported += [beside_towers(beside, line) if has_towers else line for line in joint.report.unsupported]
    report.ignored += joint.report.ignored


def _width(raw: Mapping[str, Any]) -> float:
    """The width of the language model of a file, where it is said plainly; else 0."""
    inner = next((raw[key] for key in NESTED if isinstance(raw.get(key), Mapping)), raw)
    width = next((inner[key] for key in fields(FORM)["dimensionality"].keys if inner.get(key) is not None), 0)
    return float(width) if is_size(width) else 0.0


@lru_cache(maxsize=512)
def family(kind: str) -> Mapping[str, Any]:
    """What a model_type implies, with what it extends. The record of networks like Llama for an unknown one."""
    rows = table("families")["rows"]
    row: dict[str, Any] = rows.get(kind, rows[COMMON])
    if "like" not in row:
        return row
    base = family(row["like"])
    merged = {
        name: {**base.get(name, {}), **row.get(name, {})} for name in ("facts", "keys", "ignored", "layers", "words")
    }
    lists = {name: [*base.get(name, ()), *row.get(name, ())] for name in ("unsupported", "parts")}
    return {**base, **row, **merged, **lists}


def _family_of(kind: str, raw: Mapping[str, Any], report: Report) -> Mapping[str, Any]:
    """The record of a model_type, with what amped cannot express of each such network."""
    record = family(kind)
    size = told_size(raw) if "unsupported" in record else ""
    report.unsupported += [ReportLine(f"model_type {kind}", what + size) for what in record.get("unsupported", ())]
    return record


def _tell_unknown(kind: str, reading: Reading) -> None:
    """Tells a model_type that amped does not know, with the bound that its sizes give, and the keys that nothing takes."""
    rest, families, report = Report(), table("families")["rows"], reading.report
    if kind not in families:
        like = did_you_mean(kind, families) if kind else ""
        what = f"{quoted(kind)} is not known to amped: read as a network like Llama's (gated, RMS norm, no biases)"
        report.unsupported.append(unknown_network(reading, "model_type", f"{what} {like}".strip()))
    tell_rest("keys", replace(reading, report=rest))
    report.unsupported += (
        rest.unsupported if kind in families else [unknown_keys(reading, line) for line in rest.unsupported]
    )
    report.ignored += rest.ignored


def _refuse_without_layers(values: Mapping[str, Any], file: str, kind: str, raw: Mapping[str, Any]) -> None:
    """Refuses a file without the sizes of a transformer."""
    lacking = [name for name in ("layers", "dimensionality", "attention_heads") if name not in values]
    if lacking:
        what = f"has no {', '.join(lacking)}" + (f" (model_type {kind!r})" if kind else ", and no model_type")
        reasons = "; ".join(family(kind).get("unsupported", ()))
        what += (f": {reasons}; amped cannot read it as a language model" if reasons else "") + told_size(raw)
        names = f"a config.json has {' or '.join(fields(FORM)[lacking[0]].keys)}"
        raise FileError(what, "amped models layers of attention and feed-forward networks" if reasons else names, file)


def _title(raw: Mapping[str, Any], network: Mapping[str, Any], file: str) -> str:
    """What to call the network: the name in the file, else the file."""
    name = raw.get("_name_or_path") or network.get("_name_or_path")
    return name if isinstance(name, str) and name else file
