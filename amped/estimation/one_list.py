"""Costs are compared only where their prices are of one list: an accelerator costs several times as much at another provider."""

from __future__ import annotations

from collections.abc import Iterable

from amped.configuring.scenario import Scenario
from amped.estimation.estimation import Estimation
from amped.tables.prices import not_compared, prices
from amped.tables.table_files import user_folders
from amped.theory.language.quantity import ACCELERATOR


def costs_not_compared(estimations: Iterable[Estimation]) -> str:
    """Why the costs of some estimates are not compared; empty if their prices are of one list. One without a cost is left out."""
    return prices_not_compared(e.scenario for e in estimations if "cost" in e)


def prices_not_compared(scenarios: Iterable[Scenario]) -> str:
    """Why the costs of some scenarios are not compared; empty if their prices are of one list."""
    asked = [(s, price) for s in scenarios if (price := s.sources.price) is not None]
    folders = user_folders(asked[0][0].question.lookup_tables) if asked else ()
    return not_compared(((_accelerator(s), price) for s, price in asked), prices(folders))


def _accelerator(scenario: Scenario) -> str:
    """The name of the accelerator; the label of the scenario if it has no row."""
    row = scenario.sources.rows.get(ACCELERATOR)
    return row.name if row else scenario.label
