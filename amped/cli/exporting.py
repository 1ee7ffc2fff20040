"""`amped export`: a configuration as the launch line or the file of a framework."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from amped.cli import options


@options.with_chosen_scenario
def export(
    asked: options.Scenario,
    form: Annotated[str, Option("--for", metavar="FORMAT", help="Framework, as megatron.")],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write there instead of printing.")
    ] = None,
) -> None:
    """Write the launch line or the file that runs a configuration, each line with its reason.

    What the framework cannot express comes first. There are no paths of data in it.

    Example: amped export llama-3-70b --for megatron -o launch.sh
    """
    from amped.base.files import write_atomically
    from amped.estimation.estimation import Estimation, estimated
    from amped.interop.exporting import target

    options.refuse_existing(output, "--output")
    chosen = target(form)
    text = chosen.write(estimated(asked, Estimation))
    if output is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"written to {write_atomically(output, text)}: {chosen.title}")
