"""`amped phases`: a training in several phases, with the sum of its times and the memory of the largest."""

from __future__ import annotations

from pathlib import Path

import typer

from amped.base.errors import ConfigError
from amped.cli import options


@options.with_options
def phases(
    plan: Path | None = None, template: bool = False, lookup_tables: options.Folders = None, as_json: bool = False
) -> None:
    """Add up the phases of a training: pre-training, fine-tuning, preference optimization, distillation, given times.

    PLAN is a JSON object: settings that all phases share, and "phases", a list of objects with a "name", a "kind" (train, sft,
    dpo, distillation, reward_model) and settings of their own by amped's names; or with a "time" that was measured, for example of
    rollouts.

    Example: amped phases --template

    Options:
        plan PLAN: A JSON file.
        --template: Print a plan to start from.
    """
    from amped.drafting.phases import phased, read_plan
    from amped.drafting.phases import template as template_text

    if template:
        typer.echo(template_text(), nl=False)
        return
    if plan is None:
        raise ConfigError("no plan is given", "`amped phases --template > plan.json` writes one to start from")
    found = phased(read_plan(plan), lookup_tables)
    if as_json:
        options.show_json([phase.to_dict() for phase in found])
        return
    from amped.report.phasing import phasing

    options.show(phasing(found))
