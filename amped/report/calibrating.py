"""A table of a calibration: each coefficient before and after, and the errors of the rows in the fit and left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.calibration.anchor import Anchored, label
from amped.calibration.calibrate import MOST_LOSS, Calibration
from amped.calibration.coefficients import MOST_OF_AN_ACCELERATOR, Coefficient
from amped.calibration.kernel_fit import KernelFit
from amped.calibration.written import as_written
from amped.report import human
from amped.report.tables import Part, drawn, table
from amped.report.validating import signed

# A coefficient that moves by more than this many standard deviations probably makes up for something else.
FAR = 2.0
# How many runs have a line.
MOST_RUNS = 20


@drawn
def calibration(c: Calibration) -> Iterator[Part]:
    """The result of the calibration of one accelerator."""
    yield f"{c.accelerator.name}, extending row '{c.base.name}'", "bold"
    heads = ("coefficient", "before", "fitted", "lowest", "highest", "moved")
    yield table(heads, (_line(c, coefficient) for coefficient in c.coefficients))
    yield ""
    yield from _remarks(c)
    yield ""
    yield from _runs(c)


def _runs(c: Calibration) -> Iterator[Part]:
    """The lines of the runs: measured and predicted times before and after the fit; and the band of such runs."""
    heads = ("step of run", "measured", "before", "after", "error", "without it")
    lines = [
        (run.name, *(human.duration(time) for time in (run.measured, run.before, run.after)),
         signed(run.after / run.measured - 1), signed(run.error))
        for run in c.runs[:MOST_RUNS]
    ]  # fmt: skip
    yield table(heads, lines, wrapped=heads[:1])
    if len(c.runs) > MOST_RUNS:
        yield f"… and {len(c.runs) - MOST_RUNS} further runs (--json)", "dim"
    if c.own_error_fraction is not None:
        seen = "its network" if c.sizes > 1 else "it"
        yield (f"\nestimates of runs like these: ± {human.percent(c.own_error_fraction)} (80 % of runs; each run predicted by a fit "
                   f"that has not seen {seen})")  # fmt: skip
    yield ""


def _line(c: Calibration, coefficient: Coefficient) -> tuple[str, ...]:
    """The cells of a coefficient: before and after the fit, its bounds, and how far it moved."""
    numbers = (c.before[coefficient.name], c.values[coefficient.name], coefficient.lowest, coefficient.highest)
    values = (as_written(coefficient.name, number) for number in numbers)
    cells = (human.digits(value) if isinstance(value, float) else value for value in values)
    return coefficient.name, *cells, f"{moved(c, coefficient):+.1f}"


def moved(c: Calibration, coefficient: Coefficient) -> float:
    """The change of a coefficient by the fit, in standard deviations of the knowledge before the fit."""
    return (c.values[coefficient.name] - c.before[coefficient.name]) / coefficient.doubt


def _remarks(c: Calibration) -> Iterator[str]:
    """Lines on the errors of a calibration, on values that were not fitted, and warnings."""
    yield (f"mean absolute error of the step's time over {len(c.used)} rows: {human.percent(c.error_before)} before, "
           f"{human.percent(c.error_after)} after")  # fmt: skip
    yield _left_out(c)
    yield f"{len(c.values)} of at most {MOST_OF_AN_ACCELERATOR} numbers fitted; not determined by these rows: {', '.join(c.unseen) or 'none'}"
    yield from (f"not fitted to {name}: {reason}" for name, reason in c.left_out.items())
    yield from warnings(c)


@drawn
def anchor(anchored: Anchored) -> Iterator[Part]:
    """The coefficients that one measured layer gives, and its measured and predicted times."""
    yield f"anchored on {label(anchored.content)}", "bold"
    heads = ("coefficient", "row", "before", "anchored")
    rows = [(name, f"{anchored.rows[table_name]}", human.digits(anchored.before[name]), human.digits(value))
            for table_name, values in anchored.values.items() for name, value in values.items()]  # fmt: skip
    yield table(heads, rows)
    yield ""
    yield table(
        ("time", "measured", "before", "anchored"),
        ((what, *(human.value(seconds, "s") for seconds in values)) for what, values in anchored.parts.items()),
    )
    for name in anchored.held:
        yield f"warning: no value of {name} gives the measured time: it is at its limit, or something else limits these kernels (tensors that stay in a cache, or what amped does not model)"


def _left_out(c: Calibration) -> str:
    """A line on the error for a network that the fit has not seen."""
    if c.error_left_out is None:
        return "leaving one network out: all rows are of one network, so that the error for another one is unknown"
    return (
        f"leaving one network out: {human.percent(c.error_left_out)}, {c.loss or 0.0:.2f} times the error of the fit "
        f"({c.sizes} networks)"
    )


def warnings(c: Calibration) -> Iterator[str]:
    """Sentences with the reasons not to trust a fit."""
    if c.loss is not None and c.loss > MOST_LOSS:
        yield f"warning: more than {MOST_LOSS} times: what was fitted does not hold well for other networks"
    far = [coefficient.name for coefficient in c.coefficients if abs(moved(c, coefficient)) > FAR]
    if far:
        yield (f"warning: moved by more than {FAR:g} standard deviations of what was known; these may make up for "
               f"something else: {', '.join(far)}")  # fmt: skip
    if c.at_bound:
        yield f"warning: held by its bound: {', '.join(c.at_bound)}"


@drawn
def kernel_fits(fits: Sequence[KernelFit]) -> Iterator[Part]:
    """The coefficients of each family of measured kernels, and their errors for shapes outside of the fit."""
    for fit in fits:
        yield f"{', '.join(fit.accelerators)}, {fit.family}", "bold"
        yield table(
            ("coefficient", "value"), [(name, str(as_written(name, value))) for name, value in fit.values.items()]
        )
        fastest = ", ".join(f"{precision}: {name}" for precision, name in fit.fastest.items())
        yield f"{fit.told}\nlibraries that stand for the accelerator: {fastest}\n"
