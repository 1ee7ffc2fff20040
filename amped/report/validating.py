"""Predictions beside measurements: how good amped is on one screen, every row, the errors of groups, what was missed or assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from amped.estimation.uncertainty import COVERED
from amped.report import human
from amped.report.tables import Part, drawn, table
from amped.validation.accuracy import (
    CLOCKED,
    FITTED,
    LOW,
    NAMES,
    SEEN,
    TRUSTED,
    UNSEEN,
    Accuracy,
    By,
    accuracy,
    by_confidence,
    by_fit,
    by_network,
    groups,
    of_memory,
    of_time,
    split,
    verdicts,
    within_bands,
)
from amped.validation.as_typed import Typed
from amped.validation.measurements import FLOP_RATE, MEMORY, THROUGHPUT, TIME, UTILIZATION
from amped.validation.residuals import FITS, Residual

# The units that a compared quantity is shown in, the largest first.
UNITS = {
    TIME: ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")), MEMORY: ((1e9, "GB"), (1e6, "MB")),
    THROUGHPUT: ((1.0, "tokens/s"),), UTILIZATION: ((0.01, "%"),), FLOP_RATE: ((1e12, "TFLOP/s"), (1e9, "GFLOP/s")),
}  # fmt: skip
# The names of groups of rows, short enough for a narrow table.
SHOWN = {
    TRUSTED: "high and medium", LOW: "low confidence", FITTED: "fitted to", SEEN: "source seen",
    CLOCKED: "seen by clocks alone", UNSEEN: "seen by no fit",
}  # fmt: skip
ERRORS = ("rows", "groups", "missed", "mean", "median", "90 %", "max", "signed", "rank")
CONVENTION = (
    "error: predicted / measured - 1. as time: the error of a rate as an error of the step's time (+ is too slow), "
    "which the summary uses. 90 %: nine groups of ten have a smaller error. rank: Spearman's correlation of tokens per "
    "second and accelerator, within each network (by its size, as sources spell it in many ways) of three groups or more. "
    "band: the share of rows inside the 80 % bands that other sources give. "
    "Repeats of one configuration are a group, which weighs as one row."
)


# How many rows, reasons and accelerators have a line, and how many groups an accelerator needs for one.
WORST, REASONS, ACCELERATORS, FEWEST_GROUPS = 5, 2, 12, 5
SHORT_ERRORS = ERRORS[1:2] + ERRORS[3:-1]
# How memory was read; blank in the table where the source does not say it.
READINGS = ("allocated", "reserved", "device", "")
# How many characters of a name the lines of the worst rows have room for.
LONGEST = 28
MORE = "more: --rows (all rows), --by source|software|model|accelerator, --plot, --kernels DIR"


@drawn
def accuracy_screen(rows: Sequence[Residual]) -> Iterator[Part]:
    """What was compared and missed, the errors, the worst rows, whether bands and verdicts hold, and more options."""
    yield from _counted(rows)
    yield ""
    if lines := _error_lines(rows):
        yield table(["absolute error of", *SHORT_ERRORS], lines)
        yield ""
        yield table(("worst", "row", "measured", "predicted", "error", "inputs"), _worst(rows), ("row", "inputs"))
        yield ""
        yield from _bands(rows)
        yield _verdicts(rows)
    yield MORE, "dim"


@drawn
def typed_errors(found: Mapping[Typed, Sequence[Residual]]) -> Iterator[Part]:
    """The errors of a step's time where rows are taken as people type them, by what is typed of the software."""
    lines = []
    for typed, rows in found.items():
        trusted = by_confidence(of_time(rows))[TRUSTED]
        lines.append([f"software by its {typed}", *short_errors(accuracy(trusted))])
        lines += [[f"  {name}", *short_errors(accuracy(part))] for name, part in by_network(trusted).items()]
    yield table(["absolute error of", *SHORT_ERRORS], lines)
    yield "\nRows of high and medium confidence. Benchmarks are taken as recipes run them (`--manner recipe`)."


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


def _error_lines(rows: Sequence[Residual]) -> list[list[str]]:
    """The lines of errors of the step's time and of memory, for all rows and for parts; no line without an error."""
    times, memory = by_confidence(of_time(rows)), by_confidence(of_memory(rows))
    accelerators = list(by_accelerator(times[TRUSTED], FEWEST_GROUPS).items())[:ACCELERATORS]
    parts = [
        ("step time, confidence high or medium", times[TRUSTED]),
        *((f"  {name}", part) for name, part in by_network(times[TRUSTED]).items()),
        *((f"  {name}", part) for name, part in accelerators),
        ("step time, confidence low", times[LOW]),
        ("memory, confidence high or medium", memory[TRUSTED]),
        *((f"  {reading or 'unsaid how it was read'}", part) for reading, part in by_reading(memory[TRUSTED]).items()),
        ("memory, confidence low", memory[LOW]),
    ]
    return [[name, *short_errors(summary)] for name, part in parts if (summary := accuracy(part)).groups]


def by_reading(rows: Sequence[Residual]) -> dict[str, list[Residual]]:
    """The rows by how memory was read, in the order of `READINGS`."""
    return split(rows, lambda r: r.measurement.row.texts.get("memory_reading", ""), READINGS)


def by_accelerator(rows: Sequence[Residual], fewest: int) -> dict[str, list[Residual]]:
    """The rows of each accelerator with at least `fewest` groups that have an error, the most groups first."""
    by_name = split(rows, NAMES[By.ACCELERATOR])
    sizes = {name: accuracy(accelerator_rows).groups for name, accelerator_rows in by_name.items()}
    return {name: by_name[name] for name in sorted(sizes, key=lambda name: -sizes[name]) if sizes[name] >= fewest}


def _worst(rows: Sequence[Residual]) -> list[list[str]]:
    """The lines of the compared quantities with the largest errors, the largest first."""
    compared = [r for r in rows if r.aligned_error is not None]
    return [
        [_shortened(f"{r.measurement.network}, {machine(r)}"), _shortened(r.measurement.id), *values(r), signed(r.error), r.measurement.confidence]
        for r in sorted(compared, key=lambda r: -abs(r.aligned_error or 0.0))[:WORST]
    ]  # fmt: skip


def _shortened(name: str) -> str:
    """A name of at most `LONGEST` characters; the end of a longer one becomes an ellipsis."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _bands(rows: Sequence[Residual]) -> Iterator[str]:
    """How many rows lie inside the bands that other sources give."""
    names = {TIME: "step times", MEMORY: "readings of memory"}
    shares = [f"{human.percent(inside / number, 0)} of {number} {names[quantity]}"
              for quantity, (inside, number) in within_bands(rows).items() if number]  # fmt: skip
    if shares:
        yield f"inside the {human.percent(COVERED, 0)} bands that other sources give: {', '.join(shares)}"


def _verdicts(rows: Sequence[Residual]) -> str:
    """A line on how often amped is wrong about whether a run fits in memory."""
    counts = verdicts(rows)
    called_large = (
        f"called too large for memory: {counts['of_these_predicted_not_to_fit']} of {counts['ran']} runs that ran"
    )
    called_small = (
        f"; called small enough: {counts['of_these_predicted_to_fit']} of {counts['ran_out_of_memory']} that did not"
    )
    return called_large + called_small if counts["ran_out_of_memory"] else called_large


@drawn
def taken_values(rows: Sequence[Residual]) -> Iterator[Part]:
    """For each row, the values that amped assumes because the row lacks them, grouped by the reason; no predictions.

    Whoever prepares a table sees nothing that could lead the choice of a cell.
    """
    for r in {r.measurement.id: r for r in rows}.values():
        yield f"{r.measurement.id} {r.measurement.network}, {machine(r)}", "bold"
        by_why: dict[str, list[str]] = {}
        for value in r.assumed:
            by_why.setdefault(value.why, []).append(value.text)
        lines = [f"{why}: {', '.join(texts)}" for why, texts in by_why.items()]
        lines += [f"NOT MODELED: {name} = {value_in_row}" for name, value_in_row in r.measurement.row.facts.items()]
        lines += [f"cannot be modeled: {r.reason}"] if r.missed else []
        yield from (Padding(line, (0, 0, 0, 2)) for line in lines or ["everything is said"])
    yield "\nwithout --assumed, `amped validate` prints predictions beside what was measured", "dim"


@drawn
def validation(rows: Sequence[Residual], by: By) -> Iterator[Part]:
    """All rows, those of low confidence apart; the misses; a summary of the errors, and the errors by group."""
    for name, part in by_confidence(rows).items():
        if part:
            yield f"{name.replace('_', ' ').capitalize()}\n", "bold"
            yield _rows(part)
            yield ""
    yield from _remarks("Not modeled, and counted as missed:", {r.measurement.id: r.reason for r in rows if r.missed})
    yield from _remarks("Modeled, and:", {r.measurement.id: r.reason for r in rows if r.reason and not r.missed})
    yield from _details(rows)
    yield table(["absolute error of", *ERRORS], _errors_by_part(rows))
    yield f"\n{_verdicts(rows)}\n"
    yield by_group(rows, by)


@drawn
def by_group(rows: Sequence[Residual], by: By) -> Iterator[Part]:
    """A table of the errors with one line for each group, and a note on how errors are counted.

    Rows are grouped by their source, accelerator, model or software, as `by` says.
    """
    heads = [f"step time, by {by.value}", *ERRORS, "band", "memory"][: None if of_memory(rows) else -1]
    lines = []
    for name, confidence, members in groups(rows, by):
        memory = accuracy(of_memory(members)).mean_absolute_error_fraction
        inside, number = within_bands(members)[TIME]
        last_cells = [
            human.percent(inside / number, 0) if number else "",
            "" if memory is None else human.percent(memory),
        ]
        line = [f"{name} (low)" if confidence == LOW else name, *errors(accuracy(of_time(members))), *last_cells]
        lines.append(line[: len(heads)])
    yield table(heads, lines, wrapped=heads[:1])
    yield f"\n{CONVENTION}", "dim"


def _rows(rows: Sequence[Residual]) -> Table:
    """A table with one line for each compared quantity, under the name of its source."""
    has_rates = any(is_rate(r) for r in rows)
    lines: list[list[Part]] = []
    source, previous_id = None, ""
    for r in rows:
        if r.measurement.source != source:
            source = r.measurement.source
            lines.append([(source or "no source", "bold")])
        cells = [*values(r), signed(r.error), *([signed(r.aligned_error) if is_rate(r) else ""] if has_rates else [])]
        run = f"{r.measurement.id} {r.measurement.network}, {machine(r)}" if previous_id != r.measurement.id else ""
        lines.append([run, *cells])
        previous_id = r.measurement.id
    heads = ["run", "measured", "predicted", "error", *(["as time"] if has_rates else [])]
    return table(heads, lines, wrapped=("run",))


def is_rate(r: Residual) -> bool:
    """Whether tokens per second or operations per second are compared."""
    return r.of_time and r.quantity != TIME


def number_of_accelerators(r: Residual) -> float | None:
    """The number of accelerators of a run; None if there is no prediction and the table does not give the number."""
    return r.ground.number_of_accelerators if r.ground else r.measurement.settings.get("number_of_accelerators")


def machine(r: Residual) -> str:
    """The number and the name of the accelerators as text; the name alone if the number is not known."""
    number = number_of_accelerators(r)
    return r.accelerator if number is None else f"{number:g} x {r.accelerator}"


def values(r: Residual) -> tuple[str, str]:
    """The measured and the predicted value in the unit that suits the measured one; "missed" without a prediction."""
    if r.quantity == FITS:
        return "no room", "missed" if r.missed else "fits" if r.predicted else "no room"
    units, reference = UNITS[r.quantity], r.measured or r.predicted or 1.0
    size, unit = next((pair for pair in units if reference >= pair[0]), units[-1])
    texts = ["" if number is None else f"{human.digits(number / size)} {unit}" for number in (r.measured, r.predicted)]
    return texts[0] or "-", texts[1] or "missed"


def signed(error: float | None) -> str:
    """An error in percent with its sign; a dash if there is no error."""
    return "-" if error is None else f"{round(error * 100, 1) + 0.0:+.1f} %"


def errors(summary: Accuracy) -> list[str]:
    """The cells of a summary of errors, in the order of `ERRORS`, which is that of the record's fields."""
    compared, number, missed, *sizes, bias, rank = astuple(summary)
    cells = ["-" if size is None else human.percent(size) for size in sizes]
    return [f"{compared}", f"{number}", f"{missed}", *cells, signed(bias), "-" if rank is None else f"{rank:.2f}"]


def short_errors(summary: Accuracy) -> list[str]:
    """The number of groups and the sizes of their errors: those of `errors` that fit a narrow table."""
    _, number_of_groups, _, *sizes, _ = errors(summary)
    return [number_of_groups, *sizes]


def _errors_by_part(rows: Sequence[Residual]) -> list[list[str]]:
    """The lines of errors of time, by confidence and by what a fit has seen, and of memory; no line for empty parts."""
    by_part = {
        f"{what}, {SHOWN[name]}": accuracy(select(part_rows))
        for what, select, split_rows in (
            ("time", of_time, by_confidence), ("time", of_time, by_fit), ("memory", of_memory, by_confidence),
        )
        for name, part_rows in split_rows(rows).items()
    }  # fmt: skip
    return [[name, *errors(summary)] for name, summary in by_part.items() if summary.compared or summary.missed]


def _remarks(head: str, remarks: Mapping[str, str]) -> Iterator[Part]:
    """A head, and below it the remark of each row, by the id of the row; nothing if there are no remarks."""
    if remarks:
        yield head
        yield from (Padding(f"{name}: {remark}", (0, 0, 0, 2)) for name, remark in remarks.items())
        yield ""


def _details(rows: Sequence[Residual]) -> Iterator[Part]:
    """How many rows lack values that amped then assumes, and how many runs did something that is not modeled."""
    by_id = {r.measurement.id: r for r in rows}
    incomplete = sum(bool(r.assumed) for r in by_id.values())
    unmodeled = sum(bool(r.measurement.row.facts) for r in by_id.values())
    yield f"{incomplete} of {len(by_id)} rows leave something to amped (--assumed lists what)"
    if unmodeled:
        yield f"{unmodeled} rows did something that is not modeled (--assumed)"
    yield ""
