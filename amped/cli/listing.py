"""`amped list`: what there is to choose from."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amped.cli import options

if TYPE_CHECKING:
    from amped.tables.tables import Tables


class What(enum.StrEnum):
    """What can be listed."""

    ACCELERATORS = "accelerators"
    MODELS = "models"
    SYSTEMS = "systems"
    LINKS = "links"
    KERNELS = "kernel-efficiencies"
    SOFTWARE = "software"
    PARAMETERS = "parameters"
    CONFIGS = "configs"


# For each table: the columns that tell its rows apart, and their heads.
COLUMNS = {
    What.ACCELERATORS: {"bf16_peak_flop_rate": "bf16 peak", "fp16_peak_flop_rate": "fp16 peak",
                        "memory_capacity": "memory", "memory_bandwidth": "bandwidth", "release_year": "year"},
    What.MODELS: {"parameters_published": "parameters", "layers": "layers", "dimensionality": "width",
                  "attention_heads": "heads", "context": "context"},
    What.SYSTEMS: {"accelerator": "accelerator", "number_of_accelerators_per_node": "per node",
                   "inter_accelerator_bandwidth": "inside", "number_of_network_cards_per_node": "cards",
                   "bandwidth_per_network_card": "per card"},
    What.LINKS: {"link_class": "class", "bandwidth": "bandwidth", "latency": "latency",
                 "all_reduce_efficiency": "all-reduce", "bandwidth_of": "of"},
    What.KERNELS: {"gemm_sustained_fraction": "products", "memory_bandwidth_efficiency": "bandwidth",
                   "attention_forward_efficiency": "attention", "kernel_overhead_time": "overhead",
                   "kernel_launch_time": "launch"},
    What.SOFTWARE: {"attention_kernel": "attention", "streaming_traffic_factor": "traffic",
                    "weight_gradient_accumulation": "accumulation", "zero_stage": "ZeRO",
                    "allocator_reserve_fraction": "reserve"},
}  # fmt: skip


def listing(
    what: Annotated[
        What,
        typer.Argument(
            metavar="accelerators|models|systems|links|kernel-efficiencies|software|parameters|configs",
            help="What to list.",
        ),
    ],
    filter_text: Annotated[str, typer.Option("--filter", "-f", metavar="TEXT", help="Only lines with this text.")] = "",
    lookup_tables: options.TablesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the accelerators, models, systems, links, software, parameters or configs there are.

    Example: amped list models --filter llama
    """
    found = [
        line for line in _lines(what, lookup_tables) if filter_text.casefold() in " ".join(line.values()).casefold()
    ]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    if not found:
        typer.echo(f"nothing in {what.value} has {filter_text!r}", err=True)
        return
    from amped.report.listing import listed

    options.show(listed(found))


def _lines(what: What, lookup_tables: Path | None) -> list[dict[str, str]]:
    if what is What.CONFIGS:
        from amped.configuring.config import read_config, shipped_configs
        from amped.theory.catalogue import catalogue

        return [{"name": name, "description": read_config(name, catalogue()).description} for name in shipped_configs()]
    if what is What.PARAMETERS:
        from amped.theory.catalogue import catalogue

        return [
            {"name": name, "unit": quantity.mark.bare or quantity.mark.unit, "meaning": quantity.summary}
            for name, quantity in catalogue().items()
            if quantity.mark.kind != "records" and not quantity.mark.constrains
        ]
    from amped.tables.table_files import user_folders
    from amped.tables.tables import Tables

    return _rows(what, Tables(user_folders(lookup_tables)))


def _rows(what: What, tables: Tables) -> list[dict[str, str]]:
    from amped.tables.table_files import ACCELERATORS, KERNELS, LINKS, MODELS, SOFTWARE, SYSTEMS

    table = {What.ACCELERATORS: ACCELERATORS, What.MODELS: MODELS, What.SYSTEMS: SYSTEMS, What.LINKS: LINKS,
             What.KERNELS: KERNELS, What.SOFTWARE: SOFTWARE}[what]  # fmt: skip
    lines = []
    for name in tables.names(table):
        columns = tables.row(table, name).columns
        aliases = [alias for alias in columns.get("aliases", ()) if isinstance(alias, str)]
        values = {head: str(columns.get(column, "")) for column, head in COLUMNS[what].items()}
        lines.append({"name": name, **values, "aliases": ", ".join(aliases)})
    return lines
