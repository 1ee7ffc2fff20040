"""What the time of a step depends on: elasticities, and the change with the next other values."""

from __future__ import annotations

from collections.abc import Iterator

from amped.report import human
from amped.report.axes_values import axis_label
from amped.report.page.content import Picture, Plain, Section, Table, said, table
from amped.sensitivities.effects import Effect, Sensitivity

# The most parameters of each kind that are shown.
TOP = 12


def sensitivity(analysis: Sensitivity) -> Section:
    """The section with the largest elasticities as bars, and the largest changes as a table."""
    title, result = "Sensitivity", axis_label(analysis.of)
    if not analysis.elasticities:
        return Section("sensitivity", title, said(f"No parameter that was varied changes the {result} smoothly."))
    first = analysis.elasticities[0]
    sentence = (f"One percent more of {axis_label(first.name)} changes the {result} by {first.elasticity:+.2f} %, which is the "
            "largest effect of all continuous parameters of the mapping, the system and the accelerator.")  # fmt: skip
    how = {"along": "parameter", "values": ["elasticity"], "kind_of": "kind"}
    picture = Picture("sensitivity", f"Elasticity of the {result}", "bars", sentence, _elasticities(analysis), how)
    return Section(
        "sensitivity",
        title,
        said(sentence),
        pictures=[picture],
        tables=[_changes(analysis)] if analysis.changes else [],
    )


def _elasticities(analysis: Sensitivity) -> Table:
    """A table of elasticities: the percent that the result grows for one percent more of each parameter."""
    columns = ("parameter", "kind", "told|value",
               "elasticity")  # fmt: skip
    rows = [
        (axis_label(e.name), e.kind, human.value(e.value, e.unit), e.elasticity) for e in analysis.elasticities[:TOP]
    ]
    return table(f"Percent more of {axis_label(analysis.of)} for one percent more of a parameter", columns, rows)


def _changes(analysis: Sensitivity) -> Table:
    """The change of the result with the next other values of counts, degrees and switches."""
    columns = ("parameter", "kind", "told|value", "tried",
               "change||share" if analysis.value else "change", "note")  # fmt: skip
    rows = [row for effect in analysis.changes[:TOP] for row in _trials(effect)]
    return table(
        f"Change of {axis_label(analysis.of)} with other values of counts, degrees and switches", columns, rows
    )


def _trials(effect: Effect) -> Iterator[tuple[Plain, ...]]:
    """The cells of each tried value of a parameter that has a result."""
    for trial in effect.told:
        note = "" if trial.fits_in_memory else "does not fit in memory"
        values = (human.value(value, effect.unit) for value in (effect.value, trial.value))
        yield axis_label(effect.name), effect.kind, *values, effect.change(trial), note
