"""`amped scenario-summary`: charts of where the time goes."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from amped.cli import options


class Picture(enum.StrEnum):
    """Formats of a plot."""

    PNG = "png"
    SVG = "svg"


def scenario_summary(
    named_configs: Annotated[
        list[str] | None, typer.Argument(metavar="[CONFIG]...", help="Configs to draw; the same as --config.")
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="FILE|NAME", help="Config to draw; repeat it to compare several."),
    ] = None,
    lookup_tables: options.TablesOption = None,
    output_dir: options.OutputOption = None,
    form: Annotated[Picture, typer.Option("--format", help="png or svg.")] = Picture.PNG,
) -> None:
    """Draw where the training time of a config goes as pie charts; several configs also as stacked bars.

    Example: amped scenario-summary default llama-3-70b --format svg
    """
    from amped.base.files import free_stamp, output_file, write_atomically
    from amped.configuring.scenario import read_scenario
    from amped.estimation.estimation import Estimation, estimated
    from amped.report import plots

    asked = [*(named_configs or ()), *(configs or ())] or ["default"]
    found = [estimated(read_scenario(config, {}, lookup_tables), Estimation) for config in asked]
    folder = output_dir or options.DEFAULT_FOLDER
    drawn = [
        (f"scenario_summary_{Path(c).stem}", plots.pie_charts(e, form.value)) for c, e in zip(asked, found, strict=True)
    ]
    if len(found) > 1:
        drawn.append(("scenario_comparison", plots.stacked_bars(found, form.value)))
    stamp = free_stamp(folder, [f"{name}.{form.value}" for name, _ in drawn])
    for name, picture in drawn:
        path = write_atomically(output_file(folder, f"{name}.{form.value}", stamp), picture)
        typer.echo(f"written to {path}")
