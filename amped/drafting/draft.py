"""A new config: ten lines for a model on a system, or every parameter in AMPeD's full style."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from amped.base.errors import MappingError
from amped.configuring.config_writing import schema_uri
from amped.configuring.scenario import read_scenario
from amped.configuring.sources import LookedUp
from amped.drafting.chooser import BATCH_TOKENS
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.laying_out import KINDS
from amped.exploration.answer import explored
from amped.exploration.request import Options
from amped.tables.table_files import KERNELS, MODELS, SYSTEMS
from amped.tables.tables import Row, Tables
from amped.theory.catalogue import Catalogue
from amped.theory.quantity import ACCELERATOR, CATEGORIES, MAPPING, NETWORK, SYSTEM

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

    It tries all data-, tensor-, pipeline- and expert-parallel degrees, micro-batches, kinds of recomputation, and ZeRO
    1 and 3.

    Raises:
        TableError: for unknown rows; MappingError if no mapping fits.
    """
    network, machine = tables.row(MODELS, model), tables.row(SYSTEMS, system)
    accelerators = nodes * int(machine.column("number_of_accelerators_per_node"))
    batch = accelerators * max(1, round(BATCH_TOKENS / int(network.column("context")) / accelerators))
    found: list[tuple[float, dict[str, Any]]] = []
    for choice in _choices(network):
        config = _config(network.name, machine.name, nodes, batch, choice)
        result = explored(read_scenario(config, lookup_tables=folder), Options(1, "degrees"))
        if result.feasible:
            best = {name: int(result.best[0][name]) for name in DRAFTED}
            drafted = _config(network.name, machine.name, nodes, batch, best | choice)
            found.append((result.best[0]["step_time"], drafted))
    if not found:
        raise MappingError(f"no mapping fits {network.name} on {nodes} nodes of {machine.name}", "take more --nodes")
    return min(found, key=lambda pair: pair[0])[1]


def _choices(model: Row) -> list[dict[str, Any]]:
    """The names that the exploration does not search itself: about memory and, for a mixture, expert degrees."""
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
            **_named(MODELS, model),
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
            **_named(SYSTEMS, system),
            "parameters": {"number_of_nodes": {"value": nodes, "description": "servers"}},
        },
    }


def _named(table: str, row: str) -> dict[str, Any]:
    """A row of a table, in the form in which a category of a config names it."""
    return {"lookup_config": {"lookup_table_name": table, "lookup_table_row": row}}


def filled(config: dict[str, Any], catalogue: Catalogue, folder: Path | None = None) -> dict[str, Any]:
    """A config with every parameter spelled out as in AMPeD's own configs: looked up, calculated, or as a value."""
    estimation = estimated(read_scenario(config, lookup_tables=folder), Estimation)
    full = deepcopy(config)
    for category in CATEGORIES:
        section = full.setdefault(category, {})
        parameters = section.setdefault("parameters", {})
        row = estimation.scenario.sources.rows.get(category)
        if row is not None:
            section.update(_named(row.table, row.name))
        for name, quantity in catalogue.items():
            if quantity.category == category and name not in parameters:
                spelled = _spelled(name, estimation)
                if spelled is not None:
                    parameters[name] = spelled | {"description": quantity.summary}
    row = estimation.scenario.sources.rows[KERNELS]
    told = {"value": row.name, "description": f"row of {KERNELS}: how efficient its kernels are"}
    full[ACCELERATOR]["parameters"].setdefault(KERNELS, told)
    return full


def _conditions(catalogue: Catalogue) -> set[str]:
    """The names that choose formulas when they are given; such a name, written as a value, would change the plan."""
    marks = [formula.mark for quantity in catalogue.values() for formula in quantity.formulas]
    return {name for mark in marks for name in (*mark.when_given, *mark.when_any_given)}


def _spelled(name: str, estimation: Estimation) -> dict[str, Any] | None:
    """One parameter in full, or None if this configuration does not use it."""
    origin = estimation.scenario.sources.origins.get(name)
    if isinstance(origin, LookedUp) and origin.row.table == KERNELS:
        return None  # the row is named, and brings all its columns
    if isinstance(origin, LookedUp):
        return _entry(looked_up=True)
    if name == KINDS:
        return None  # amped finds it from the layers
    if name in estimation.choices:
        return _entry(estimation.choices[name])
    formula = estimation.plan.by_name.get(name)
    if formula is None:
        return None
    if formula.arguments or name in _conditions(estimation.scenario.catalogue):
        return _entry(calculated=True)
    return _entry(_written(formula.function(), formula.mark.unit, formula.mark.bare))


def _entry(value: Any = None, calculated: bool = False, looked_up: bool = False) -> dict[str, Any]:
    """A parameter in AMPeD's style: its value, or where it comes from."""
    return {"value": value, "calculated": calculated, "from_lookup_table": looked_up}


def _written(value: float, unit: str, bare: str | None) -> Any:
    """A default in the form that amped reads back."""
    if bare == "bit":
        return value * 8
    return bool(value) if unit == "boolean" else value
