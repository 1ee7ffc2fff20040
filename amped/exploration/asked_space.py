"""The space that a question asks to search, refused where it is empty or very large."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from amped.base.errors import ConfigError
from amped.configuring.scenario import Scenario
from amped.exploration.request import Options, Request
from amped.exploration.search import Search

# Above this number of candidates, an exploration needs --yes.
MOST = 20_000_000_000


def searched(scenario: Scenario, options: Options, vary: Mapping[str, Sequence[object]] | None = None) -> Search:
    """The space to explore; the arguments are those of `explored`.

    Raises:
        ConfigError: for an impossible sweep, for an empty space, or for a very large one without `yes`.
    """
    search = Search(Request(scenario.question, _as_tuples(vary or {}), options))
    if search.candidates > MOST and not options.yes:
        raise ConfigError(_too_many(search), "--yes explores them all the same; fewer values or --set make it smaller")
    return search


def _too_many(search: Search) -> str:
    """The size of a space, and the time that it would take, estimated from its first part."""
    started, part = time.perf_counter(), next(search.listed())
    search.evaluate(part)
    hours = search.candidates / part.candidates * (time.perf_counter() - started) / 3600
    return f"the space has {search.candidates:,} candidates, which take about {hours:,.1f} hours on one core"


def _as_tuples(vary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(values) if isinstance(values, list) else values for name, values in vary.items()}
