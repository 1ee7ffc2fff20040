"""How a result changes with each parameter, as tables."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amped.report import human
from amped.sensitivities.effects import Effect, Sensitivity, Trial


def sensitivity_tables(found: Sensitivity, top: int) -> RenderableType:
    """Elasticities, changes by neighboring values and switches, and what changes nothing; the largest `top` of each."""
    fits = "" if found.fits_in_memory else " (does not fit in memory)"
    parts: list[RenderableType] = [
        Text(found.title, style="bold"), Text(f"{found.of}  {human.value(found.value, found.unit)}{fits}", style="bold"),
    ]  # fmt: skip
    smooth, others = found.elasticities, found.changes
    if smooth:
        told = f"Elasticities: percent more of {found.of} for one percent more of the parameter"
        parts += [Text(""), Text(told), Text(""), _elasticities(found, smooth[:top]), *_more(smooth, top)]
    if others:
        parts += [Text(""), Text(f"Counts, switches, lists and steps from zero: change of {found.of}"), Text(""),
                  _changes(found, others[:top]), *_more(others, top)]  # fmt: skip
    if not (smooth or others):
        parts += [Text(""), Text(f"No parameter that was varied changes {found.of}.")]
    return Group(*parts, Text(""), *(Text(line, style="dim") for line in _footnotes(found)))


def change(found: Sensitivity, effect: Effect, trial: Trial) -> str:
    """The change with a trial: a percentage, or the difference where the result is zero."""
    if trial.result is None:
        return "-"
    size = effect.change(trial)
    sign = "-" if size < 0 else "+" if size > 0 else ""
    return sign + (_percent(abs(size)) if effect.base else human.value(abs(size), found.unit))


def _percent(share: float) -> str:
    """A percentage; of a small one two digits."""
    return human.percent(share) if share >= 0.01 or share == 0 else f"{share * 100:.2g} %"


def elasticity(effect: Effect) -> str:
    """The elasticity with its sign."""
    return f"{effect.elasticity or 0.0:+.4f}"


def _elasticities(found: Sensitivity, effects: list[Effect]) -> Table:
    table = _table("parameter", "kind", "value", "elasticity", "note")
    for e in effects:
        note = "; ".join(filter(None, (_shape(e), *(_fit(found, t, _side(e, t)) for t in e.trials))))
        table.add_row(e.name, e.kind, human.value(e.value, e.unit), elasticity(e), note)
    return table


def _changes(found: Sensitivity, effects: list[Effect]) -> Table:
    table = _table("parameter", "kind", "value", "tried", "change", "note")
    for e in effects:
        head = (e.name, e.kind, human.value(e.value, e.unit))
        for trial in e.trials:
            told = f"breaks {human.label(trial.broken)}" if trial.broken else _fit(found, trial, "")
            note = "; ".join(filter(None, (told, _shape(e) if trial is e.trials[0] else "")))
            table.add_row(*head, human.value(trial.value, e.unit), change(found, e, trial), note)
            head = ("", "", "")
    return table


def _shape(e: Effect) -> str:
    """Whether the elasticity holds on both sides, and what the value takes the place of."""
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
    return " with less" if trial.value < e.value else " with more"


def _fit(found: Sensitivity, trial: Trial, where: str) -> str:
    """Whether memory suffices where it did not, or no more."""
    if trial.result is None or trial.fits_in_memory == found.fits_in_memory:
        return ""
    return f"fits{where}" if trial.fits_in_memory else f"does not fit{where}"


def _footnotes(found: Sensitivity) -> list[str]:
    lines = [
        f"differences of {found.step * 100:g} % down and up; degrees change on the same machine: data parallelism gives way"
    ]
    if found.without_effect:
        lines.append(f"no effect: {len(found.without_effect)} parameters (--json names them)")
    if found.stuck:
        told = ", ".join(f"{e.name} ({human.label(e.trials[0].broken)})" if e.trials else e.name for e in found.stuck)
        lines.append(f"no other value that keeps the rules: {told}")
    return [*lines, "choices of formulas are not varied: `amped compare` tells what another one changes"]


def _more(effects: list[Effect], top: int) -> list[Text]:
    rest = len(effects) - top
    return [Text(f"… and {rest} smaller (--top)", style="dim")] if rest > 0 else []


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        left = head in ("parameter", "kind", "note")
        table.add_column(
            head, justify="left" if left else "right", overflow="fold", no_wrap=head not in ("note", "parameter")
        )
    return table
