"""`amped compare`: two configurations side by side."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from amped.cli import options


def compare(
    one: Annotated[str, typer.Argument(metavar="A", help="Config file or shipped config.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    lookup_tables: options.TablesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON.")] = False,
) -> None:
    """Compare two configs: what differs in their inputs and in their results.

    A change of batch, sequence, tokens or precision is told as another experiment, not another mapping of the same.

    Example: amped compare default megatron-145.6B
    """
    from amped.comparison import inputs_that_differ, results
    from amped.estimation import Estimation, estimated
    from amped.scenario import read_scenario

    both = [estimated(read_scenario(config, {}, lookup_tables), Estimation) for config in (one, other)]
    if as_json:
        found = {"inputs": inputs_that_differ(*both), "results": results(*both)}
        typer.echo(json.dumps({k: [dataclasses.asdict(d) for d in v] for k, v in found.items()}, indent=1))
        return
    from amped.report.comparing import comparison

    options.show(comparison(*both))
