"""A new config: ten lines for a model on a system, or every parameter in AMPeD's full style."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from amped.base.errors import MappingError
from amped.configuring.config_writing import schema_uri
from amped.configuring.not_modeled import ANYWAY, KEY
from amped.configuring.scenario import Scenario, read_scenario
from amped.configuring.sources import Given, LookedUp
from amped.drafting.chooser import completed
from amped.estimation.estimation import Estimation, estimated
from amped.exploration.candidate_config import as_written
from amped.pipeline_layouts.laying_out import KINDS, LAYOUT
from amped.tables.table_files import KERNELS, SOFTWARE, LookupTables
from amped.tables.tables import Row
from amped.theory.language.catalogue import Catalogue
from amped.theory.language.quantity import ACCELERATOR, CATEGORIES, MAPPING, NETWORK, SYSTEM

TOKENS, OF_ROW = "tokens_to_train", "training_tokens"
# What an estimate finds by itself as the chooser did.
FOUND = (LAYOUT, KINDS)
# What an engineer looks for in a new config, with a description of each; other values that are chosen stand without one.
MEANINGS = {
    "batch_size": "sequences in a global batch: choose your own",
    "tokens_to_train": "tokens of the whole training: choose your own",
    "flash_attention": "one fused kernel that keeps no score matrix",
    "dropout": "share of activations that are dropped",
    "matrix_precision": "format of matrix products",
    "number_of_nodes": "servers",
    "sequence_parallel": "norms and dropouts split along the sequence",
    "virtual_pipeline_stages": "chunks of layers on each stage",
    "expert_parallel_degree": "shares of the experts",
    "expert_tensor_parallel_degree": "accelerators that share one expert's matrices",
    "tensor_parallel_degree": "accelerators that share every matrix; best within a node",
    "pipeline_parallel_degree": "stages of layers; data parallelism takes what is left",
    "context_parallel_degree": "accelerators that share each sequence",
    "microbatch_size": "sequences that go through the network together",
    "activation_recomputation": "none, selective, full, or block",
    "zero_stage": "what replicas share out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too",
}


def draft(
    model: str | Mapping[str, Any],
    system: str | None,
    size: Mapping[str, int],
    lookup_tables: LookupTables = None,
    anyway: bool = False,
) -> dict[str, Any]:
    """A minimal config as plain data: the named rows, and all values that the chooser adds.

    Args:
        model: the name of a row, or the values of a network by name, which are written into the config.
        system: the name of a row; None if the chooser takes one.
        size: the number of nodes or of accelerators, by name.
        lookup_tables: a folder of lookup tables to layer over the shipped ones.
        anyway: accepts parts of the network that are not modeled and have no bound.

    Raises:
        TableError: for unknown rows; MappingError if no mapping fits; ConfigError for a part without a bound.
    """
    named = {"model": model, "system": system, ANYWAY: anyway}
    scenario = completed({**{name: value for name, value in named.items() if value}, **size}, lookup_tables)
    rows, e = scenario.sources.rows, estimated(scenario)
    nodes = f"{e['number_of_nodes']:g}"
    if not e["fits_in_memory"]:
        what = f"no mapping fits {rows[NETWORK].name} on {nodes} nodes of {rows[SYSTEM].name}"
        raise MappingError(what, "take more --nodes; `amped explore` of the same words tries offload, too")
    config: dict[str, Any] = {
        "$schema": schema_uri(),
        "description": "; ".join(
            (
                f"{rows[NETWORK].name} on {nodes} x {rows[SYSTEM].name}",
                "written by amped init",
                *scenario.sources.preliminary,
            )
        ),
    }
    if scenario.sources.not_modeled:
        config[KEY] = [entry.written() for entry in scenario.sources.not_modeled]
    for category in (NETWORK, MAPPING, SYSTEM):
        config[category] = {**_named(rows.get(category)), "parameters": {}}
    for name, value in _written_down(scenario):
        section = scenario.catalogue[name].category or MAPPING
        entry = {"value": value} | ({"description": MEANINGS[name]} if name in MEANINGS else {})
        config.setdefault(section, {"parameters": {}})["parameters"][name] = entry
    return config


def _written_down(scenario: Scenario) -> Iterator[tuple[str, Any]]:
    """The given and chosen parameters by name, with their values in the form of a config.

    Layouts that every estimate finds again, and the training tokens if the row of the model has them, are left out.
    """
    network = scenario.sources.rows[NETWORK].columns
    for name, origin in scenario.sources.origins.items():
        is_of_file = isinstance(origin, LookedUp) and origin.row.is_a_file
        if not (isinstance(origin, Given) or is_of_file) or name in FOUND or (name == TOKENS and OF_ROW in network):
            continue
        quantity = scenario.catalogue[name]
        yield name, as_written(quantity, origin.value, origin.written)


def _named(row: Row | None) -> dict[str, Any]:
    """The `lookup_config` entry that names a row of a table in a config; empty if there is no row, or if it is a file."""
    if row is None or row.is_a_file:
        return {}
    return {"lookup_config": {"lookup_table_name": row.table, "lookup_table_row": row.name}}


def filled(config: dict[str, Any], catalogue: Catalogue, lookup_tables: LookupTables = None) -> dict[str, Any]:
    """A config with every parameter spelled out as in AMPeD's own configs: looked up, calculated, or as a value."""
    estimation = estimated(read_scenario(config, {ANYWAY: True}, lookup_tables))
    full = deepcopy(config)
    for category in CATEGORIES:
        section = full.setdefault(category, {})
        parameters = section.setdefault("parameters", {})
        section.update(_named(estimation.scenario.sources.rows.get(category)))
        for name, quantity in catalogue.items():
            if quantity.category == category and name not in parameters:
                spelled = _spelled(name, estimation)
                if spelled is not None:
                    parameters[name] = spelled | {"description": quantity.summary}
    row = estimation.scenario.sources.rows[KERNELS]
    entry = {"value": row.name, "description": f"row of {KERNELS}: how efficient its kernels are"}
    full[ACCELERATOR]["parameters"].setdefault(KERNELS, entry)
    return full


def _conditions(catalogue: Catalogue) -> set[str]:
    """The names that select a formula by being given: to write such a name with a value would select another formula."""
    marks = [formula.mark for quantity in catalogue.values() for formula in quantity.formulas]
    return {name for mark in marks for name in (*mark.when_given, *mark.when_any_given)}


def _spelled(name: str, estimation: Estimation) -> dict[str, Any] | None:
    """The full entry of one parameter; None if this configuration does not use it, or if a named row brings it."""
    origin = estimation.scenario.sources.origins.get(name)
    if isinstance(origin, LookedUp) and origin.row.table in (KERNELS, SOFTWARE):
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
    """A parameter in AMPeD's style, with its value and whether it is calculated or looked up."""
    return {"value": value, "calculated": calculated, "from_lookup_table": looked_up}


def _written(value: float, unit: str, bare: str | None) -> Any:
    """A default in the form that a config has: bits if the parameter's bare numbers are bits, true or false for a switch."""
    if bare == "bit":
        return value * 8
    return bool(value) if unit == "boolean" else value
