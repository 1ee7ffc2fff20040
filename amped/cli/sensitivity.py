"""`amped sensitivity`: which parameters a result depends on."""

from __future__ import annotations

from pathlib import Path

from amped.cli import options


@options.with_chosen_scenario
def sensitivity(
    asked: options.Scenario,
    of: str = "step_time",
    kind: list[str] | None = None,
    step: float = 0.001,
    top: int = 20,
    as_json: bool = False,
    plot: bool = False,
    output_dir: Path | None = None,
) -> None:
    """Show which parameters a result depends on: how much it changes with each of them alone.

    Continuous parameters are varied a little down and up, and their elasticity is shown; counts and degrees take the
    next values that keep every rule, those of a machine the next halves and doubles; switches are flipped. A list in
    the config is tried; its first value is the configuration's own. The kinds are mapping, system and accelerator (all
    three by default), model and experiment.

    Example: amped sensitivity --of training_time --model "Llama 3 70B" --system "DGX H100" --gpus 512 --top 10

    Options:
        --of RESULT: Any quantity that is a number.
        --kind KIND: Vary only this kind; repeatable.
        --step SHARE: Share by which numbers are varied.
        --top K 1..1000: How many to show; --json has all.
        as_json --json: Print all effects as JSON.
        --plot: Draw a tornado plot, sensitivity.png.
    """
    from amped.sensitivities.analysis import HARDWARE_AND_MAPPING, analyzed

    options.tell_names(of)
    analysis = analyzed(asked, of, kind or HARDWARE_AND_MAPPING, step)
    options.tell_notices(asked.sources.notices)
    if as_json:
        options.show_json(analysis.to_dict())
    else:
        from amped.report.elasticities import sensitivity_tables

        options.show(sensitivity_tables(analysis, top))
    if plot:
        from amped.report.tornado import tornado_plot

        options.write_and_tell(output_dir, ("sensitivity.png", tornado_plot(analysis, top)))
