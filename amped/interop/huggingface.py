"""Hugging Face's config.json: the network, from its keys and from what its model_type implies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import FileError, did_you_mean, quoted
from amped.interop.fields import fields, plain_values, table
from amped.interop.huggingface_parts import as_blocks
from amped.interop.huggingface_rules import RULES
from amped.interop.records import Imported, Keys, Reading, Report, Told
from amped.interop.rest import tell_rest

FORM = "huggingface"
# Where the language model of a network of several kinds stands.
NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
TOWERS = re.compile(
    r"(vision|audio|image|video|speech|vq|vit|qformer|talker|token2wav|code_predictor|depth_decoder)_?(\w*_)?config"
)
# The record that a network of an unknown model_type is read with.
COMMON = "llama"


def read(raw: Mapping[str, Any], file: str) -> Imported:
    """The network of a config.json.

    Raises:
        ConfigError: for a key with a wrong value, or if it has no layers.
    """
    report = Report()
    own = _language_model(raw, report)
    kind = str(own.get("model_type") or raw.get("model_type") or "")
    implied = _family_of(kind, report)
    keys = Keys(as_blocks(own, implied))
    values = dict(implied.get("facts", {}))
    told = dict.fromkeys(values, f"model_type {kind}")
    for name, key, value in plain_values(FORM, keys, implied.get("keys")):
        values[name], told[name] = value, key
    _refuse_without_layers(values, file, kind)
    for rule in RULES:
        found = rule(Reading(keys, values, report, implied))
        values |= found
        told |= {name: "a rule" for name in found if name not in told}
    values = {name: value for name, value in values.items() if value is not None}
    keys.refuse_wrong(values, told)
    tell_rest("keys", keys.rest(), Reading(keys, values, report, implied), implied.get("ignored"))
    report.used += [Told(key, into) for key, into in keys.taken.items()]
    return Imported(FORM, file, _title(raw, own, file), values, told, report)


def _language_model(raw: Mapping[str, Any], report: Report) -> Mapping[str, Any]:
    """The part of the file that is about the language model; towers beside it are told."""
    towers = [key for key, value in raw.items() if isinstance(value, Mapping) and TOWERS.fullmatch(key)]
    report.unsupported += [Told(key, "a tower beside the language model is not modeled") for key in towers]
    for key in NESTED:
        if isinstance(raw.get(key), Mapping):
            outer = {name: value for name, value in raw.items() if name not in (key, *towers)}
            shared = {name: outer.pop(name) for name in ("tie_word_embeddings",) if name in outer}
            rest = Keys({name: value for name, value in outer.items() if name not in raw[key]})
            tell_rest("keys", rest.raw, Reading(rest, {}, report))
            report.used.append(Told(key, "the language model"))
            return _language_model({**shared, **raw[key]}, report)
    return raw


@lru_cache(maxsize=512)
def family(kind: str) -> Mapping[str, Any]:
    """What a model_type implies, with what it extends. The record of networks like Llama for an unknown one."""
    rows = table("families")["rows"]
    row: dict[str, Any] = rows.get(kind, rows[COMMON])
    if "like" not in row:
        return row
    base = family(row["like"])
    merged = {name: {**base.get(name, {}), **row.get(name, {})} for name in ("facts", "keys", "ignored", "layers")}
    lists = {name: [*base.get(name, ()), *row.get(name, ())] for name in ("unsupported", "parts")}
    return {**base, **row, **merged, **lists}


def _family_of(kind: str, report: Report) -> Mapping[str, Any]:
    """The record of a model_type; an unknown one is told."""
    if kind not in table("families")["rows"]:
        like = did_you_mean(kind, table("families")["rows"]) if kind else ""
        told = f"{quoted(kind)} is not known to amped: read as a network like Llama's (gated, RMS norm, no biases)"
        report.unsupported.append(Told("model_type", f"{told} {like}".strip()))
    found = family(kind)
    report.unsupported += [Told(f"model_type {kind}", what) for what in found.get("unsupported", ())]
    return found


def _refuse_without_layers(values: Mapping[str, Any], file: str, kind: str) -> None:
    """Refuses a file without the sizes of a transformer."""
    lacking = [name for name in ("layers", "dimensionality", "attention_heads") if name not in values]
    if lacking:
        what = f"has no {', '.join(lacking)}" + (f" (model_type {kind!r})" if kind else ", and no model_type")
        raise FileError(what, f"a config.json has {' or '.join(fields(FORM)[lacking[0]].keys)}", file)


def _title(raw: Mapping[str, Any], own: Mapping[str, Any], file: str) -> str:
    """What to call the network: the name in the file, else the file."""
    given = raw.get("_name_or_path") or own.get("_name_or_path")
    return str(given) if isinstance(given, str) and given else file
