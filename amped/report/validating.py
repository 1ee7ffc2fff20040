"""Predictions beside measurements, as tables: every row, the errors in a few numbers, and what was missed or assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from amped.report import human
from amped.validation.accuracy import LOW, Accuracy, By, accuracy, by_confidence, groups, of_memory, of_time, verdicts
from amped.validation.measurements import FLOP_RATE, MEMORY, THROUGHPUT, TIME, Measurement
from amped.validation.residuals import FITS, Residual

# Units of a compared quantity, the largest first.
UNITS = {
    TIME: ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")), MEMORY: ((1e9, "GB"), (1e6, "MB")),
    THROUGHPUT: ((1.0, "tokens/s"),), FLOP_RATE: ((1e12, "TFLOP/s"), (1e9, "GFLOP/s")),
}  # fmt: skip
ERRORS = ("mean", "median", "90 %", "max", "signed", "rank")
CONVENTION = (
    "error: predicted / measured - 1; of a rate also as the error of the step's time that it says, + too slow, and so in "
    "the summary. 90 %: nine rows of ten are nearer. rank: Spearman's correlation of tokens per second and accelerator "
    "within each network of three rows or more."
)


def validation(rows: Sequence[Residual], by: By, assumed: bool) -> RenderableType:
    """All rows, low confidence apart; what was missed; the errors in a few numbers, and by source or the like."""
    parts: list[RenderableType] = []
    for name, some in by_confidence(rows).items():
        if some:
            parts += [Text(name.replace("_", " ").capitalize(), style="bold"), Text(""), _rows(some), Text("")]
    notes = [*_told("Not modeled, and counted as missed", (r for r in rows if r.missed)),
             *_told("Modeled, and", (r for r in rows if r.reason and not r.missed)), *_details(rows, assumed)]  # fmt: skip
    parts += [*notes, _summary(rows), Text(""), _groups(rows, by), Text("")]
    return Group(*parts, Text(CONVENTION, style="dim"))


def _rows(rows: Sequence[Residual]) -> Table:
    """One line for each compared quantity, under the name of who measured."""
    rates = any(is_rate(r) for r in rows)
    table = _table("id", "model", "machine", "measured", "predicted", "error", *(["as time"] if rates else []))
    source, before = None, ""
    for r in rows:
        if r.measurement.source != source:
            source = r.measurement.source
            table.add_row("", Text(source or "no source", style="bold"))
        machine = f"{r.measurement.row.text('gpus')} x {r.accelerator}"
        head = (r.measurement.id, r.model, machine) if before != r.measurement.id else ("", "", "")
        before = r.measurement.id
        table.add_row(*head, *values(r), signed(r.error), signed(r.aligned_error) if is_rate(r) else "")
    return table


def is_rate(r: Residual) -> bool:
    """Whether tokens or operations per second are compared."""
    return r.of_time and r.quantity != TIME


def values(r: Residual) -> tuple[str, str]:
    """What was measured and what is predicted, both with the prefix of the first; a miss is told as one."""
    if r.quantity == FITS:
        return "no room", "missed" if r.missed else "fits" if r.predicted else "no room"
    steps, shown = UNITS[r.quantity], r.measured or r.predicted or 1.0
    size, unit = next((step for step in steps if shown >= step[0]), steps[-1])
    told = ["" if number is None else f"{human.digits(number / size)} {unit}" for number in (r.measured, r.predicted)]
    return told[0] or "-", told[1] or "missed"


def signed(error: float | None) -> str:
    """An error in percent with its sign."""
    return "-" if error is None else f"{round(error * 100, 1) + 0.0:+.1f} %"


def errors(found: Accuracy) -> list[str]:
    """The errors of some rows in a few numbers, in the order of `ERRORS`."""
    sizes = (found.mean_absolute_error_fraction, found.median_absolute_error_fraction,
             found.percentile_90_absolute_error_fraction, found.largest_absolute_error_fraction)  # fmt: skip
    rank = "-" if found.rank_correlation is None else f"{found.rank_correlation:.2f}"
    shown = ["-" if size is None else human.percent(size) for size in sizes]
    return [*shown, signed(found.mean_signed_error_fraction), rank]


def overall(rows: Sequence[Residual]) -> Iterator[tuple[str, Accuracy]]:
    """The errors of the step's time and of memory, by confidence; no line where there is nothing."""
    for what, select in (("step time", of_time), ("memory", of_memory)):
        for confidence, some in by_confidence(rows).items():
            found = accuracy(select(some))
            if found.compared or found.missed:
                yield f"{what}, {confidence.replace('_', ' ')}", found


def memory_verdicts(rows: Sequence[Residual]) -> Iterator[str]:
    """What is said wrongly of whether runs fit."""
    told = verdicts(rows)
    if told["ran_out_of_memory"]:
        yield f"{told['of_these_predicted_to_fit']} of {told['ran_out_of_memory']} runs out of memory are predicted to fit"
    yield f"{told['of_these_predicted_not_to_fit']} of {told['ran']} runs that ran are predicted not to fit in memory"


def _summary(rows: Sequence[Residual]) -> RenderableType:
    table = _table("absolute error of", "rows", "missed", *ERRORS)
    for name, found in overall(rows):
        table.add_row(name, str(found.compared), str(found.missed), *errors(found))
    return Group(table, Text(""), *(Text(line) for line in memory_verdicts(rows)))


def _groups(rows: Sequence[Residual], by: By) -> Table:
    table = _table(f"step time, by {by.value}", "rows", "missed", *ERRORS, *(["memory"] if of_memory(rows) else []))
    for name, cells in grouped(rows, by):
        table.add_row(name, *cells)
    return table


def grouped(rows: Sequence[Residual], by: By) -> Iterator[tuple[str, list[str]]]:
    """The name of each group, and its rows, misses, errors of time and mean error of memory."""
    for name, confidence, some in groups(rows, by):
        found, memory = accuracy(of_time(some)), accuracy(of_memory(some)).mean_absolute_error_fraction
        told = f"{name} (low)" if confidence == LOW else name
        sizes = [] if not of_memory(rows) else ["" if memory is None else human.percent(memory)]
        yield told, [str(found.compared), str(found.missed), *errors(found), *sizes]


def _told(head: str, rows: Iterable[Residual]) -> list[RenderableType]:
    """Reasons, each row once."""
    reasons = {r.measurement.id: r.reason for r in rows}
    lines = [Padding(Text(f"{name}: {reason}"), (0, 0, 0, 2)) for name, reason in reasons.items()]
    return [Text(f"{head}:"), *lines, Text("")] if reasons else []


def _details(rows: Sequence[Residual], assumed: bool) -> list[RenderableType]:
    """What rows do not say and what nobody understood of them; unless asked for, only how many rows that is."""
    once = {r.measurement.id: r.measurement for r in rows}.values()
    silent, unread = [m for m in once if m.assumed], [m for m in once if m.unread or m.missing]
    if assumed:
        told = [Padding(Text("; ".join((f"{m.id}:", *_lines(m))).replace(":;", ":", 1)), (0, 0, 0, 2)) for m in once]
        return [Text("Assumed, where the row is silent:"), *told, Text("")] if once else []
    lines = [f"{len(silent)} of {len(once)} rows leave something to defaults (--assumed lists what)"]
    lines += [f"{len(unread)} rows say something that amped does not understand (--assumed)"] if unread else []
    return [*(Text(line) for line in lines), Text("")]


def _lines(m: Measurement) -> Iterator[str]:
    yield from m.assumed.values()
    yield from (f"NO PARAMETER FOR {name} = {number}" for name, number in m.missing.items())
    yield from (f"NOT UNDERSTOOD: {piece}" for piece in m.unread)


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        text = head in ("id", "model", "machine") or head.startswith(("absolute", "step time"))
        table.add_column(head, justify="left" if text else "right", overflow="fold", no_wrap=head != "model")
    return table
