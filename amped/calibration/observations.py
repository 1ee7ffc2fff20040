"""Observations: measured times, each with a function that gives the predicted time for some coefficients.

The step time in a row of a table of measurements is one observation. Measured kernels can be observations, too: the
median time of the kernel, with the family of its shapes as `group` and its own function of coefficients as `times`. A
fit does not need to know where an observation comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario
from amped.configuring.sources import LookedUp
from amped.engine.evaluate import Array
from amped.engine.resolve import plan
from amped.estimation.anchored import step_times
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
        start: the coefficients that the time depends on, with their values in the table.
        times: gives the predicted times for values of these coefficients: arrays of one length, by name.
        ground: what the error of the predicted time depends on; None for a kernel.
    """

    name: str
    group: str
    measured_time: float
    start: Mapping[str, float]
    times: Callable[[Mapping[str, Array]], Array] = field(repr=False)
    ground: Ground | None = None


def observed(measurement: Measurement, lookup_tables: LookupTables = None) -> tuple[Observation, Row]:
    """The step of a measurement as an observation, and the row of kernel efficiencies that the step uses.

    Raises:
        AmpedError: if the row cannot be modeled, if no time was measured, or if the row's confidence is low.
    """
    residual = next(
        (candidate for candidate in estimates_of([measurement], lookup_tables)[0][0] if candidate.of_time), None
    )
    if residual is None or residual.times is None:
        raise AmpedError(residual.reason if residual is not None and residual.reason else "no time was measured")
    if not residual.trusted:
        raise AmpedError(f"its inputs are known badly (confidence {measurement.confidence})")
    scenario = measurement.scenario(lookup_tables)
    start, times = _step_times(scenario)
    observation = Observation(
        measurement.id, network_of(scenario), residual.times[0], start=start, times=times, ground=residual.ground
    )
    return observation, scenario.sources.rows[KERNELS]


def network_of(scenario: Scenario) -> str:
    """The size of a network in words: its layers, their width, and its experts if there are several.

    Observations are grouped by it, so that networks of one size count as one, whatever their names.
    """
    given = scenario.sources.given
    shape = f"{given['layers']:g} layers of {given['dimensionality']:g}"
    experts = given.get("number_of_experts", 1)
    return f"{shape}, {experts:g} experts" if experts > 1 else shape


def _step_times(scenario: Scenario) -> tuple[dict[str, float], Callable[[Mapping[str, Array]], Array]]:
    """The coefficients that the time of a step depends on, and a function that gives the time for other values.

    The step is planned once.

    Returns:
        The values in the table by the name of the coefficient; and a function from arrays of values, by name, to times.
    """
    scenario = with_layout(scenario)
    step_plan = plan(scenario.catalogue, (TIME,), scenario.sources)
    sources = scenario.sources
    kernel_columns = {n for n, o in sources.origins.items() if isinstance(o, LookedUp) and o.row.table == KERNELS}
    start = {name: float(sources.given[name]) for name in step_plan.leaves if name in kernel_columns}

    def times(values: Mapping[str, Array]) -> Array:
        columns = {name: column for name, column in values.items() if name in start}
        return step_times(step_plan, sources.given, columns, len(next(iter(values.values()))))

    return start, times
