"""Ways to fine-tune, as one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.base.commands import broken, command
from amped.base.numbers import settable
from amped.drafting.chooser import ADAPTER_TOKENS
from amped.drafting.tuning import Way
from amped.report import human
from amped.report.screen import batch_in_words, mapping_in_words, plus_minus, what_is_trained
from amped.report.tables import Part, drawn, table
from amped.report.width import columns

# The switches of the places of adapters.
PLACES = tuple(f"{place}_adapters" for place in ("query", "key", "value", "attention_output", "gate", "up", "down"))
HEADS = ("method", "trained", "memory", "step", "training", "cost")


@drawn
def tuning(ways: Sequence[Way], words: Sequence[str]) -> Iterator[Part]:
    """A line for each way to fine-tune, the fastest that fits first; what would make the others fit; and a command.

    Args:
        ways: the ways, as `tuned` orders them.
        words: the options that an estimate of the question needs besides the settings of a way.
    """
    best = ways[0]
    yield what_is_trained(best.estimate), "bold"
    yield from ((notice, "yellow") for notice in best.estimate.scenario.sources.preliminary)
    tokens = human.scaled(best.estimate["tokens_to_train"], "", 3)
    assumed = " (assumed)" if best.settings.get("tokens_to_train") == ADAPTER_TOKENS else ""
    yield f"{batch_in_words(best.estimate)}; {tokens} tokens in all{assumed}"
    yield from _adapters(next((way for way in ways if way.adapts), None))
    yield table(HEADS, [_line(way) for way in ways])
    if best.fits:
        mappings = [(way.method, mapping_in_words(way.estimate)) for way in ways if way.fits]
        yield table(("method", "mapping"), mappings, ("mapping",), ("mapping",))
    yield ""
    for way in ways:
        if not way.fits:
            yield f"{way.method} does not fit: {way.remedy}", "bold red"
    if best.fits:
        band = best.estimate.error_band
        sure = f" {plus_minus(band.error_fraction)}" if band else ""
        yield f"Fastest that fits: {best.method}, {human.duration(best.estimate['training_time'])}{sure}", "bold"
        yield "\n".join(broken(command("estimate", *words, *_options(best)), columns())), "dim"


def _adapters(way: Way | None) -> Iterator[str]:
    """A line with the rank and the places of adapters; none if no way has adapters."""
    if way is None:
        return
    e = way.estimate
    is_given = "adapter_rank" in e.scenario.sources.given
    places = sum(e.results.number(name) > 0 for name in PLACES)
    beside = "all projections" if places == len(PLACES) else f"{places} of {len(PLACES)} projections"
    lacking = e["number_of_experts"] > 1 and e.choices["expert_adapters"] == "none"
    joined = "; none of experts" if lacking else ", one for joined ones" if e.results.number("joint_adapters") else ""
    yield f"Adapters of rank {e['adapter_rank']:g}{'' if is_given else ' (assumed)'} beside {beside}{joined}"


def _line(way: Way) -> list[str]:
    """The cells of a way: what is trained, memory, times and cost."""
    e, giga = way.estimate, human.GIGA
    memory = f"{e['memory_per_accelerator_bytes'] / giga:.1f} of {e['available_memory_bytes'] / giga:.0f} GB"
    trained = human.scaled(e["trained_parameters" if way.adapts else "number_of_parameters"], "", 3)
    if not way.fits:
        return [way.method, trained, memory, "no fit", "", ""]
    cost = human.value(e["cost"], "dollar") if "cost" in e else "no price"
    times = [human.duration(e[name]) for name in ("step_time", "training_time")]
    return [way.method, trained, memory, *times, cost]


def _options(way: Way) -> list[str]:
    """The options that set what a way sets."""
    texts = {n: settable(v) if isinstance(v, float) else str(v) for n, v in way.settings.items()}
    return [word for name, text in texts.items() for word in ("--set", f"{name}={text}")]
