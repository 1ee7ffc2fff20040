"""A recommendation, as one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.base.commands import broken, command
from amped.base.numbers import settable
from amped.drafting.recommendation import Limits, Recommendation, are_ranked_by_cost, costs_differ_by_list
from amped.estimation.order import range_of, tied
from amped.exploration.results import Row
from amped.report import human
from amped.report.axes_values import unit_of
from amped.report.screen import batch_in_words
from amped.report.tables import Part, drawn, table
from amped.report.width import columns
from amped.theory.nouns.parallelisms import PLACED

RESULTS = ("training_time", "cost", "model_flops_utilization", "memory_per_accelerator_bytes")
HEADS = ("system", "accelerators", "training", "cost", "MFU", "memory", "mapping")


@drawn
def recommendation(
    title: str, limits: Limits, systems: Sequence[Recommendation], words: Sequence[str]
) -> Iterator[Part]:
    """The fewest accelerators of each system, or with a budget alone the fastest machine, and a command for details of the first.

    `words` are the options that an estimate of the question needs besides the mapping.
    """
    wishes = [f"in {human.duration(limits.deadline)}"] if limits.deadline else []
    wishes += [f"for {human.value(limits.budget, 'dollar')}"] if limits.budget else []
    sought = "the fewest accelerators that train it" if limits.deadline else "the fastest machine that trains it"
    yield f"{title}: {sought} {' and '.join(wishes)}{_order(systems, limits)}\n", "bold"
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
        yield from _range(systems, limits)
        yield (
            f"\n{_tried(first, limits.deadline is not None)}\nmapping is {' x '.join(PLACED)}; not searched: {first.held}",
            "dim",
        )


def _order(systems: Sequence[Recommendation], limits: Limits) -> str:
    """By what the systems are sorted, in words; empty for a single one."""
    if len(systems) < 2:
        return ""
    if limits.deadline is None:
        return ", of each system, the fastest first"
    return " of each system, the cheapest first" if are_ranked_by_cost(systems) else ""


def _range(systems: Sequence[Recommendation], limits: Limits) -> Iterator[Part]:
    """Between which times and costs the first lies, and what would change the answer."""
    found = [(system.system, system.estimate) for system in systems if system.estimate]
    if limits.deadline is not None or not found:
        return
    (name, best), *others = found
    time, cost = range_of(best, "training_time"), range_of(best, "cost")
    days = f"{human.duration(time.low)} to {human.duration(time.high)}"
    money = f"{human.value(cost.low, 'dollar')} to {human.value(cost.high, 'dollar')}"
    yield f"\nRange of {name}: {days}, {money}."
    ties = {found[place][0] for place in tied([e for _, e in found], "training_time")}
    for other, e in others:
        longer = _longer(e["training_time"] / best["training_time"])
        within = ", which is within the error: a tie" if other in ties else ""
        yield f"Within the budget {other} takes {longer}{within}."
    if limits.budget and cost.high > limits.budget:
        yield "At the high end of its error and price it costs more than the budget.", "yellow"
    batch = f"its batch of {batch_in_words(best)}"
    if max(systems[0].sizes) == best["number_of_accelerators"]:
        yield f"Not the budget bounds it, but the largest size that was tried; and {batch}: --gbs takes another."
    else:
        yield f"More accelerators do not train it faster within the budget. What else would change it: {batch} (--gbs), and other prices (--cloud, --term)."


def _longer(factor: float) -> str:
    """How much longer something takes, in words: 12 % longer, or 4.2 times as long."""
    return f"{human.percent(factor - 1, 0)} longer" if factor < 2 else f"{human.digits(factor, 3)} times as long"


def _line(system: str, row: Row) -> list[str]:
    """The cells of a system: its accelerators, its results, and the degrees of its mapping."""
    degrees = " x ".join(f"{row[f'{kind}_parallel_degree']:g}" for kind in PLACED)
    results = (human.result(name, row[name], unit_of(name)) if name in row else "no price" for name in RESULTS)
    return [system, f"{row['number_of_accelerators']:,.0f}", *results, degrees]


def _none(system: Recommendation) -> str:
    """The reason why no size of a system meets the limits."""
    if not system.sizes:
        return "even at its peak it costs more than the budget"
    sizes = f"none of {len(system.sizes)} sizes from {system.sizes[0]:,} to {system.sizes[-1]:,} accelerators does"
    e = system.nearest
    if e is None:
        return sizes
    cost = f" for {human.value(e['cost'], 'dollar')}" if "cost" in e else ""
    time = human.duration(e["training_time"])
    return f"{sizes}; the nearest is {e['number_of_accelerators']:,.0f}, in {time}{cost}"


def _tried(system: Recommendation, is_for_time: bool) -> str:
    """Sentences on the sizes of the machine that were tried."""
    if not is_for_time:
        sizes = ", ".join(f"{size:,}" for size in system.sizes)
        return f"Sizes of {system.system} that were tried, in whole nodes: {sizes} accelerators."
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
