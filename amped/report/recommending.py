"""A recommendation, as one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.base.commands import broken, command
from amped.base.numbers import settable
from amped.drafting.recommendation import Limits, Recommendation
from amped.report import human
from amped.report.tables import Part, drawn, table
from amped.report.width import columns
from amped.theory.nouns.parallelisms import PLACED

HEADS = ("system", "accelerators", "training", "cost", "MFU", "memory", "mapping")


@drawn
def recommendation(title: str, limits: Limits, found: Sequence[Recommendation], words: Sequence[str]) -> Iterator[Part]:
    """The fewest accelerators of each system, the cheapest system first, and a command that tells more about the first.

    `words` are the options that an estimate of the question needs besides the mapping.
    """
    asked = [f"in {human.duration(limits.deadline)}"] if limits.deadline else []
    asked += [f"for {human.value(limits.budget, 'dollar')}"] if limits.budget else []
    order = (
        " of each system, the cheapest first"
        if len(found) > 1 and all("cost" in each.row for each in found if each.row)
        else ""
    )
    yield f"{title}: the fewest accelerators that train it {' and '.join(asked)}{order}\n", "bold"
    if any(each.row for each in found):
        yield table(HEADS, [_line(each) for each in found if each.row], ("mapping",))
    for each in found:
        if each.row is None:
            yield f"{each.system}: {_none(each)}", "bold red"
    first = found[0]
    if first.row is not None:
        yield "\n" + "\n".join(broken(command("estimate", *words, *_settings(first, words)), columns()))
        if limits.deadline is None:
            yield "\nMore accelerators train faster, for about as much: --deadline says how fast it must be."
        yield f"\n{_tried(first)}\nmapping is {' x '.join(PLACED)}; not searched: {first.held}", "dim"


def _line(each: Recommendation) -> list[str]:
    row = each.row or {}
    degrees = " x ".join(f"{row[f'{kind}_parallel_degree']:g}" for kind in PLACED)
    cost = human.value(row["cost"], "dollar") if "cost" in row else "no price"
    return [
        each.system, f"{row['number_of_accelerators']:,.0f}", human.duration(row["training_time"]), cost,
        human.percent(row["model_flops_utilization"]), human.value(row["memory_per_accelerator_bytes"], "byte"), degrees,
    ]  # fmt: skip


def _none(each: Recommendation) -> str:
    """The reason why a system is left out."""
    if not each.sizes:
        return "even at its peak it costs more than the budget"
    return f"none of {len(each.sizes)} sizes from {each.sizes[0]:,} to {each.sizes[-1]:,} accelerators does"


def _tried(each: Recommendation) -> str:
    """Which sizes were tried, in sentences."""
    if len(each.sizes) == 1:
        return "One size was tried, in whole nodes: the smallest that could be fast enough at its peak rate."
    return (f"{len(each.sizes)} sizes of {each.system} were tried, from {each.sizes[0]:,} accelerators to this one, in whole nodes. No smaller "
            "size that was tried is enough.")  # fmt: skip


def _settings(each: Recommendation, words: Sequence[str]) -> list[str]:
    """The options that set the mapping; settings that `words` already hold are left out."""
    known = {word.partition("=")[0].strip() for word in words}
    plain = {
        name: settable(v) if isinstance(v, float) else str(v) for name, v in each.settings.items() if name not in known
    }
    size = ["--system", each.system, "--gpus", str(plain.pop("number_of_accelerators"))]
    return size + [word for name, value in plain.items() for word in ("--set", f"{name}={value}")]
