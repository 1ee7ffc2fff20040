"""`amped sensitivity`: which parameters a result depends on."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from amped.cli import options

KINDS_HELP = "Vary only this kind; repeatable."
OfOption = Annotated[str, Option("--of", metavar="RESULT", help="Any quantity that is a number.")]
KindOption = Annotated[list[str] | None, Option("--kind", metavar="KIND", help=KINDS_HELP)]
StepOption = Annotated[float, Option("--step", metavar="SHARE", help="Share by which numbers are varied.")]
TopOption = Annotated[int, Option("--top", min=1, max=1000, metavar="K", help="How many to show; --json has all.")]


@options.with_chosen_scenario
def sensitivity(
    asked: options.Scenario,
    of: OfOption = "step_time",
    kind: KindOption = None,
    step: StepOption = 0.001,
    top: TopOption = 20,
    as_json: Annotated[bool, Option("--json", help="Print all effects as JSON.")] = False,
    plot: Annotated[bool, Option("--plot", help="Draw a tornado plot, sensitivity.png.")] = False,
    output_dir: options.OutputOption = None,
) -> None:
    """Show which parameters a result depends on: how much it changes with each of them alone.

    Continuous parameters are varied a little down and up, and their elasticity is shown; counts and degrees take the
    next values that keep every rule, those of a machine the next halves and doubles; switches are flipped. A list in
    the config is tried; its first value is the configuration's own. The kinds are mapping, system and accelerator (all
    three by default), model and experiment.

    Example: amped sensitivity --of training_time --model "Llama 3 70B" --system "DGX H100" --gpus 512 --top 10
    """
    from amped.sensitivities.analysis import HARDWARE_AND_MAPPING, analyzed

    options.tell_names(of)
    found = analyzed(asked, of, kind or HARDWARE_AND_MAPPING, step)
    options.tell_notices(asked.sources.notices)
    if as_json:
        options.show_json(found.to_dict())
    else:
        from amped.report.elasticities import sensitivity_tables

        options.show(sensitivity_tables(found, top))
    if plot:
        from amped.report.tornado import tornado_plot

        options.write_and_tell(output_dir, ("sensitivity.png", tornado_plot(found, top)))
