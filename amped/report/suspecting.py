"""What would have to be different for a measured step, on the screen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from amped.base.commands import set_option
from amped.base.numbers import settable
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.report.screen import heading
from amped.report.tables import Part, drawn
from amped.report.waterfall import causes, lines
from amped.report.width import columns, wrapped
from amped.sensitivities.suspects import Suspect

INDENT = "   "
EACH = "What each of these alone would explain of it, the least surprising first:"
NOTHING = "No parameter that was tried explains a tenth of the difference alone."


@drawn
def suspected(e: Estimation, measured: float, found: Sequence[Suspect]) -> Iterator[Part]:
    """The measured step beside the estimate, what the estimate is made of, and suspects that would explain the step."""
    yield from heading(e)
    yield from ((notice, "yellow") for notice in e.scenario.sources.preliminary)
    yield ""
    yield "\n".join(wrapped(causes(e), columns())) + "\n"
    yield from lines(e)
    yield ""
    yield "\n".join(wrapped(_beside(e, measured), columns())) + "\n"
    yield f"{EACH}\n" if found else NOTHING
    for place, suspect in enumerate(found, 1):
        yield "\n".join(_lines(place, suspect))


def _beside(e: Estimation, measured: float) -> str:
    """A sentence on the measured step and the estimate, and whether the band of the estimate holds the step."""
    ratio, band = measured / e["step_time"], e.error_band
    much = f"{human.percent(abs(ratio - 1), 0)} {'longer' if ratio > 1 else 'shorter'} than the estimate"
    inside = band is not None and max(ratio, 1 / ratio) <= 1 + band.error_fraction
    held = (
        ", which its error band still holds" if inside and band is not None and band.error_fraction < math.inf else ""
    )
    return f"Measured: {human.duration(measured)} a step, {much} ({human.duration(e['step_time'])}){held}."


def _lines(place: int, suspect: Suspect) -> Iterator[str]:
    """The lines of a suspect: what would be wrong, what it explains, and what would show it."""
    value = suspect.value if isinstance(suspect.value, str | bool) else settable(float(f"{suspect.value:.3g}"))
    yield from wrapped(f"{place}. {suspect.wrong}", columns())
    told = f"{human.percent(suspect.explained, 0)} of the difference: {human.duration(suspect.step_time)} a step"
    for text in (f"{told} with {set_option(suspect.name, value)}", f"shown by {suspect.shows}"):
        yield from (INDENT + line for line in wrapped(text, columns() - len(INDENT)))
