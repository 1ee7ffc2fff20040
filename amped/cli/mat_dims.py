"""`amped mat-dims`: matrix dimensions for DeepFlow."""

from __future__ import annotations

from pathlib import Path

import typer

from amped.cli import options


@options.with_chosen_scenario
def mat_dims(asked: options.Scenario, output_dir: Path | None = None) -> None:
    """Print the matrix dimensions of one layer in DeepFlow's format, and write them to mat_dims.txt.

    Example: amped mat-dims --model "GPT-3 175B" --output-dir deepflow
    """
    from amped.estimation.estimation import estimated
    from amped.report.text import mat_dims as dimensions

    content = dimensions(estimated(asked))
    typer.echo(content, nl=False)
    options.write_and_tell(output_dir, ("mat_dims.txt", content))
