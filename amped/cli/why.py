"""`amped why`: what slows a configuration down, and what would make it faster."""

from __future__ import annotations

from amped.cli import options


@options.with_chosen_scenario
def why(asked: options.Scenario, top: int = 3, as_json: bool = False) -> None:
    """Say what a step waits for, and which single changes make it faster.

    Each change is estimated by itself; those that do not fit in memory are left out. `amped explore` changes several
    parameters at once. Where recipes of the software are known, what they switch on follows step by step.

    Example: amped why --model "Llama 3 70B" --system "DGX A100" --gpus 64

    Options:
        --top K 1..: How many changes to show.
    """
    from dataclasses import asdict

    from amped.drafting.improvements import improvements
    from amped.estimation.estimation import estimated
    from amped.estimation.manners import road

    estimate = estimated(asked)
    changes, steps = improvements(asked, estimate), road(estimate)
    if as_json:
        options.show_json({
            "step_time": estimate["step_time"], "changes": [asdict(change) for change in changes],
            "recipe": [asdict(step) for step in steps],
        })  # fmt: skip
    else:
        from amped.report.why import reasons

        options.show(reasons(estimate, changes[:top], len(changes), steps))
