"""`amped init`: writes a config to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from amped.base.commands import command
from amped.base.errors import ConfigError
from amped.cli import options


def init(
    model: Annotated[str, Option("--model", metavar="ROW|PATH", help="Row of `amped list models`, or a config.json.")],
    system: Annotated[
        str | None, Option("--system", metavar="ROW", help="Nodes and networks (`amped list systems`).")
    ] = None,
    nodes: Annotated[int | None, Option("--nodes", min=1, metavar="N", help="Number of nodes; else one.")] = None,
    gpus: Annotated[int | None, Option("--gpus", min=1, metavar="N", help="Number of accelerators.")] = None,
    full: Annotated[bool, Option("--full", help="Spell out every parameter, in AMPeD's style.")] = False,
    lookup_tables: options.TablesOption = None,
    anyway: options.AnywayOption = False,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write there instead of printing.")
    ] = None,
) -> None:
    """Write a config for a model on a system, with a mapping that fits; each parameter has a description.

    Example: amped init --model "Llama 3 8B" --system "DGX H100" --nodes 4 -o my.json
    """
    from amped.configuring.config_writing import as_json
    from amped.drafting.draft import draft, filled
    from amped.interop.models import with_model
    from amped.theory.language.catalogue import catalogue

    options.refuse_existing(output, "--output")
    row: Any = with_model({"model": model}, lookup_tables)["model"]
    if gpus is not None and nodes is not None:
        raise ConfigError("--gpus and --nodes both say how large the machine is", "keep one")
    size = {"number_of_nodes": nodes or 1} if gpus is None else {"number_of_accelerators": gpus}
    config = draft(row, system, size, lookup_tables, anyway=anyway)
    text = as_json(filled(config, catalogue(), lookup_tables) if full else config)
    options.print_or_write(
        text, output, f"; next: {command('estimate', '--config', output, *(['--anyway'] if anyway else []))}"
    )
