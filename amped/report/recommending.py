"""A recommendation, as one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.base.commands import broken, command
from amped.base.numbers import settable
from amped.drafting.recommendation import Limits, Recommendation, are_ranked_by_cost, costs_differ_by_list
from amped.exploration.results import Row
from amped.report import human
from amped.report.axes_values import unit_of
from amped.report.tables import Part, drawn, table
from amped.report.width import columns
from amped.theory.nouns.parallelisms import PLACED

RESULTS = ("training_time", "cost", "model_flops_utilization", "memory_per_accelerator_bytes")
HEADS = ("system", "accelerators", "training", "cost", "MFU", "memory", "mapping")


@drawn
def recommendation(
    title: str, limits: Limits, systems: Sequence[Recommendation], words: Sequence[str]
) -> Iterator[Part]:
    """The fewest accelerators of each system, the cheapest system first, and a command for details of the first.

    `words` are the options that an estimate of the question needs besides the mapping.
    """
    wishes = [f"in {human.duration(limits.deadline)}"] if limits.deadline else []
    wishes += [f"for {human.value(limits.budget, 'dollar')}"] if limits.budget else []
    order = " of each system, the cheapest first" if len(systems) > 1 and are_ranked_by_cost(systems) else ""
    yield f"{title}: the fewest accelerators that train it {' and '.join(wishes)}{order}\n", "bold"
    if any(system.row for system in systems):
        yield table(HEADS, [_line(system.system, system.row) for system in systems if system.row], ("mapping",))
    for system in systems:
        if system.row is None:
            yield f"{system.system}: {_none(system)}", "bold red"
    yield from ((notice, "yellow") for notice in dict.fromkeys(n for system in systems for n in system.notices))
    if reason := costs_differ_by_list(systems):
        yield reason, "yellow"
    first = systems[0]
    if first.row is not None:
        yield "\n" + "\n".join(broken(command("estimate", *words, *_settings(first, words)), columns()))
        if limits.deadline is None:
            yield "\nMore accelerators train faster, for about as much: --deadline says how fast it must be."
        yield f"\n{_tried(first)}\nmapping is {' x '.join(PLACED)}; not searched: {first.held}", "dim"


def _line(system: str, row: Row) -> list[str]:
    """The cells of a system: its accelerators, its results, and the degrees of its mapping."""
    degrees = " x ".join(f"{row[f'{kind}_parallel_degree']:g}" for kind in PLACED)
    results = (human.result(name, row[name], unit_of(name)) if name in row else "no price" for name in RESULTS)
    return [system, f"{row['number_of_accelerators']:,.0f}", *results, degrees]


def _none(system: Recommendation) -> str:
    """The reason why no size of a system meets the limits."""
    if not system.sizes:
        return "even at its peak it costs more than the budget"
    return f"none of {len(system.sizes)} sizes from {system.sizes[0]:,} to {system.sizes[-1]:,} accelerators does"


def _tried(system: Recommendation) -> str:
    """Sentences on the sizes of the machine that were tried."""
    if len(system.sizes) == 1:
        return "One size was tried, in whole nodes: the smallest that could be fast enough at its peak rate."
    return (f"{len(system.sizes)} sizes of {system.system} were tried, from {system.sizes[0]:,} accelerators to this one, in whole nodes. No smaller "
            "size that was tried is enough.")  # fmt: skip


def _settings(system: Recommendation, words: Sequence[str]) -> list[str]:
    """The options that set the machine and the mapping; settings that `words` already hold are left out."""
    names = {word.partition("=")[0].strip() for word in words}
    texts = {
        name: settable(setting) if isinstance(setting, float) else str(setting)
        for name, setting in system.settings.items()
        if name not in names
    }
    size = ["--system", system.system, "--gpus", str(texts.pop("number_of_accelerators"))]
    return size + [word for name, value in texts.items() for word in ("--set", f"{name}={value}")]
