"""Observations: measured times, each with a function that gives the predicted time for some coefficients.

The step time in a row of a table of measurements is one observation. Measured kernels can be observations, too: the
median time of the kernel, with the family of its shapes as `group` and its own function of coefficients as `times`. A
fit does not need to know where an observation comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario
from amped.configuring.sources import LookedUp
from amped.engine.axes import JointAxis
from amped.engine.evaluate import NO_TUPLES, Array, run
from amped.engine.resolve import Plan, plan
from amped.estimation.estimation import with_layout
from amped.estimation.validated import Ground
from amped.tables.table_files import KERNELS, LookupTables
from amped.tables.tables import Row
from amped.validation.measurements import TIME, Measurement
from amped.validation.residuals import estimates_of


@dataclass(frozen=True)
class Observation:
    """One measured time.

    Attributes:
        name: the name of the row or record.
        group: observations of one group are left out together when a fit is tested on observations that it has not
            seen.
        measured_time: the measured time in seconds; a measured rate is converted to a time.
        start: the coefficients that it depends on, with their values in the table.
        times: gives the predicted times for coefficients, which are arrays of one length.
        ground: what the error of its prediction depends on; None for a kernel.
    """

    name: str
    group: str
    measured_time: float
    start: Mapping[str, float]
    times: Callable[[Mapping[str, Array]], Array] = field(repr=False)
    ground: Ground | None = None


def observed(m: Measurement, lookup_tables: LookupTables = None) -> tuple[Observation, Row]:
    """The step of a measurement as an observation, and the row of kernel efficiencies that it uses.

    Raises:
        AmpedError: if the row cannot be modeled, if no time was measured, or if its inputs are known badly.
    """
    timed = next((r for r in estimates_of([m], lookup_tables)[0][0] if r.of_time), None)
    if timed is None or timed.times is None:
        raise AmpedError(timed.reason if timed is not None and timed.reason else "no time was measured")
    if not timed.trusted:
        raise AmpedError(f"its inputs are known badly (confidence {m.confidence})")
    scenario = m.scenario(lookup_tables)
    start, times = _step_times(scenario)
    observation = Observation(m.id, network_of(scenario), timed.times[0], start=start, times=times, ground=timed.ground)
    return observation, scenario.sources.rows[KERNELS]


def network_of(scenario: Scenario) -> str:
    """A network by its size, so that its name does not matter."""
    given = scenario.sources.given
    shape = f"{given['layers']:g} layers of {given['dimensionality']:g}"
    experts = given.get("number_of_experts", 1)
    return f"{shape}, {experts:g} experts" if experts > 1 else shape


def _step_times(scenario: Scenario) -> tuple[dict[str, float], Callable[[Mapping[str, Array]], Array]]:
    """The coefficients that a step's time depends on, and this time as a function of them. It is planned once."""
    scenario = with_layout(scenario)
    chosen = plan(scenario.catalogue, (TIME,), scenario.sources)
    sources = scenario.sources
    of_kernels = {n for n, o in sources.origins.items() if isinstance(o, LookedUp) and o.row.table == KERNELS}
    start = {name: float(sources.given[name]) for name in chosen.leaves if name in of_kernels}

    def times(values: Mapping[str, Array]) -> Array:
        columns = {name: column for name, column in values.items() if name in start}
        return step_times(chosen, sources.given, columns, len(next(iter(values.values()))))

    return start, times


def step_times(of: Plan, given: Mapping[str, Any], columns: Mapping[str, Array], length: int) -> Array:
    """The times of a planned step for so many settings: the columns have a value for each, the rest is given."""
    joint = JointAxis(columns, worthwhile=0.0) if columns else NO_TUPLES
    return np.broadcast_to(run(of, given, joint, keep=frozenset({TIME}))[TIME].reshape(-1), (length,))
