"""A training in phases, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.drafting.phases import Phase
from amped.report import human
from amped.report.screen import mapping_in_words
from amped.report.tables import Part, drawn, table

HEADS = ("phase", "kind", "time", "step", "memory", "cost", "mapping")


@drawn
def phasing(phases: Sequence[Phase]) -> Iterator[Part]:
    """A line for each phase, and one for all: the sum of the times, the memory of the largest, the sum of known costs."""
    costs = [phase.cost for phase in phases]
    known = sum(cost for cost in costs if cost is not None)
    cost = human.value(known, "dollar") + (" and more" if None in costs else "") if known else "no price"
    largest = max(phases, key=lambda phase: phase.memory)
    total = ("all", "", human.duration(sum(phase.time for phase in phases)), "", _memory(largest), cost, "")
    yield table(HEADS, [*map(_line, phases), total], ("kind", "mapping"), ("kind", "mapping"))
    yield ""
    for phase in phases:
        if not phase.fits:
            yield f"{phase.name} does not fit: {_memory(phase)}", "bold red"
        elif phase.notes:
            took = f", {human.duration(phase.beside)} of its time" if phase.beside else ""
            yield f"{phase.name}: {phase.notes}{took}", "dim"


def _memory(phase: Phase) -> str:
    """The memory of a phase and what there is; empty if its time is given."""
    return f"{phase.memory / human.GIGA:.1f} of {phase.available / human.GIGA:.0f} GB" if phase.available else ""


def _line(phase: Phase) -> list[str]:
    """The cells of a phase."""
    e, cost = phase.estimate, phase.cost
    if e is None:
        return [phase.name, "given", human.duration(phase.time), "", "", "", ""]
    step = human.duration(e["step_time"] + phase.beside / max(e["number_of_steps"], 1))
    price = "no price" if cost is None else human.value(cost, "dollar")
    return [phase.name, phase.kind, human.duration(phase.time), step, _memory(phase), price, mapping_in_words(e)]
