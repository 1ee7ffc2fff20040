"""A new config: ten lines for a model on a system, or every parameter in AMPeD's full style."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from amped.base.errors import MappingError
from amped.configuring.config_writing import schema_uri
from amped.configuring.scenario import read_scenario
from amped.configuring.sources import LookedUp
from amped.estimation.estimation import Estimation, estimated
from amped.exploration.answer import explored
from amped.exploration.request import Options
from amped.tables.table_files import KERNELS, MODELS, SYSTEMS
from amped.tables.tables import Row, Tables
from amped.theory.catalogue import Catalogue
from amped.theory.quantity import ACCELERATOR, CATEGORIES, MAPPING, NETWORK, SYSTEM

# Size of a global batch where nobody says, in tokens: arXiv 2005.14165 (GPT-3) and arXiv 2407.21783 (Llama 3), about 4 M.
BATCH_TOKENS = 4_000_000
DRAFTED = ("tensor_parallel_degree", "pipeline_parallel_degree", "microbatch_size")
MEMORY_CHOICES = [
    {"activation_recomputation": kind, "zero_stage": stage}
    for stage in (1, 3)
    for kind in ("none", "selective", "full")
]
MOST_EXPERT_SHARES = 64
MEANINGS = {
    "expert_parallel_degree": "shares of the experts",
    "expert_tensor_parallel_degree": "accelerators that share one expert's matrices",
    "tensor_parallel_degree": "accelerators that share every matrix; best within a node",
    "pipeline_parallel_degree": "stages of layers; data parallelism takes what is left",
    "microbatch_size": "sequences that go through the network together",
    "activation_recomputation": "none, selective, full, or block",
    "zero_stage": "what replicas share out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too",
}


def draft(model: str, system: str, nodes: int, tables: Tables, folder: Path | None = None) -> dict[str, Any]:
    """A minimal config with the fastest mapping that fits.

    Tried are all data, tensor, pipeline and expert degrees, micro-batches, kinds of recomputation, and ZeRO 1 and 3.

    Raises:
        TableError: for unknown rows; MappingError if no mapping fits.
    """
    names = (tables.row(MODELS, model).name, tables.row(SYSTEMS, system).name)
    accelerators = nodes * int(tables.row(SYSTEMS, system).column("number_of_accelerators_per_node"))
    tokens = int(tables.row(MODELS, model).column("context"))
    batch = accelerators * max(1, round(BATCH_TOKENS / tokens / accelerators))
    found: list[tuple[float, dict[str, Any]]] = []
    for choice in _choices(tables.row(MODELS, model)):
        config = _config(*names, nodes, batch, choice)
        result = explored(read_scenario(config, lookup_tables=folder), Options(1, "degrees"))
        if result.feasible:
            best = {name: int(result.best[0][name]) for name in DRAFTED}
            found.append((result.best[0]["step_time"], _config(*names, nodes, batch, best | choice)))
    if not found:
        raise MappingError(f"no mapping fits {names[0]} on {nodes} nodes of {names[1]}", "take more --nodes")
    return min(found, key=lambda pair: pair[0])[1]


def _choices(model: Row) -> list[dict[str, Any]]:
    """What the explorer does not search itself: memory choices and, for a mixture, the expert-parallel degree."""
    experts = int(model.columns.get("number_of_experts") or 1)
    degrees = [d for d in range(1, min(experts, MOST_EXPERT_SHARES) + 1) if experts % d == 0]
    own: list[dict[str, Any]] = [
        {} if d == 1 else {"expert_parallel_degree": d, "expert_tensor_parallel_degree": 1} for d in degrees
    ]
    return [memory | experts_split for memory in MEMORY_CHOICES for experts_split in own]


def _config(model: str, system: str, nodes: int, batch: int, mapping: dict[str, Any]) -> dict[str, Any]:
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
                "sequence_parallel": {"value": True, "description": "norms and dropouts split along the sequence"},
            }
        },
        SYSTEM: {
            "lookup_config": {"lookup_table_name": SYSTEMS, "lookup_table_row": system},
            "parameters": {"number_of_nodes": {"value": nodes, "description": "servers"}},
        },
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
    row = estimation.scenario.sources.rows[KERNELS]
    told = {"value": row.name, "description": f"row of {KERNELS}: how efficient its kernels are"}
    full[ACCELERATOR]["parameters"].setdefault(KERNELS, told)
    return full


def _conditions(catalogue: Catalogue) -> set[str]:
    """Names whose being given chooses formulas; written out as a value, one would change the plan."""
    marks = [formula.mark for quantity in catalogue.values() for formula in quantity.formulas]
    return {name for mark in marks for name in (*mark.when_given, *mark.when_any_given)}


def _spelled(name: str, estimation: Estimation) -> dict[str, Any] | None:
    """One parameter in full, or None where this configuration does not use it."""
    origin = estimation.scenario.sources.origins.get(name)
    if isinstance(origin, LookedUp) and origin.row.table == KERNELS:
        return None  # all columns come with the row, which is named by itself
    if isinstance(origin, LookedUp):
        return {"value": None, "calculated": False, "from_lookup_table": True}
    if name in estimation.choices:
        return {"value": estimation.choices[name], "calculated": False, "from_lookup_table": False}
    formula = estimation.plan.by_name.get(name)
    if formula is None:
        return None
    if formula.arguments or name in _conditions(estimation.scenario.catalogue):
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
