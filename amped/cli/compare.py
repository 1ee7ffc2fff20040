"""`amped compare`: two configurations side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from typer import Argument, Option

from amped.cli import options


@options.bundled(given=options.changes)
def compare(
    given: dict[str, object],
    one: Annotated[str, Argument(metavar="A", help="Config file or shipped config.")],
    other: Annotated[str | None, Argument(metavar="B", help="Another config; by default A, changed.")] = None,
    lookup_tables: options.TablesOption = None,
    as_json: Annotated[bool, Option("--json", help="Print the differences as JSON.")] = False,
    old_names: options.OldNamesOption = False,
) -> None:
    """Compare two configs: what differs in their inputs and in their results.

    The options of the config and of the mapping change B. A change of batch, sequence, tokens or precision is listed as
    another experiment, not as another mapping.

    Example: amped compare default --set network_kind=optical_circuit_switched
    """
    options.print_old_names(old_names)
    from amped.base.errors import ConfigError
    from amped.configuring.scenario import read_scenario
    from amped.estimation.comparison import inputs_that_differ, results
    from amped.estimation.estimation import Estimation, estimated

    if other is None and not given:
        raise ConfigError("there is nothing to compare with", "name another config, or change this one: --tp 4")
    asked = (read_scenario(one, {}, lookup_tables), read_scenario(other or one, given, lookup_tables))
    both = [estimated(scenario, Estimation) for scenario in asked]
    if as_json:
        found = {"inputs": inputs_that_differ(*both), "results": results(*both)}
        options.show_json({name: [asdict(each) for each in differences] for name, differences in found.items()})
        return
    from amped.report.comparing import comparison

    options.show(comparison(*both))
