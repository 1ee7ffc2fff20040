"""`amped export`: a configuration as the launch line or the file of a framework."""

from __future__ import annotations

from pathlib import Path

from amped.cli import options


@options.with_chosen_scenario
def export(asked: options.Scenario, form: str, output: Path | None = None) -> None:
    """Write the launch line or the file that runs a configuration, each line with its reason.

    What the framework cannot express comes first. There are no paths of data in it.

    Example: amped export llama-3-70b --for megatron -o launch.sh

    Options:
        form --for FORMAT: Framework, as megatron.
        --output -o FILE: Write there instead of printing.
    """
    from amped.estimation.estimation import estimated
    from amped.interop.exporting import target

    options.refuse_existing(output, "--output")
    chosen = target(form)
    options.print_or_write(chosen.write(estimated(asked)), output, f": {chosen.title}")
