"""How good amped is, on one screen: the errors in a few lines, the worst rows, and how often the bands of estimates hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from amped.estimation.uncertainty import COVERED
from amped.report import human
from amped.report.tables import Part, drawn, table
from amped.report.validating import machine, short_errors, signed, values
from amped.validation.accuracy import (
    LOW,
    NAMES,
    TRUSTED,
    By,
    accuracy,
    by_confidence,
    by_network,
    of_memory,
    of_time,
    split,
    verdicts,
    within_bands,
)
from amped.validation.measurements import MEMORY, TIME
from amped.validation.residuals import Residual

# How many rows, reasons and accelerators have a line, and how many groups an accelerator needs for one.
WORST, REASONS, ACCELERATORS, FEWEST_GROUPS = 5, 2, 12, 5
ERRORS = ("groups", "mean", "median", "90 %", "max", "signed")
# How memory was read; blank in the table where the source does not say it.
READINGS = ("allocated", "reserved", "device", "")
# How many characters of a name the lines of the worst rows have room for.
LONGEST = 28
MORE = "more: --rows (all rows), --by source|software|model|accelerator, --plot, --kernels DIR"


@drawn
def accuracy_screen(rows: Sequence[Residual]) -> Iterator[Part]:
    """What was compared and what was missed; the errors; the worst rows; whether bands and verdicts hold; what else."""
    yield from _counted(rows)
    yield ""
    heads, lines = ["absolute error of", *ERRORS], _lines(rows)
    if lines:
        yield table(heads, lines)
        yield ""
        yield table(*_worst(rows), text=("row", "inputs"))
        yield ""
        yield from (line for line in (*_bands(rows), _verdicts(rows)))
    yield MORE, "dim"


def _counted(rows: Sequence[Residual]) -> Iterator[Part]:
    """The number of rows and of groups, and why rows were missed."""
    groups_of = {r.measurement.id: r.measurement.group for r in rows}
    missed = {r.measurement.id: r.reason.removeprefix(f"line {r.measurement.row.line}: ") for r in rows if r.missed}
    yield (
        f"{len(groups_of)} rows, {len(groups_of) - len(missed)} modeled and {len(missed)} missed, in "
        f"{len({*groups_of.values()})} groups (repeats of one configuration, which count once)"
    )
    reasons = Counter(missed.values()).most_common()
    for reason, number in reasons[:REASONS]:
        yield Text(f"  {number} missed: {reason}", overflow="ellipsis", no_wrap=True)
    if left := sum(number for _, number in reasons[REASONS:]):
        yield f"  {left} missed for other reasons (--rows lists them)"


def _lines(rows: Sequence[Residual]) -> list[list[str]]:
    """The errors of the step's time and of memory, of all rows and of parts of them; no line without an error."""
    times, memory = by_confidence(of_time(rows)), by_confidence(of_memory(rows))
    chips = list(by_accelerator(times[TRUSTED], FEWEST_GROUPS).items())[:ACCELERATORS]
    told = [
        ("step time, confidence high or medium", times[TRUSTED]),
        *((f"  {name}", some) for name, some in by_network(times[TRUSTED]).items()),
        *((f"  {name}", some) for name, some in chips),
        ("step time, confidence low", times[LOW]),
        ("memory, confidence high or medium", memory[TRUSTED]),
        *((f"  {how or 'unsaid how it was read'}", some) for how, some in by_reading(memory[TRUSTED]).items()),
        ("memory, confidence low", memory[LOW]),
    ]
    found = [(name, accuracy(some)) for name, some in told]
    return [[name, *short_errors(each)] for name, each in found if each.groups]


def by_reading(rows: Sequence[Residual]) -> dict[str, list[Residual]]:
    """The rows by how memory was read."""
    return split(rows, lambda r: r.measurement.row.texts.get("memory_reading", ""), READINGS)


def by_accelerator(rows: Sequence[Residual], fewest: int) -> dict[str, list[Residual]]:
    """The rows of each accelerator that has enough groups with an error, those with the most groups first."""
    found = split(rows, NAMES[By.ACCELERATOR])
    sizes = {name: accuracy(some).groups for name, some in found.items()}
    return {name: found[name] for name in sorted(sizes, key=lambda name: -sizes[name]) if sizes[name] >= fewest}


def worst(rows: Sequence[Residual], number: int) -> list[Residual]:
    """The compared quantities with the largest errors, the largest first."""
    compared = [r for r in rows if r.aligned_error is not None]
    return sorted(compared, key=lambda r: -abs(r.aligned_error or 0.0))[:number]


def _worst(rows: Sequence[Residual]) -> tuple[list[str], list[list[str]]]:
    lines = [
        [
            _cut(f"{r.measurement.network}, {machine(r)}"),
            _cut(r.measurement.id),
            *values(r),
            signed(r.error),
            r.measurement.confidence,
        ]
        for r in worst(rows, WORST)
    ]
    return ["worst", "row", "measured", "predicted", "error", "inputs"], lines


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _bands(rows: Sequence[Residual]) -> Iterator[str]:
    """How many rows lie inside the bands that other sources give."""
    names = {TIME: "step times", MEMORY: "readings of memory"}
    told = [
        f"{human.percent(inside / number, 0)} of {number} {names[quantity]}"
        for quantity, (inside, number) in within_bands(rows).items()
        if number
    ]
    if told:
        yield f"inside the {human.percent(COVERED, 0)} bands that other sources give: {', '.join(told)}"


def _verdicts(rows: Sequence[Residual]) -> str:
    """How often amped is wrong about whether a run fits in memory."""
    told = verdicts(rows)
    line = f"called too large for memory: {told['of_these_predicted_not_to_fit']} of {told['ran']} runs that ran"
    if not told["ran_out_of_memory"]:
        return line
    return (
        f"{line}; called small enough: {told['of_these_predicted_to_fit']} of {told['ran_out_of_memory']} that did not"
    )
