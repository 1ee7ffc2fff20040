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
from amped.interop.outgoing import OF_TOWER, Outgoing, default_of, is_default, of_tower, outgoing
from amped.interop.sections import as_json
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
# Only attention to chosen keys has these.
INDEXER = ("indexer_head_dimension", "indexed_keys", "indexer_loss", "number_of_indexer_layers")
# Only attention to compressed keys, to chosen blocks of keys, or parallel residual streams have these.
COMPRESSED = ("heavy_compression_ratio", "sparse_compression_ratio", "output_groups")
BLOCKS_OF_KEYS = ("indexed_block_tokens", "indexer_head_weights")
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
def class_of(model_type: str) -> Mapping[str, Any]:
    """The record of one class of transformers, merged with the record that it is like.

    It holds the architecture, the keys by quantity, the rules, and what kind of network the class needs.
    """
    row: dict[str, Any] = table(FORM)["classes"][model_type]
    base = class_of(row["like"]) if "like" in row else {"keys": {}}
    keys = {name: key for name, key in {**base["keys"], **row.get("keys", {})}.items() if key is not None}
    return {"needs": "", **base, **row, "keys": keys, "model_type": model_type}


def fields_of(e: Estimation) -> Outgoing:
    """The network of an estimated configuration as keys of a config.json, in the class that loses the fewest quantities.

    Only classes with the same needs (latent attention, experts) are tried.
    """
    network = outgoing(e)
    properties = {"latent": network["attention_kind"] == "multi_latent", "experts": network["number_of_experts"] > 1}
    needs = ", ".join(name for name, is_so in properties.items() if is_so)
    rows = [row for kind in table(FORM)["classes"] if (row := class_of(kind))["needs"] == needs]
    out = min((_in_class(network, row) for row in rows), key=lambda written: len(written.lost))
    out.lose("the training", "the sequence, the batch and the mapping: config.json has the network alone")
    skipped_names = {*_compared(), *TRAINING, *table("fields")["no_instructions"]}
    for name, origin in e.scenario.sources.origins.items():
        is_of_network = e.scenario.catalogue[name].category == NETWORK
        is_told = name in skipped_names or name.startswith(OF_TOWER)
        if is_of_network and not is_told and not is_default(e, name, out):
            out.lose(name, f"{origin.written} has no key here")
    out.lost += of_tower(out)
    return out


def _in_class(network: Outgoing, row: Mapping[str, Any]) -> Outgoing:
    """The network as keys of one class. A quantity whose value differs from the class's own, and that no key carries, is lost.

    Args:
        network: the quantities of the network.
        row: the record of the class.
    """
    out, class_facts = Outgoing(network.values, network.given), family(row["model_type"])["facts"]
    out.write("the class of the network", architectures=[row["architecture"]], model_type=row["model_type"])
    out.write("how weights are stored", dtype=STORED.get(out["matrix_precision"], "bfloat16"))
    for name, key in row["keys"].items():
        _write_key(out, name, key)
    for name, keys in row.get("copies", {}).items():
        out.write(fields(FORM)[name].why, **dict.fromkeys(keys, out[name]))
    carried = {*row["keys"], *(name for rule in row["rules"] for name in RULES[rule](out))}
    for name in _compared():
        usual = class_facts.get(name, _usual(name, out))
        value = out.values.get(name)
        if name not in carried and not _has_no_effect(name, out) and not _is_usual(value, usual):
            out.lose(name, f"{value}: {row['architecture']} has {usual}")
    return out


def _write_key(out: Outgoing, name: str, key: str) -> None:
    """Writes one quantity under its key; if the key has the different value of another quantity already, the quantity is lost."""
    value = out.values.get(name)
    if key in out.fields and out.fields[key] != (value or False):
        out.lose(name, f"{value}: '{key}' says {out.fields[key]} for both")
    elif key not in out.fields:
        out.write(fields(FORM)[name].why or name.replace("_", " "), **{key: value if value is not None else 0})


@lru_cache(maxsize=1)
def _compared() -> tuple[str, ...]:
    """The quantities that are compared after writing: those with a key in config.json, and those that a class fixes without one."""
    class_facts = {name for row in table("families")["rows"].values() for name in row.get("facts", {})}
    return tuple(sorted({*fields(FORM), *class_facts} - {"attention_kind"}))


def _usual(name: str, out: Outgoing) -> Any:
    """The value that a network has without a key: that of another quantity, or the default of amped."""
    if name in FOLLOWING:
        return out[FOLLOWING[name]]
    if name == "head_dimension":
        return out["dimensionality"] // out["attention_heads"]
    return default_of(name)


def _has_no_effect(name: str, out: Outgoing) -> bool:
    """Whether a quantity has no effect in this network."""
    has_experts = out["number_of_experts"] > 1
    has_no_effect: dict[str, bool] = {
        **dict.fromkeys(OF_EXPERTS, not has_experts),
        **dict.fromkeys(LATENT, out["attention_kind"] != "multi_latent"),
        **dict.fromkeys((*INDEXER, *BLOCKS_OF_KEYS), not out.values.get("indexer_heads")),
        **dict.fromkeys(COMPRESSED, out["attention_kind"] != "compressed"),
        "sinkhorn_iterations": (out.values.get("residual_streams") or 1) <= 1,
        "linear_output_norm": not out.values.get("number_of_linear_attention_layers"),
        "position_table": out["positions"] != "learned",
        "relative_position_tables": out["positions"] != "relative_bias",
        "mlp_bias": has_experts and out["number_of_MoE_layers"] == out["layers"],
    }
    return has_no_effect.get(name, False)


def _is_usual(value: Any, usual: Any) -> bool:
    """Whether a value equals the usual one; all of None, 0 and false are equal."""
    return value == usual or not (value or usual)


# --- rules: each writes keys and returns the names of the quantities that they carry -----------------------------------

Carried = tuple[str, ...]


def write_longest(out: Outgoing) -> Carried:
    """Writes the longest sequence, which is that of the training. The key carries no quantity of the network."""
    out.write("the longest sequence", max_position_embeddings=out["context"])
    return ()


def write_learned(out: Outgoing) -> Carried:
    """Writes the number of rows of the position table."""
    out.write("rows of the position table", n_positions=out["position_table"] or out["context"])
    return ("position_table",)


def write_four_times(out: Outgoing) -> Carried:
    """Writes nothing: in this class the feed-forward network is 4 times as wide as the residual stream. Other widths are lost."""
    if out["feedforward_dimension"] != 4 * out["dimensionality"]:
        out.lose("feedforward_dimension", f"{out['feedforward_dimension']}: the class has 4 times hidden size")
    return ("feedforward_dimension",)


def write_latent(out: Outgoing) -> Carried:
    """Writes the part of a head that is not rotated, and null for a query without a latent vector.

    Returns:
        The quantities that these keys carry.
    """
    out.write(
        "part of a head that is not rotated",
        qk_nope_head_dim=out["head_dimension"] - out["rotary_head_dimension"],
    )
    if not out["query_latent_dimension"]:
        out.fields["q_lora_rank"] = None  # null is a value here, and `write` leaves None out
    return ("head_dimension", "key_value_heads")


def write_indexer(out: Outgoing) -> Carried:
    """Writes the sizes of the indexer; a class with an indexer has one in each layer.

    A network without an indexer has none of these keys, and loses that the class has one.
    """
    heads = out.values.get("indexer_heads")
    if not heads:
        out.lose("indexer_heads", "none: the class has an indexer in each layer")
        return (*INDEXER, "indexer_heads")
    why = "an indexer chooses the keys of a token"
    out.write(why, index_n_heads=heads, index_head_dim=out["indexer_head_dimension"], index_topk=out["indexed_keys"])
    return ("indexer_heads", "indexer_head_dimension", "indexed_keys", "indexer_loss")


def write_window(out: Outgoing) -> Carried:
    """Writes one attention window for all layers, or null for none; a window in some layers is lost."""
    width, windowed_layers = out["attention_window"], out["number_of_windowed_layers"]
    out.fields["sliding_window"] = width if windowed_layers else None
    out.why["sliding_window"] = "tokens that a layer attends to"
    if windowed_layers and windowed_layers != out["layers"]:
        out.lose("number_of_windowed_layers", f"{windowed_layers}: the class has a window in all layers or in none")
    return WINDOWS


def write_windows(out: Outgoing) -> Carried:
    """Writes the attention window and the kind of each layer.

    The windowed layers come first, because amped knows only their number.
    """
    width, windowed_layers, layers = (out[name] for name in ("attention_window", "number_of_windowed_layers", "layers"))
    windowed_layers = windowed_layers if width else 0
    out.fields["sliding_window"], out.why["sliding_window"] = width or None, "tokens that a windowed layer attends to"
    out.write("whether layers have a window", use_sliding_window=bool(windowed_layers))
    out.write(
        f"{windowed_layers} of {layers} layers have a window",
        layer_types=[WINDOWED[0]] * windowed_layers + [FULL[0]] * (layers - windowed_layers),
    )
    return WINDOWS


def write_only_experts(out: Outgoing) -> Carried:
    """Writes nothing: in this class all layers are mixtures of experts. Dense layers are lost."""
    marks = mixture_marks(out)
    if sum(marks) < len(marks):
        for name in (*PLACES, "feedforward_dimension"):
            out.lose(name, f"{sum(marks)} of {len(marks)} layers are mixtures: the class has them in all layers")
    out.idle.add("feedforward_dimension")
    return (*PLACES, "feedforward_dimension")


def write_dense_layers(out: Outgoing) -> Carried:
    """Writes the indices of the layers that are no mixtures of experts."""
    marks = mixture_marks(out)
    dense = [layer for layer, mark in enumerate(marks) if not mark]
    out.write("layers that are no mixtures", decoder_sparse_step=1, mlp_only_layers=dense)
    return PLACES


def write_dense_start(out: Outgoing) -> Carried:
    """Writes the number of dense layers before the first mixture; dense layers after it are lost."""
    marks = mixture_marks(out)
    dense = marks.index(1) if 1 in marks else len(marks)
    out.write("dense layers before the mixtures", first_k_dense_replace=dense)
    if sum(marks) < len(marks) - dense:
        for name in PLACES:
            out.lose(name, "the class has dense layers only before the mixtures")
    return PLACES


def write_shared(out: Outgoing) -> Carried:
    """Writes the number of shared experts, each as wide as the other experts; another width is rounded up and lost."""
    width, expert = out["shared_experts_feedforward_dimension"], out["expert_feedforward_dimension"]
    out.write("experts that every token visits", n_shared_experts=-(-width // expert))
    if width % expert:
        out.lose("shared_experts_feedforward_dimension", f"{width}: the class has whole experts of {expert}")
    return ("number_of_shared_experts", "shared_experts_feedforward_dimension")


RULES: Mapping[str, Callable[[Outgoing], Carried]] = {
    "longest": write_longest, "learned": write_learned, "four_times": write_four_times, "latent": write_latent, "indexer": write_indexer, "window": write_window,
    "windows": write_windows, "only_experts": write_only_experts, "dense_layers": write_dense_layers, "dense_start": write_dense_start, "shared": write_shared,
}  # fmt: skip


def write(e: Estimation) -> str:
    """The text of a config.json."""
    return as_json(fields_of(e), f"config.json of {VERSION}, written by amped: {e.scenario.title}")
