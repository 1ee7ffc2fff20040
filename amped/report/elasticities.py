"""How a result changes with each parameter, as tables."""

from __future__ import annotations

from collections.abc import Iterator

from amped.report import human
from amped.report.tables import Part, drawn, table
from amped.sensitivities.effects import Effect, Sensitivity, Trial

NOTED = ("kind", "note")
BROKEN = ("parameter", "note")


@drawn
def sensitivity_tables(analysis: Sensitivity, top: int) -> Iterator[Part]:
    """Tables of elasticities, and of changes by other values; at most `top` lines of each, then footnotes."""
    fits = "" if analysis.fits_in_memory else " (does not fit in memory)"
    yield f"{analysis.title}\n{analysis.of}  {human.value(analysis.value, analysis.unit)}{fits}\n", "bold"
    for title, heads, effects, lines in (
        (f"Elasticities: percent more of {analysis.of} for one percent more of the parameter",
         ("parameter", "kind", "value", "elasticity", "note"), analysis.elasticities, _elasticity),
        (f"Counts, switches, lists and steps from zero: change of {analysis.of}",
         ("parameter", "kind", "value", "tried", "change", "note"), analysis.changes, _changes),
    ):  # fmt: skip
        if effects:
            yield f"{title}\n"
            rows = [line for effect in effects[:top] for line in lines(analysis, effect)]
            yield table(heads, rows, text=NOTED, wrapped=BROKEN)
            if len(effects) > top:
                yield f"… and {len(effects) - top} smaller (--top)", "dim"
            yield ""
    if not (analysis.elasticities or analysis.changes):
        yield f"No parameter that was varied changes {analysis.of}.\n"
    for line in _footnotes(analysis):
        yield line, "dim"


def change(analysis: Sensitivity, effect: Effect, trial: Trial) -> str:
    """The change of the result in a trial: in percent, or as a difference if the result is zero; a dash without a result."""
    if trial.result is None:
        return "-"
    size = effect.change(trial)
    sign = "-" if size < 0 else "+" if size > 0 else ""
    return sign + (_percent(abs(size)) if effect.base else human.value(abs(size), analysis.unit))


def _percent(share: float) -> str:
    """A share as a percentage; one below 1 % has two significant digits."""
    return human.percent(share) if share >= 0.01 or share == 0 else f"{share * 100:.2g} %"


def elasticity(effect: Effect) -> str:
    """The elasticity with its sign."""
    return f"{effect.elasticity or 0.0:+.4f}"


def _elasticity(analysis: Sensitivity, e: Effect) -> Iterator[tuple[str, ...]]:
    """The line of a continuous parameter, with its elasticity."""
    note = "; ".join(filter(None, (_shape(e), *(_fit(analysis, trial, _side(e, trial)) for trial in e.trials))))
    yield e.name, e.kind, human.value(e.value, e.unit), elasticity(e), note


def _changes(analysis: Sensitivity, e: Effect) -> Iterator[tuple[str, ...]]:
    """The lines of a parameter: one for each value that was tried."""
    head = (e.name, e.kind, human.value(e.value, e.unit))
    for trial in e.trials:
        remark = f"breaks {human.label(trial.broken)}" if trial.broken else _fit(analysis, trial, "")
        note = "; ".join(filter(None, (remark, _shape(e) if trial is e.trials[0] else "")))
        yield *head, human.value(trial.value, e.unit), change(analysis, e, trial), note
        head = ("", "", "")


def _shape(e: Effect) -> str:
    """A remark on the elasticity: a jump, a bend, or only one side; or the parameters that this one replaces."""
    if e.replaces:
        return f"in place of {', '.join(e.replaces)}"
    if e.jumps:
        return "jumps here"
    if e.varied != "relative":
        return ""
    if e.smooth is None:
        return "smaller values only" if e.elasticity_below is not None else "larger values only"
    return "" if e.smooth else f"bends here: {e.elasticity_below:+.3g} below, {e.elasticity_above:+.3g} above"


def _side(e: Effect, trial: Trial) -> str:
    """A phrase: whether the trial has less or more than the parameter's own value."""
    return " with less" if trial.value < e.value else " with more"


def _fit(analysis: Sensitivity, trial: Trial, side: str) -> str:
    """A remark if only one of the trial and the configuration fits in memory; else empty."""
    if trial.result is None or trial.fits_in_memory == analysis.fits_in_memory:
        return ""
    return f"fits{side}" if trial.fits_in_memory else f"does not fit{side}"


def _footnotes(analysis: Sensitivity) -> Iterator[str]:
    """Sentences on the method, on parameters without effect, and on those without another valid value."""
    step = f"{analysis.step * 100:g} %"
    yield f"differences of {step} down and up; degrees change on the same machine: the data-parallel degree adapts"
    if analysis.without_effect:
        yield f"no effect: {len(analysis.without_effect)} parameters (--json names them)"
    if analysis.stuck:
        names = ", ".join(
            f"{e.name} ({human.label(e.trials[0].broken)})" if e.trials else e.name for e in analysis.stuck
        )
        yield f"no other value that keeps the rules: {names}"
    yield "choices of formulas are not varied: `amped compare` tells what another one changes"
