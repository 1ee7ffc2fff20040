"""`amped init`: writes a config to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amped.base.commands import command
from amped.base.errors import ConfigError
from amped.cli import options
from amped.theory.language.catalogue import catalogue


def init(
    model: str,
    system: str | None = None,
    nodes: int | None = None,
    gpus: int | None = None,
    full: bool = False,
    lookup_tables: options.Folders = None,
    anyway: bool = False,
    output: Path | None = None,
) -> None:
    """Write a config for a model on a system, with a mapping that fits; each parameter has a description.

    Example: amped init --model "Llama 3 8B" --system "DGX H100" --nodes 4 -o my.json

    Options:
        --model ROW|PATH: Row of `amped list models`, or a config.json.
        --system ROW: Nodes and networks (`amped list systems`).
        --nodes N 1..: Number of nodes; else one.
        --gpus N 1..: Number of accelerators.
        --full: Spell out every parameter, in AMPeD's style.
        --output -o FILE: Write there instead of printing.
    """
    from amped.configuring.config_writing import as_json
    from amped.drafting.draft import draft, filled
    from amped.interop.models import with_model

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
