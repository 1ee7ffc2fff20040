"""The space that a question asks to search, refused where it is empty or very large."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

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
    search = Search(Request(scenario.question, vary or {}, options))
    if search.candidates > MOST and not options.yes:
        hours = _expected_hours(search)
        raise ConfigError(
            f"the space has {search.candidates:,} candidates, which take about {hours:,.1f} hours on one core",
            "--yes explores them all the same; fewer values or --set make it smaller",
        )
    return search


def _expected_hours(search: Search) -> float:
    """The hours that one core would take to explore a space, estimated from the time that its first part takes."""
    started, part = time.perf_counter(), next(search.listed())
    search.evaluate(part)
    return search.candidates / part.candidates * (time.perf_counter() - started) / 3600
