"""`amped scenario-summary`: charts of where the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from amped.cli import options

Picture = Literal["png", "svg"]


@options.bundled(given=options.changes)
def scenario_summary(
    given: dict[str, object],
    named_configs: list[str] | None = None,
    configs: list[str] | None = None,
    lookup_tables: options.Folders = None,
    output_dir: Path | None = None,
    form: Picture = "png",
) -> None:
    """Draw where the training time of a config goes as pie charts; several configs also as stacked bars.

    Example: amped scenario-summary default llama-3-70b --format svg

    Options:
        named_configs [CONFIG]...: Configs to draw; the same as --config.
        configs --config -c FILE|NAME: Config to draw; repeat it to compare several.
        form --format: png or svg.
    """
    from amped.configuring.scenario import read_scenario
    from amped.estimation.estimation import estimated
    from amped.report import plots

    names = [*(named_configs or ()), *(configs or ())] or ["default"]
    estimations = [estimated(read_scenario(config, given, lookup_tables)) for config in names]
    options.tell_notices(dict.fromkeys(notice for e in estimations for notice in e.scenario.sources.preliminary))
    files = [
        (f"scenario_summary_{Path(c).stem}.{form}", plots.pie_charts(e, form))
        for c, e in zip(names, estimations, strict=True)
    ]
    if len(estimations) > 1:
        files.append((f"scenario_comparison.{form}", plots.stacked_bars(estimations, form)))
    for path in options.write(output_dir, *files):
        typer.echo(f"written to {path}")
