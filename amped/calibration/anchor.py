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
        content: the anchor's file.
        rows: the rows of the accelerator's kernels and of the software that the layer used, by table.
        values: the fitted value of each coefficient, by table and column.
        before: the value of each before.
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
        FileError: if it is no such file, with the JSON path of each problem.
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
    """The times that are missing, or that no clock can give."""
    times = {f"seconds.{part}": content["seconds"].get(part) for part in PHASES}
    for part in PASSES:
        kinds = content["parts"].get(part)
        for kind in ("products", "attention", "rest"):
            times[f"parts.{part}.{kind}"] = kinds.get(kind) if isinstance(kinds, dict) else None
    for place, time in times.items():
        if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < float("inf"):
            yield Problem(f"{quoted(time)} is no time in seconds", place, "measure again: amped bench anchor")


def anchored(content: Content, lookup_tables: LookupTables = None) -> Anchored:
    """Fits each coefficient that the anchor determines, one after the other: attention runs at the clock of the products.

    Raises:
        AmpedError: if the layer cannot be estimated.
    """
    fitted: dict[str, float] = {}
    held: list[str] = []
    with layered(content, lookup_tables) as tables:
        settings = {"accelerator": content["accelerator"], **content["settings"]}

        def estimate(values: Mapping[str, float]) -> Estimation:
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
    """The user's lookup tables, over the rows of a device that no table has."""
    if not content["rows"]:
        yield lookup_tables
        return
    with temporary_file(content["rows"]) as device:
        yield (device, *table_paths(lookup_tables))


def _measured_parts(content: Content, e: Estimation) -> list[MeasuredPart]:
    """The measured times that determine a coefficient."""
    parts, kernels = content["parts"], KERNELS
    sustained = SUSTAINED.get(e.choices["matrix_precision"], "gemm_sustained_fraction")
    if content["device"].get("kind") == "cuda":
        sustained = CLOCK

    def seconds(kind: str, *passes: str) -> float:
        return sum(float(parts[name][kind]) for name in passes or parts)

    # The embedding, which the layer lacks, is updated, too: the time is that of as many parameters as the estimate has.
    updated = e.results.number("device_updated_parameters")
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
    return [part for part in measured if part.seconds > 0 and time_of(e, part.is_of) > 0]


def time_of(e: Estimation, is_of: Callable[[Duration], bool]) -> float:
    """The predicted time of some operators of a layer and of the optimizer's step."""
    durations = (*e.results.records("layer_durations"), *e.results.records("optimizer_durations"))
    return float(sum(d.time * d.count for d in durations if is_of(d)))


def _value(e: Estimation, name: str) -> float:
    """The coefficient that an estimate used."""
    chosen = plan(e.scenario.catalogue, (name,), e.scenario.sources)
    return float({**chosen.defaults, **e.scenario.sources.given}[name])


def _solved(
    part: MeasuredPart, start: float, estimate: Callable[[Mapping[str, float]], Estimation]
) -> tuple[float, bool]:
    """The value with which the predicted time is the measured one, and whether there is none.

    There is none beyond a limit of the coefficient, or below a time that the coefficient does not change. A time grows
    with traffic, or with the inverse of a rate: in lines that get steeper, since something else limits a kernel at first.
    So each step takes the line through the last two values, and twice the value where that is level.
    """
    power = -1 if part.table == KERNELS else 1
    low, high = sorted(limit**power for limit in _limits(part.column))

    def time_at(x: float) -> float:
        return time_of(estimate({part.column: x**power}), part.is_of)

    before = start**power
    x = before / 2 if before / 2 >= low else low if before > low else min(2 * before, high)
    time_before, time = time_at(before), time_at(x)
    for _ in range(MOST_STEPS):
        if abs(time / part.seconds - 1) < CLOSE:
            return x**power, False
        level = time == time_before
        if level and time > part.seconds:
            break
        steeper = 2 * max(x, before) if level else x + (part.seconds - time) * (x - before) / (time - time_before)
        before, time_before, x = x, time, min(max(steeper, low), high)
        if x == before:
            break
        time = time_at(x)
    return x**power, True


def _limits(name: str) -> tuple[float, float]:
    """The limits that the coefficient's own definition sets."""
    mark = catalogue()[name].mark
    low = next((limit for limit in (mark.above, mark.at_least) if limit is not None), 0.0)
    return max(low, LEAST), MOST if mark.at_most is None else mark.at_most


def _compared(
    content: Content, parts: list[MeasuredPart], first: Estimation, last: Estimation
) -> dict[str, tuple[float, float, float]]:
    """Measured seconds beside those predicted before and now: of both passes, and of the kinds of kernels."""

    def of_pass(name: str) -> Callable[[Duration], bool]:
        return lambda d: d.phase in PHASES[name]

    lines = [(name, float(content["seconds"][name]), of_pass(name)) for name in PASSES]
    lines += [(part.what, part.seconds, part.is_of) for part in parts]
    return {what: (seconds, time_of(first, is_of), time_of(last, is_of)) for what, seconds, is_of in lines}


def as_file(anchor: Anchored) -> str:
    """The rows as a file of lookup tables; amped reads it if it is in ./lookup_tables/, or with --lookup-tables."""
    layer, rows = label(anchor.content), dict(anchor.content["rows"])
    about = {"aliases": [], "sources": [f"amped calibrate --anchor, amped {__version__}: {layer}"], "fitted_on": layer,
             "anchored_on": layer, "unverified": []}  # fmt: skip
    for table, columns in anchor.values.items():
        name, device = anchor.rows[table], rows.get(table, {})
        row = device.get(name, {"extends": name}) | columns_written(columns) | about | {"fitted": [*columns]}
        rows[table] = device | {name: row}
    return as_text(rows)


def label(content: Content) -> str:
    """The layer, in words."""
    s, module = content["settings"], content["module"] or "plain PyTorch"
    shards = f", one of {s['tensor_parallel_degree']} tensor-parallel shards" if s["tensor_parallel_degree"] > 1 else ""
    sizes = f"{s['dimensionality']} wide, {s['microbatch_size']} x {s['context']} tokens, {s['matrix_precision']}"
    return f"a layer {sizes}{shards} ({module}, torch {content['software']['torch']}), {content['device']['name']}, {content['date'][:10]}"
