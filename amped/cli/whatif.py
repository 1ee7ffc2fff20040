"""`amped whatif`: a configuration beside itself, changed."""

from __future__ import annotations

import functools
from typing import Any

from amped.base.errors import ConfigError
from amped.cli import options

Both = tuple[options.Scenario, options.Scenario]


@functools.wraps(options.asked)
def read_twice(**given: Any) -> Both:
    """The scenario without the values of --set, and the same scenario with them.

    Raises:
        ConfigError: if --set gives no value.
    """
    from amped.configuring.scenario import asked_again

    change = options.overrides(given["settings"] or [])
    if not change:
        raise ConfigError(
            "there is no change", "say one with --set NAME=VALUE; options such as --tp are of the configuration itself"
        )
    base = options.read_or_choose(**given | {"settings": None})
    return base, asked_again(base.question, change)


@options.bundled(both=read_twice)
def whatif(both: Both, every: bool = False, as_json: bool = False) -> None:
    """Show what a change does: one configuration beside itself, with the values of --set.

    Everything but the change stays as it is, also what amped chose.

    Example: amped whatif --model "Llama 3 70B" --system "DGX H100" --gpus 64 --set matrix_precision=fp8

    Options:
        every --all: Show all results.
    """
    from amped.estimation.comparison import as_json as differences
    from amped.estimation.estimation import estimated

    one, other = (estimated(scenario) for scenario in both)
    if as_json:
        options.show_json(differences(one, other))
        return
    from amped.report.comparing import changed, comparison

    options.show(comparison(one, other) if every else changed(one, other))
