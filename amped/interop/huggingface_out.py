"""A network as a config.json of Hugging Face's: the class that loses least, its keys, and what it cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from amped.estimation.estimation import Estimation
from amped.interop.fields import fields, table
from amped.interop.huggingface import FORM, family
from amped.interop.huggingface_rules import FULL, WINDOWED
from amped.interop.megatron_model import mixture_marks
from amped.interop.outgoing import Outgoing, is_default, outgoing
from amped.interop.sections import as_json
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import NETWORK

VERSION = "transformers 5.23.0"
# How weights are stored, by the format of products.
STORED = {"fp32": "float32", "tf32": "float32", "fp16": "float16"}
# What is said of the training, not of the network.
TRAINING = ("context", "batch_size", "number_of_steps", "flash_attention")
# Only mixtures of experts have these.
OF_EXPERTS = ("expert_feedforward_dimension", "experts_per_token", "expert_bias", "router_bias", "number_of_MoE_layers",
              "mixture_layer_pattern", "number_of_shared_experts", "shared_experts_feedforward_dimension")  # fmt: skip
# Only latent attention has these.
LATENT = ("query_latent_dimension", "key_value_latent_dimension", "rotary_head_dimension", "value_head_dimension")
# What windows, and the places of mixtures, say.
WINDOWS = ("attention_window", "number_of_windowed_layers")
PLACES = ("number_of_MoE_layers", "mixture_layer_pattern")
# What follows from other quantities where nobody gives it.
FOLLOWING = {
    "key_value_heads": "attention_heads",
    "embedding_dimension": "dimensionality",
    "value_head_dimension": "head_dimension",
}


@lru_cache(maxsize=32)
def class_of(kind: str) -> Mapping[str, Any]:
    """The record of a class, with what it extends."""
    row: dict[str, Any] = table(FORM)["classes"][kind]
    base = class_of(row["like"]) if "like" in row else {"keys": {}}
    keys = {name: key for name, key in {**base["keys"], **row.get("keys", {})}.items() if key is not None}
    return {"needs": "", **base, **row, "keys": keys, "model_type": kind}


def fields_of(e: Estimation) -> Outgoing:
    """The network of a configuration in the keys of the class that loses least."""
    out = outgoing(e)
    experts, latent = out.get("number_of_experts", 1) > 1, out.get("attention_kind") == "multi_latent"
    needs = ", ".join(["latent"] * latent + ["experts"] * experts)
    rows = [row for kind in table(FORM)["classes"] if (row := class_of(kind))["needs"] == needs]
    found = min((_in_class(out, row) for row in rows), key=lambda own: len(own.lost))
    found.lose("the training", "the sequence, the batch and the mapping: config.json has the network alone")
    said = {*_compared(), *TRAINING, *table("fields")["no_instructions"]}
    for name, origin in e.scenario.sources.origins.items():
        if e.scenario.catalogue[name].category == NETWORK and name not in said and not is_default(e, name, out):
            found.lose(name, f"{origin.written} has no key here")
    return found


def _in_class(out: Outgoing, row: Mapping[str, Any]) -> Outgoing:
    """The network in the keys of one class, with what it loses there."""
    own, implied = Outgoing(out.values, out.given), family(row["model_type"])["facts"]
    own.write("the class of the network", architectures=[row["architecture"]], model_type=row["model_type"])
    own.write("how weights are stored", dtype=STORED.get(str(out.get("matrix_precision", "bf16")), "bfloat16"))
    for name, key in row["keys"].items():
        _write_key(own, name, key)
    for name, keys in row.get("copies", {}).items():
        own.write(fields(FORM)[name].why, **dict.fromkeys(keys, own.get(name, 0)))
    done = {*row["keys"], *(name for rule in row["rules"] for name in RULES[rule](own))}
    for name in _compared():
        usual = implied.get(name, _usual(name, own))
        if name not in done and not _idle(name, own) and not _same(own.values.get(name), usual):
            own.lose(name, f"{own.values.get(name)}: {row['architecture']} has {usual}")
    return own


def _write_key(own: Outgoing, name: str, key: str) -> None:
    """One quantity under its key, which may have another quantity already."""
    value = own.values.get(name)
    if key in own.fields and own.fields[key] != (value or False):
        own.lose(name, f"{value}: '{key}' says {own.fields[key]} for both")
    elif key not in own.fields:
        own.write(fields(FORM)[name].why or name.replace("_", " "), **{key: value if value is not None else 0})


@lru_cache(maxsize=1)
def _compared() -> tuple[str, ...]:
    """What a class may imply: all that config.json or a class can say of a network."""
    implied = {name for row in table("families")["rows"].values() for name in row.get("facts", {})}
    return tuple(sorted({*fields(FORM), *implied} - {"attention_kind"}))


def _usual(name: str, own: Outgoing) -> Any:
    """What a network has where nothing is said."""
    if name in FOLLOWING:
        return own.get(FOLLOWING[name])
    if name == "head_dimension":
        return own.get("dimensionality", 0) // own.get("attention_heads", 1)
    return next((formula.function() for formula in catalogue()[name].formulas if not formula.arguments), None)


def _idle(name: str, own: Outgoing) -> bool:
    """Whether a quantity says nothing about this network."""
    experts = own.get("number_of_experts", 1) > 1
    idle: dict[str, bool] = {
        **dict.fromkeys(OF_EXPERTS, not experts),
        **dict.fromkeys(LATENT, own.get("attention_kind") != "multi_latent"),
        "position_table": own.get("positions", "learned") != "learned",
        "relative_position_tables": own.get("positions") != "relative_bias",
        "mlp_bias": experts and own.get("number_of_MoE_layers") == own.get("layers"),
    }
    return idle.get(name, False)


def _same(one: Any, other: Any) -> bool:
    return one == other or (not one and not other)


# --- rules: what they write, and the quantities that they say ---------------------------------------------------------

Said = tuple[str, ...]


def longest(own: Outgoing) -> Said:
    """The longest sequence: at least that of the training."""
    own.write("the longest sequence", max_position_embeddings=own.get("context"))
    return ()


def learned(own: Outgoing) -> Said:
    """The rows of the table of positions."""
    own.write("rows of the position table", n_positions=own.get("position_table") or own.get("context"))
    return ("position_table",)


def four_times(own: Outgoing) -> Said:
    """A feed-forward network four times as wide as the residual stream."""
    if own.get("feedforward_dimension") != 4 * own.get("dimensionality", 0):
        own.lose("feedforward_dimension", f"{own.get('feedforward_dimension')}: the class has 4 times hidden size")
    return ("feedforward_dimension",)


def latent(own: Outgoing) -> Said:
    """The part of a head that is not rotated; a query latent vector of 0 is none."""
    own.write(
        "part of a head that is not rotated",
        qk_nope_head_dim=own.get("head_dimension", 0) - own.get("rotary_head_dimension", 0),
    )
    if not own.get("query_latent_dimension"):
        own.fields["q_lora_rank"] = None  # null is a value here, and `write` leaves None out
    return ("head_dimension", "key_value_heads")


def window(own: Outgoing) -> Said:
    """One window for all layers, or none."""
    width, number = own.get("attention_window", 0), own.get("number_of_windowed_layers", 0)
    own.fields["sliding_window"], own.why["sliding_window"] = (
        (width if number else None),
        "tokens that a layer attends to",
    )
    if number and number != own.get("layers"):
        own.lose("number_of_windowed_layers", f"{number}: the class has a window in all layers or in none")
    return WINDOWS


def windows(own: Outgoing) -> Said:
    """The kind of attention of each layer: amped knows the number of windowed layers, not their places."""
    width, number, layers = (own.get(name, 0) for name in ("attention_window", "number_of_windowed_layers", "layers"))
    number = number if width else 0
    own.fields["sliding_window"], own.why["sliding_window"] = width or None, "tokens that a windowed layer attends to"
    own.write("whether layers have a window", use_sliding_window=bool(number))
    own.write(
        f"{number} of {layers} layers have a window", layer_types=[WINDOWED[0]] * number + [FULL[0]] * (layers - number)
    )
    return WINDOWS


def only_experts(own: Outgoing) -> Said:
    """Mixtures in all layers; the width of a dense network says nothing."""
    marks = mixture_marks(own)
    if sum(marks) < len(marks):
        for name in (*PLACES, "feedforward_dimension"):
            own.lose(name, f"{sum(marks)} of {len(marks)} layers are mixtures: the class has them in all layers")
    own.idle.add("feedforward_dimension")
    return (*PLACES, "feedforward_dimension")


def dense_layers(own: Outgoing) -> Said:
    """The layers that are no mixtures, one by one."""
    marks = mixture_marks(own)
    own.write(
        "layers that are no mixtures",
        decoder_sparse_step=1,
        mlp_only_layers=[n for n, mark in enumerate(marks) if not mark],
    )
    return PLACES


def dense_start(own: Outgoing) -> Said:
    """Dense layers before the mixtures."""
    marks = mixture_marks(own)
    dense = marks.index(1) if 1 in marks else len(marks)
    own.write("dense layers before the mixtures", first_k_dense_replace=dense)
    if sum(marks) < len(marks) - dense:
        for name in PLACES:
            own.lose(name, "the class has dense layers only before the mixtures")
    return PLACES


def shared(own: Outgoing) -> Said:
    """Shared experts, as wide as the others."""
    width, each = own.get("shared_experts_feedforward_dimension", 0), own.get("expert_feedforward_dimension", 1)
    own.write("experts that every token visits", n_shared_experts=-(-width // each))
    if width % each:
        own.lose("shared_experts_feedforward_dimension", f"{width}: the class has whole experts of {each}")
    return ("number_of_shared_experts", "shared_experts_feedforward_dimension")


RULES: Mapping[str, Callable[[Outgoing], Said]] = {
    "longest": longest, "learned": learned, "four_times": four_times, "latent": latent, "window": window,
    "windows": windows, "only_experts": only_experts, "dense_layers": dense_layers, "dense_start": dense_start, "shared": shared,
}  # fmt: skip


def write(e: Estimation) -> str:
    """A config.json."""
    return as_json(fields_of(e), f"config.json of {VERSION}, written by amped: {e.scenario.title}")
