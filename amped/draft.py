"""A new config: ten lines for a model on a system, or every parameter in AMPeD's full style."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from amped.catalogue import Catalogue
from amped.errors import MappingError
from amped.estimation import Estimation, estimated
from amped.quantity import CATEGORIES, MAPPING, NETWORK, SYSTEM
from amped.scenario import read_scenario
from amped.sources import LookedUp
from amped.table_files import MODELS, SYSTEMS
from amped.tables import Tables

SEQUENCES_PER_REPLICA = 8


def draft(model: str, system: str, nodes: int, tables: Tables, folder: Path | None = None) -> dict[str, Any]:
    """A minimal config that fits, with the fastest of the mappings tried.

    Raises:
        TableError: for unknown rows; MappingError if no mapping tried fits.
    """
    names = (tables.row(MODELS, model).name, tables.row(SYSTEMS, system).name)
    per_node = int(tables.row(SYSTEMS, system).column("number_of_accelerators_per_node"))
    tried = (_config(*names, nodes, mapping, per_node) for mapping in _mappings(per_node, nodes))
    rated = [(rate, config) for config in tried if (rate := _rate(config, folder)) is not None]
    if not rated:
        raise MappingError(f"no mapping tried fits {names[0]} on {nodes} nodes of {names[1]}", "take more --nodes")
    return max(rated, key=lambda pair: pair[0])[1]


def _rate(config: dict[str, Any], folder: Path | None) -> float | None:
    """Tokens in a second of one accelerator, None where the mapping breaks a rule or does not fit."""
    try:
        found = estimated(read_scenario(config, lookup_tables=folder), Estimation)
    except MappingError:
        return None
    return found["tokens_per_second_per_accelerator"] if found["fits_in_memory"] else None


def schema_uri() -> str:
    """Where an editor finds the schema of the installed amped."""
    return Path(str(resources.files("amped.schema").joinpath("config.schema.json"))).resolve().as_uri()


def _mappings(per_node: int, nodes: int) -> list[dict[str, Any]]:
    """Mappings from the simplest on: recomputation before larger degrees, the node filled before the pipeline grows."""
    degrees = [(t, 1) for t in _powers(per_node)]
    degrees += [(_powers(per_node)[-1], p) for p in (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32) if nodes % p == 0]
    return [
        {"tensor_parallel_degree": t, "pipeline_parallel_degree": p, "activation_recomputation": kind}
        for t, p in degrees
        for kind in ("none", "selective", "full")
    ]


def _powers(most: int) -> list[int]:
    return [2**n for n in range(most.bit_length()) if 2**n <= most and most % 2**n == 0]


def _config(model: str, system: str, nodes: int, mapping: dict[str, Any], per_node: int) -> dict[str, Any]:
    replicas = nodes * per_node // mapping["tensor_parallel_degree"] // mapping["pipeline_parallel_degree"]
    batch = replicas * max(SEQUENCES_PER_REPLICA, mapping["pipeline_parallel_degree"] * 4)
    return {
        "$schema": schema_uri(),
        "description": f"{model} on {nodes} x {system}; written by amped init",
        NETWORK: {
            "lookup_config": {"lookup_table_name": MODELS, "lookup_table_row": model},
            "parameters": {
                "batch_size": {"value": batch, "description": "sequences in a global batch: choose your own"},
                "flash_attention": {"value": True, "description": "one fused kernel that keeps no score matrix"},
            },
        },
        MAPPING: {
            "parameters": {
                **{name: {"value": value, "description": MEANINGS[name]} for name, value in mapping.items()},
                "microbatch_size": {"value": 1, "description": "sequences that go through the network together"},
                "sequence_parallel": {"value": True, "description": "norms and dropouts split along the sequence"},
                "zero_stage": {
                    "value": 1,
                    "description": "0 nothing, 1 optimizer states, 2 gradients, 3 weights shared",
                },
            }
        },
        SYSTEM: {
            "lookup_config": {"lookup_table_name": SYSTEMS, "lookup_table_row": system},
            "parameters": {"number_of_nodes": {"value": nodes}},
        },
    }


MEANINGS = {
    "tensor_parallel_degree": "accelerators that share every matrix; best within a node",
    "pipeline_parallel_degree": "stages of layers; data parallelism takes what is left",
    "activation_recomputation": "none, selective, full, or block",
}


def filled(config: dict[str, Any], catalogue: Catalogue, folder: Path | None = None) -> dict[str, Any]:
    """The same config with every parameter spelled out, as AMPeD's own are: looked up, calculated, or by value."""
    estimation = estimated(read_scenario(config, lookup_tables=folder), Estimation)
    full: dict[str, Any] = json.loads(json.dumps(config))
    for category in CATEGORIES:
        section = full.setdefault(category, {"parameters": {}})
        section.setdefault("parameters", {})
        row = estimation.scenario.sources.rows.get(category)
        if row is not None:
            section["lookup_config"] = {"lookup_table_name": row.table, "lookup_table_row": row.name}
        for name, quantity in catalogue.items():
            if quantity.category == category and name not in section["parameters"]:
                spelled = _spelled(name, estimation)
                if spelled is not None:
                    section["parameters"][name] = spelled | {"description": quantity.summary}
    return full


def _spelled(name: str, estimation: Estimation) -> dict[str, Any] | None:
    """One parameter in full, or None where this configuration does not use it."""
    origin = estimation.scenario.sources.origins.get(name)
    if isinstance(origin, LookedUp):
        return {"value": None, "calculated": False, "from_lookup_table": True}
    if name in estimation.choices:
        return {"value": estimation.choices[name], "calculated": False, "from_lookup_table": False}
    formula = estimation.plan.by_name.get(name)
    if formula is None:
        return None
    if formula.arguments:
        return {"value": None, "calculated": True, "from_lookup_table": False}
    value = formula.function()
    return {
        "value": _written(value, formula.mark.unit, formula.mark.bare),
        "calculated": False,
        "from_lookup_table": False,
    }


def _written(value: float, unit: str, bare: str | None) -> Any:
    """A default as the door reads it back."""
    if bare == "bit":
        return value * 8
    return bool(value) if unit == "boolean" else value


def as_json(config: dict[str, Any]) -> str:
    """The config as text, a line for each parameter."""

    def lines(value: Any, depth: int) -> str:
        plain = not isinstance(value, dict) or not value or "value" in value or "lookup_table_row" in value
        if plain:
            return json.dumps(value, ensure_ascii=False)
        inner = (f"{' ' * (depth + 1)}{json.dumps(k)}: {lines(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(inner) + "\n" + " " * depth + "}"

    return lines(config, 0) + "\n"
