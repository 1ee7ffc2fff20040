"""What a table's columns leave open of a network, from the networks that amped knows and that have its very shape.

A network is known by its shape and never by its name; what the notes of a row say counts more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amped.base.errors import TableError
from amped.tables.table_files import MODELS
from amped.tables.tables import Tables
from amped.validation.columns import TableRow

# What makes a network's shape: columns of a table of measurements, and of `transformer_network_parameters`.
SHAPE = {
    "layers": "layers", "hidden_size": "dimensionality", "attention_heads": "attention_heads",
    "kv_heads": "key_value_heads", "ffn_hidden_size": "feedforward_dimension", "num_experts": "number_of_experts",
    "experts_topk": "experts_per_token",
}  # fmt: skip
# What no column asks for.
UNASKED = (
    "query_key_value_bias", "attention_output_bias", "mlp_bias", "expert_bias", "router_bias", "attention_sinks",
    "query_key_norm", "norm_vectors",
)  # fmt: skip


def known_alike(row: TableRow, tables: Tables) -> tuple[str, dict[str, Any]]:
    """The networks of a row's shape, by name, and what all of them say of what is open; nothing where none is known."""
    alike = dict(_alike(row, tables))
    first: Mapping[str, Any] = next(iter(alike.values()), {})
    agreed = {
        name: first[name]
        for name in UNASKED
        if name in first and all(c.get(name) == first[name] for c in alike.values())
    }
    return ", ".join(alike), agreed


def _alike(row: TableRow, tables: Tables) -> Iterator[tuple[str, Mapping[str, Any]]]:
    mixture = row.numbers.get("num_experts", 1) > 1
    names = SHAPE | ({"ffn_hidden_size": "expert_feedforward_dimension"} if mixture else {})
    asked = {name: row.numbers.get(column) for column, name in names.items()}
    if asked["attention_heads"] is None or asked[names["ffn_hidden_size"]] is None:
        return
    asked["key_value_heads"] = asked["key_value_heads"] or asked["attention_heads"]
    for name in tables.names(MODELS):
        try:
            columns = tables.row(MODELS, name).columns
        except TableError:
            continue  # `amped check-tables` tells what is wrong with it
        known = {"key_value_heads": columns.get("attention_heads")} | dict(columns)
        if all(known.get(key) == value for key, value in asked.items()):
            yield name, columns
