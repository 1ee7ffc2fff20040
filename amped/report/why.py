"""Why a configuration is slow, in sentences, and the changes that make it faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Column

from amped.base.commands import set_option, typed
from amped.drafting.chooser import is_tried
from amped.drafting.improvements import Improvement
from amped.estimation.estimation import Estimation
from amped.estimation.manners import Step
from amped.report import human
from amped.report.screen import LEAST_SHARE, fit, heading, is_chosen
from amped.report.tables import Part, drawn, grid
from amped.report.waterfall import causes
from amped.report.waterfall import lines as waterfall_lines
from amped.report.width import columns, wrapped

# What changes more than time and memory; and what the chooser does not try, so that its mapping lacks it.
CAREFUL = {"matrix_precision": "(other numerics)"}
LEFT_OUT = "(only if asked)"
NONE = "No change of one parameter that was tried makes a step faster and fits in memory."
MORE = "`amped explore` changes several parameters at once."


@drawn
def reasons(e: Estimation, changes: Sequence[Improvement], number: int, steps: Sequence[Step] = ()) -> Iterator[Part]:
    """Sentences on the waits of a step, and the changes that gain most, of `number` that gain; then the road to the recipe."""
    yield from _singly(e, changes, number)
    if steps:
        yield "\nWhat recipes of this software switch on, the best first:\n"
        lines = (
            (f"  {' '.join(typed('--set', setting) for setting in step.settings)}", f"{human.duration(step.step_time)} a step", f"{human.percent(step.gain_fraction)} less")
            for step in steps
        )  # fmt: skip
        yield grid(lines, Column(overflow="fold"))
    if len(steps) > 1:
        yield f"\nAll of them: {' '.join(typed('--set', setting) for step in steps for setting in step.settings)}"


def _singly(e: Estimation, changes: Sequence[Improvement], number: int) -> Iterator[Part]:
    """Sentences on the waits of a step, and the changes that gain most by themselves."""
    yield from heading(e)
    yield from ((notice, "yellow") for notice in e.scenario.sources.preliminary)
    yield ""
    if not e["fits_in_memory"]:
        _, memory, style = fit(e)
        yield (f"{memory}.\n", style)
    sentences = f"{causes(e)} {sliced(e)}{unhidden(e)}".rstrip()
    yield "\n".join(wrapped(sentences, columns())) + "\n"
    yield from waterfall_lines(e)
    yield ""
    if not changes:
        yield f"{NONE} {MORE}"
        return
    more = f", of {number} that do" if number > len(changes) else ""
    yield f"The single changes that gain most{more}:\n"
    rows = (
        (f"  {set_option(change.name, change.value)}", f"{human.duration(change.step_time)} a step",
         f"{human.percent(change.gain)} less", f"{change.bytes / human.GIGA:.1f} GB", remark(e, change))
        for change in changes
    )  # fmt: skip
    yield grid(rows, Column(no_wrap=True, overflow="fold"))
    yield f"\nEach is an option of the same command; `amped whatif` shows one in full. {MORE}"


def remark(e: Estimation, change: Improvement) -> str:
    """A note on a suggested change: that it changes the numerics, or that the chooser never tries it; empty otherwise."""
    left_out = is_chosen(e) and not is_tried(change.name, change.value)
    return CAREFUL.get(change.name) or (LEFT_OUT if left_out else "")


def sliced(e: Estimation) -> str:
    """A sentence on the time in which the host copies weights slice by slice; empty if that time is short."""
    if "weight_slicing_time" not in e or (time := e["weight_slicing_time"]) <= LEAST_SHARE * e["step_time"]:
        return ""
    return (
        f"For {human.duration(time)} of the optimizer's time the host copies updated weights into place, slice by slice "
        f"(ZeRO over {e['sharding_degree']:g} replicas). "
    )


def unhidden(e: Estimation) -> str:
    """A sentence on data-parallel communication that costs time although it overlaps; empty if that time is short."""
    if not e["hidden_data_communication_time"]:
        return ""
    bucket, slowdown = e["exposed_bucket_time"], e["data_slowdown_time"]
    if bucket + slowdown <= LEAST_SHARE * e["step_time"]:
        return ""
    return (
        f"Of the data-parallel communication nothing hides the last gradients and the first weights "
        f"({human.duration(bucket)}), and the {human.duration(e['hidden_data_communication_time'])} that run beside "
        f"computation slow it down by {human.duration(slowdown)}. "
    )
