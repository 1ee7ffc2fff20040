"""Hugging Face's config.json: the network, from its keys and from what its model_type implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from amped.base.errors import FileError, did_you_mean, quoted
from amped.configuring.not_modeled import NotModeled
from amped.interop.fields import fields, plain_values, table
from amped.interop.huggingface_parts import as_plain
from amped.interop.huggingface_rules import RULES
from amped.interop.huggingface_sizes import (
    sections,
    size_in_words,
    tower,
    unknown_network,
    with_key_bounds,
)
from amped.interop.records import Imported, Reading, Report, ReportLine
from amped.interop.rest import report_unread_keys
from amped.interop.sizes import is_size
from amped.interop.towers import SECTION, read_tower

FORM = "huggingface"
# Where the language model of a network of several kinds stands.
NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
TIED = "tie_word_embeddings"
# Keys of a network that takes patches of images without a tower (Fuyu).
PATCHES = ("image_size", "patch_size", "num_channels")
# The record that a network of an unknown model_type is read with.
COMMON = "llama"


def read(raw: Mapping[str, Any], file: str) -> Imported:
    """The network that a config.json describes.

    Raises:
        ConfigError: for a key with a wrong value.
        FileError: if a size of the layers is missing.
    """
    report = Report()
    tower_sizes, tower_keys = read_tower(raw, report)
    network = _language_model({key: value for key, value in raw.items() if key not in tower_keys}, report)
    model_type = str(network.get("model_type") or raw.get("model_type") or "")
    record = _family_of(model_type, network, report)
    reading = Reading(as_plain(network, record), values=dict(record.get("facts", {})), report=report, family=record)
    values, origins = reading.values, dict.fromkeys(reading.values, f"model_type {model_type}")
    values |= tower_sizes
    origins |= dict.fromkeys(tower_sizes, SECTION)
    for name, key, value in plain_values(FORM, reading):
        values[name], origins[name] = value, key
    _refuse_without_layers(values, file, model_type, raw)
    for rule in RULES:
        values |= (rule_values := rule(reading))
        origins = dict.fromkeys(rule_values, "a rule") | origins
    reading.values = {name: value for name, value in values.items() if value is not None}
    reading.refuse_wrong(origins)
    _report_unknown(model_type, reading)
    report.used += [ReportLine(key, quantities) for key, quantities in reading.taken.items()]
    name = _network_name(raw, network, file)
    return Imported(source=FORM, file=file, name=name, values=reading.values, origins=origins, report=report)


def _language_model(raw: Mapping[str, Any], report: Report) -> Mapping[str, Any]:
    """The section of the file that describes the language model, flat. Towers and keys beside that section are reported."""
    towers, width = [key for key, _ in sections(raw) if key not in NESTED], _width(raw)
    report.unsupported += [tower(key, raw[key], width) for key in towers]
    for key in NESTED:
        if isinstance(raw.get(key), Mapping):
            outer_keys = {name: value for name, value in raw.items() if name not in (key, *towers)}
            shared = {name: outer_keys.pop(name) for name in (TIED,) if name in outer_keys}
            _report_outer_keys(
                {name: value for name, value in outer_keys.items() if name not in raw[key]}, bool(towers), width, report
            )
            report.used.append(ReportLine(key, "the language model"))
            if raw[key].get(TIED) and not shared.get(TIED, True):
                report.unsupported.append(_untied_outside(raw[key], width))
            tied_outside = shared if shared.get(TIED) is True else {}  # the head stands outside the section
            return _language_model({**shared, **raw[key], **tied_outside}, report)
    return {name: value for name, value in raw.items() if name not in towers}


def _untied_outside(section: Mapping[str, Any], width: float) -> ReportLine:
    """A line about a head that is tied in the section of the language model, and not outside: it may have weights of its own."""
    what = "tied in the language model's section, and not outside it: the head may have weights of its own"
    weights = float(section.get("vocab_size") or 0) * width
    return ReportLine(TIED, what, NotModeled(f"{TIED}: {what}", parameters=weights) if weights else None)


def _report_outer_keys(outer: Mapping[str, Any], has_towers: bool, width: float, report: Report) -> None:
    """Reports the keys that stand beside the section of the language model.

    Args:
        outer: those keys with their values.
        has_towers: whether the file has sections of towers; then unknown keys are about the projector between both.
        width: the width of the language model; 0 if it is not known.
        report: where they are reported.
    """
    patch_keys = {name: outer[name] for name in PATCHES if not has_towers and name in outer}
    if patch_keys:
        section = {**patch_keys, "hidden_size": width, "num_hidden_layers": 0}
        report.unsupported.append(tower(", ".join(patch_keys), section, width))
    other_keys = Reading({name: value for name, value in outer.items() if name not in patch_keys})
    report_unread_keys("keys", other_keys)
    sized = Reading(outer, values={"dimensionality": width})
    report.unsupported += [
        with_key_bounds(sized, line, "key_of_a_projector") if has_towers else line
        for line in other_keys.report.unsupported
    ]
    report.ignored += other_keys.report.ignored


def _width(raw: Mapping[str, Any]) -> float:
    """The width of the residual stream of the language model, or 0.0 if no key gives it as a number."""
    model = next((raw[key] for key in NESTED if isinstance(raw.get(key), Mapping)), raw)
    width = next((model[key] for key in fields(FORM)["dimensionality"].keys if model.get(key) is not None), 0)
    return float(width) if is_size(width) else 0.0


@lru_cache(maxsize=512)
def family(model_type: str) -> Mapping[str, Any]:
    """The record of a model_type, merged with the records that it is like.

    A record holds `facts` (values by quantity), `keys` (other names of keys), words, ignored keys, layers, branches and parts. An unknown
    model_type has the record of networks like Llama.
    """
    rows = table("families")["rows"]
    row: dict[str, Any] = rows.get(model_type, rows[COMMON])
    if "like" not in row:
        return row
    base = family(row["like"])
    merged = {
        name: {**base.get(name, {}), **row.get(name, {})}
        for name in ("facts", "keys", "ignored", "layers", "words", "vectors")
    }
    lists = {name: [*base.get(name, ()), *row.get(name, ())] for name in ("unsupported", "parts", "branches")}
    return {**base, **row, **merged, **lists}


def _family_of(model_type: str, raw: Mapping[str, Any], report: Report) -> Mapping[str, Any]:
    """The record of a model_type; what amped cannot express in each such network is reported."""
    record = family(model_type)
    size = size_in_words(raw) if "unsupported" in record else ""
    key = f"model_type {model_type}"
    report.unsupported += [ReportLine(key, what + size) for what in record.get("unsupported", ())]
    return record


def _report_unknown(model_type: str, reading: Reading) -> None:
    """Adds an unknown model_type, and all keys that no quantity takes, to the report.

    If the model_type is unknown, each line also gets an upper bound of what it may cost, from the sizes in the file. The keys of a
    known model_type have no bound.
    """
    unread_keys, families, report = Report(), table("families")["rows"], reading.report
    if model_type not in families:
        hint = did_you_mean(model_type, families) if model_type else ""
        what = (
            f"{quoted(model_type)} is not known to amped: read as a network like Llama's (gated, RMS norm, no biases)"
        )
        report.unsupported.append(unknown_network(reading, "model_type", f"{what} {hint}".strip()))
    report_unread_keys("keys", replace(reading, report=unread_keys))
    report.unsupported += (
        unread_keys.unsupported
        if model_type in families
        else [with_key_bounds(reading, line, "unknown_key") for line in unread_keys.unsupported]
    )
    report.ignored += unread_keys.ignored


def _refuse_without_layers(values: Mapping[str, Any], file: str, model_type: str, raw: Mapping[str, Any]) -> None:
    """Refuses a file without the sizes of a transformer.

    Raises:
        FileError: with the missing sizes, and the reason if amped knows that the model_type is no language model.
    """
    missing = [name for name in ("layers", "dimensionality", "attention_heads") if name not in values]
    if missing:
        what = f"has no {', '.join(missing)}" + (
            f" (model_type {model_type!r})" if model_type else ", and no model_type"
        )
        reasons = "; ".join(family(model_type).get("unsupported", ()))
        what += (f": {reasons}; amped cannot read it as a language model" if reasons else "") + size_in_words(raw)
        names = f"a config.json has {' or '.join(fields(FORM)[missing[0]].keys)}"
        raise FileError(what, "amped models layers of attention and feed-forward networks" if reasons else names, file)


def _network_name(raw: Mapping[str, Any], network: Mapping[str, Any], file: str) -> str:
    """The name of the network in the file, or the path of the file if there is none."""
    name = raw.get("_name_or_path") or network.get("_name_or_path")
    return name if isinstance(name, str) and name else file
