"""An anchor: one layer that `amped bench anchor` measured, as coefficients of its accelerator and of its software.

The seconds of each kind of kernels in the layer determine one coefficient each: the predicted time of the kind is a fixed
time and a time that is inversely proportional (a rate) or proportional (traffic) to the coefficient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amped.base.errors import FileError, Problem, quoted
from amped.base.files import read_json
from amped.base.version import __version__
from amped.calibration.written import as_text, columns_written, temporary_file
from amped.configuring.scenario import read_scenario
from amped.engine.resolve import plan
from amped.estimation.estimation import Estimation, estimated
from amped.tables.table_files import KERNELS, SOFTWARE, LookupTables, table_paths
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import MAPPING
from amped.theory.nouns.records import CONTRACTIONS, Duration

SCHEMA = "layer-anchor/1"
# The parts of a step of the layer, with the phases of operators that each one has.
PHASES = {"forward": ("forward",), "backward": ("input_gradient", "weight_gradient"), "optimizer": ("update",)}
PASSES = ("forward", "backward")
# What the file must have, and the kinds of values.
FORM: Mapping[str, type] = {"date": str, "device": dict, "software": dict, "accelerator": str, "module": str, "settings": dict,
                            "seconds": dict, "parts": dict, "host_seconds": float, "updated_parameters": int, "rows": dict}  # fmt: skip
# The coefficient of the largest products in a format.
SUSTAINED = {"fp32": "fp32_gemm_sustained_fraction", "tf32": "tf32_gemm_sustained_fraction", "fp8": "fp8_gemm_sustained_fraction",
             "fp4": "fp4_gemm_sustained_fraction"}  # fmt: skip
# The coefficient of a GPU's products and attention: its table has their rates at full clock, and under load the clock is
# what differs from machine to machine.
CLOCK = "training_clock_fraction"
# A value is found if its time is this close to the measured one; it takes two or three steps.
CLOSE, MOST_STEPS = 1e-6, 12
# The limits of a coefficient whose definition has none.
LEAST, MOST = 1e-6, 1e6
Content = Mapping[str, Any]


@dataclass(frozen=True)
class MeasuredPart:
    """A measured time, and the coefficient that it determines.

    Attributes:
        what: the kernels, in words.
        seconds: their measured time.
        table: the table that the coefficient is a column of.
        column: the coefficient.
        is_of: whether an operator of the layer is one of these kernels.
    """

    what: str
    seconds: float
    table: str
    column: str
    is_of: Callable[[Duration], bool]


@dataclass(frozen=True)
class Anchored:
    """The coefficients of an anchor.

    Attributes:
        content: the content of the anchor's file.
        rows: the rows of the accelerator's kernels and of the software that the layer used, by table.
        values: the fitted value of each coefficient, by table and then by column.
        before: the value of each coefficient before the fit, by column.
        parts: for each part of the step and each kind of kernels the measured seconds, and those predicted before and now.
        held: the coefficients whose limits, or a time that they do not change, keep the measured time from being met.
    """

    content: Content
    rows: Mapping[str, str]
    values: Mapping[str, Mapping[str, float]]
    before: Mapping[str, float]
    parts: Mapping[str, tuple[float, float, float]]
    held: tuple[str, ...]


def read_anchor(path: Path) -> Content:
    """The content of an anchor's file.

    Raises:
        FileError: if the file is no anchor, or if values are missing or have another type; each problem has its JSON
            path.
    """
    content = read_json(path)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FileError(f"is not an anchor: its schema is not {SCHEMA!r}", "measure one: amped bench anchor", str(path))
    problems = [
        Problem(f"is no {kind.__name__}", name)
        for name, kind in FORM.items()
        if not isinstance(content.get(name), kind)
    ]
    problems = problems or [*_unmeasured(content)]
    if problems:
        raise FileError(problems, file=str(path))
    return content


def _unmeasured(content: Content) -> Iterator[Problem]:
    """A problem for each time that is missing, or that is not a finite number of seconds of at least 0."""
    times = {f"seconds.{part}": content["seconds"].get(part) for part in PHASES}
    for part in PASSES:
        kinds = content["parts"].get(part)
        for kind in ("products", "attention", "rest"):
            times[f"parts.{part}.{kind}"] = kinds.get(kind) if isinstance(kinds, dict) else None
    for place, time in times.items():
        if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < float("inf"):
            yield Problem(f"{quoted(time)} is no time in seconds", place, "measure again: amped bench anchor")


def anchored(content: Content, lookup_tables: LookupTables = None) -> Anchored:
    """Fits each coefficient that the anchor determines, one after the other.

    Products come first: the clock that is fitted to them also changes the time of attention.

    Args:
        content: what `read_anchor` returns.
        lookup_tables: the user's own tables.

    Raises:
        AmpedError: if the layer cannot be estimated.
    """
    fitted: dict[str, float] = {}
    held: list[str] = []
    with layered(content, lookup_tables) as tables:
        settings = {"accelerator": content["accelerator"], **content["settings"]}

        def estimate(values: Mapping[str, float]) -> Estimation:
            """The estimate of the layer with these values of coefficients, and with those fitted until now."""
            return estimated(read_scenario({}, {**settings, **fitted, **values}, tables))

        first = estimate({})
        parts = _measured_parts(content, first)
        for part in parts:
            fitted[part.column], at_limit = _solved(part, _value(first, part.column), estimate)
            held += [part.column] if at_limit else []
        last = estimate({})
    rows = {KERNELS: first.scenario.sources.rows[KERNELS].name, SOFTWARE: first.scenario.sources.rows[MAPPING].name}
    values = {table: {part.column: fitted[part.column] for part in parts if part.table == table} for table in rows}
    values[SOFTWARE]["host_time_per_layer"] = float(content["host_seconds"]) / _value(first, "host_time_factor")
    if content["device"].get("kind") == "cpu":
        values[SOFTWARE]["host_time_per_step"] = 0.0  # a processor that computes is its own host
    before = {name: _value(first, name) for columns in values.values() for name in columns}
    compared = _compared(content, parts, first, last)
    return Anchored(content, rows, values, before=before, parts=compared, held=tuple(held))


@contextmanager
def layered(content: Content, lookup_tables: LookupTables) -> Iterator[LookupTables]:
    """The user's lookup tables; if the anchor has rows for a device that no table has, these rows come first."""
    if not content["rows"]:
        yield lookup_tables
        return
    with temporary_file(content["rows"]) as device:
        yield (device, *table_paths(lookup_tables))


def _measured_parts(content: Content, estimate: Estimation) -> list[MeasuredPart]:
    """The measured times that determine a coefficient; kernels without a measured or a predicted time are left out."""
    parts, kernels = content["parts"], KERNELS
    sustained = SUSTAINED.get(estimate.choices["matrix_precision"], "gemm_sustained_fraction")
    if content["device"].get("kind") == "cuda":
        sustained = CLOCK

    def seconds(kind: str, *passes: str) -> float:
        """The measured time of one kind of kernels in some passes; in all of them if none is named."""
        return sum(float(parts[name][kind]) for name in passes or parts)

    # The embedding, which the layer lacks, is updated, too: the time is that of as many parameters as the estimate has.
    updated = estimate.results.number("device_updated_parameters")
    optimizer = float(content["seconds"]["optimizer"] * updated / content["updated_parameters"])
    measured = [
        MeasuredPart("products", seconds("products"), kernels, sustained, lambda d: d.kind in CONTRACTIONS),
        MeasuredPart("attention, forward", seconds("attention", "forward"), kernels, "attention_forward_efficiency",
             lambda d: d.kind == "fused_attention" and d.phase == "forward"),
        MeasuredPart("attention, backward", seconds("attention", "backward"), kernels, "attention_backward_efficiency",
             lambda d: d.kind == "fused_attention" and d.phase != "forward"),
        MeasuredPart("all else of both passes", seconds("rest"), SOFTWARE, "streaming_traffic_factor",
             lambda d: d.phase != "update" and d.kind not in (*CONTRACTIONS, "fused_attention")),
        MeasuredPart("optimizer", optimizer, SOFTWARE, "optimizer_traffic_factor", lambda d: d.phase == "update"),
    ]  # fmt: skip
    return [part for part in measured if part.seconds > 0 and time_of(estimate, part.is_of) > 0]


def time_of(estimate: Estimation, is_of: Callable[[Duration], bool]) -> float:
    """The predicted seconds of those operators of a layer and of the optimizer's step for which `is_of` is true."""
    durations = (*estimate.results.records("layer_durations"), *estimate.results.records("optimizer_durations"))
    return float(sum(d.time * d.count for d in durations if is_of(d)))


def _value(estimate: Estimation, name: str) -> float:
    """The value of a coefficient in an estimate: the given or looked-up one, else the default."""
    coefficient_plan = plan(estimate.scenario.catalogue, (name,), estimate.scenario.sources)
    return float({**coefficient_plan.defaults, **estimate.scenario.sources.given}[name])


def _solved(
    part: MeasuredPart, start: float, estimate: Callable[[Mapping[str, float]], Estimation]
) -> tuple[float, bool]:
    """The coefficient's value with which the predicted time is the measured one, and whether there is no such value.

    There is none beyond a limit of the coefficient, or below a time that the coefficient does not change; the value is
    then the last one that was tried.

    The search is for `x`: a factor on traffic, or the inverse of a rate. A time grows with `x`, first slowly, because
    something else limits the kernel, and then faster. So each step takes the line through the last two points; if the
    line is level, the step doubles `x`.

    Args:
        part: the measured time and its coefficient.
        start: the value of the coefficient before the fit.
        estimate: gives the estimate for values of coefficients.
    """
    exponent = -1 if part.table == KERNELS else 1
    low, high = sorted(limit**exponent for limit in _limits(part.column))

    def time_at(x: float) -> float:
        return time_of(estimate({part.column: x**exponent}), part.is_of)

    last_x = start**exponent
    x = max(last_x / 2, low) if last_x > low else min(2 * last_x, high)
    last_time, time = time_at(last_x), time_at(x)
    for _ in range(MOST_STEPS):
        if abs(time / part.seconds - 1) < CLOSE:
            return x**exponent, False
        is_level = time == last_time
        if is_level and time > part.seconds:
            break
        aim = 2 * max(x, last_x) if is_level else x + (part.seconds - time) * (x - last_x) / (time - last_time)
        last_x, last_time, x = x, time, min(max(aim, low), high)
        if x == last_x:
            break
        time = time_at(x)
    return x**exponent, True


def _limits(name: str) -> tuple[float, float]:
    """The lowest and the highest value of a coefficient by its own definition; LEAST and MOST if it has none."""
    mark = catalogue()[name].mark
    low = next((limit for limit in (mark.above, mark.at_least) if limit is not None), 0.0)
    return max(low, LEAST), MOST if mark.at_most is None else mark.at_most


def _compared(
    content: Content, parts: list[MeasuredPart], first: Estimation, last: Estimation
) -> dict[str, tuple[float, float, float]]:
    """Measured seconds, and those predicted before and after the fit, for both passes and each kind of kernels.

    Returns:
        The three times by the pass or the kernels, in words.
    """

    def in_pass(name: str) -> Callable[[Duration], bool]:
        return lambda d: d.phase in PHASES[name]

    lines = [(name, float(content["seconds"][name]), in_pass(name)) for name in PASSES]
    lines += [(part.what, part.seconds, part.is_of) for part in parts]
    return {what: (seconds, time_of(first, is_of), time_of(last, is_of)) for what, seconds, is_of in lines}


def rows_of(anchor: Anchored) -> dict[str, Any]:
    """The rows of lookup tables with the fitted coefficients, by table and row."""
    layer, rows = label(anchor.content), dict(anchor.content["rows"])
    about = {"aliases": [], "sources": [f"amped calibrate --anchor, amped {__version__}: {layer}"], "fitted_on": layer,
             "anchored_on": layer, "unverified": []}  # fmt: skip
    for table, columns in anchor.values.items():
        name, device_rows = anchor.rows[table], rows.get(table, {})
        row = device_rows.get(name, {"extends": name}) | columns_written(columns) | about | {"fitted": [*columns]}
        rows[table] = device_rows | {name: row}
    return rows


def as_file(anchor: Anchored) -> str:
    """The fitted rows as the text of a file of lookup tables.

    amped reads the file if it is in ./lookup_tables/, or with --lookup-tables.
    """
    return as_text(rows_of(anchor))


def label(content: Content) -> str:
    """The measured layer in words: its sizes, its software, the device and the date."""
    settings, module = content["settings"], content["module"] or "plain PyTorch"
    degree = settings["tensor_parallel_degree"]
    shards = f", one of {degree} tensor-parallel shards" if degree > 1 else ""
    sizes = f"{settings['dimensionality']} wide, {settings['microbatch_size']} x {settings['context']} tokens, "
    sizes += settings["matrix_precision"]
    return f"a layer {sizes}{shards} ({module}, torch {content['software']['torch']}), {content['device']['name']}, {content['date'][:10]}"
