"""Tables of what memory-saving techniques save and cost in a measurement, for a terminal and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amped.report import human
from amped.report.tables import Part, drawn, markdown, table

Row = Mapping[str, Any]
Tables = tuple[tuple[Sequence[str], list[list[str]]], ...]


@drawn
def memory_tables(bench: Mapping[str, Any]) -> Iterator[Part]:
    """The machine and the sizes of a measurement, both tables, and sentences on their meaning."""
    yield f"{_where(bench)}\n", "bold"
    for heads, rows in _tables(bench):
        yield table(heads, rows, wrapped=heads)
        yield ""
    yield "\n".join(readings(bench))


def memory_markdown(bench: Mapping[str, Any]) -> str:
    """The tables and their meaning as Markdown."""
    tables = (f"{markdown(heads, rows, '---:')}\n" for heads, rows in _tables(bench))
    return "\n".join([_where(bench), "", *tables, *(f"- {reading}" for reading in readings(bench))]) + "\n"


def _tables(bench: Mapping[str, Any]) -> Tables:
    """The heads and the lines of two tables: what each technique saves, and what each layer keeps."""
    sizes, width = bench["sizes"], {"float32": 4}.get(bench["dtype"], 2)
    residual_bytes = sizes["batch"] * sizes["seq"] * sizes["hidden"] * width
    techniques = [
        [row["name"], f"{row['saved_bytes']:,.0f}", f"{row['expected_bytes']:,.0f}", _added(row["added_time"])]
        for row in bench["techniques"]
    ]
    variants = [_variant(row, residual_bytes) for row in bench["variants"]]
    return (
        (("technique", "bytes saved a layer", "closed form", "time added"), techniques),
        (("layer", "kept, in B·S·H entries", "bytes kept", "time", "pays"), variants),
    )


def readings(bench: Mapping[str, Any]) -> list[str]:
    """Sentences on the meaning of the measurements: which techniques pay."""
    by_name = {row["name"]: row for row in (*bench["techniques"], *bench["variants"])}
    in_place, recomputed = by_name["in_place_activation"], by_name["activation_function_recomputation"]
    is_beaten = (
        recomputed["saved_bytes"] >= in_place["saved_bytes"] and recomputed["step_time"] <= in_place["step_time"]
    )
    verdict = (
        "does not pay: recomputation saves as much in less time" if is_beaten else "is not beaten by recomputation"
    )
    sentences = [
        f"The activation function in place {verdict} ({_bytes(in_place['saved_bytes'])} for "
        f"{_added(in_place['added_time'])}; recomputed {_bytes(recomputed['saved_bytes'])} for {_added(recomputed['added_time'])})."
    ]
    fused, dropout = by_name["fused attention"], by_name["dropout_recomputation"]
    is_fused_better = fused["saved_bytes"] >= dropout["saved_bytes"] and fused["step_time"] <= dropout["step_time"]
    sentences.append(
        f"Dropout recomputation {'does not pay' if is_fused_better else 'may pay'}: fused attention keeps "
        f"{_bytes(fused['saved_bytes'])} less and takes {_added(fused['added_time'])}"
        f" (it saves {_bytes(dropout['saved_bytes'])} for {_added(dropout['added_time'])})."
    )
    paying = [row["name"] for row in bench["variants"] if row["pays"]]
    return [*sentences, f"No other variant keeps as little in as little time: {'; '.join(paying)}."]


@drawn
def conversion_table(trial: Mapping[str, Any]) -> Iterator[Part]:
    """A model before and after its conversion: bytes, time and gradients, then what was converted and what was not."""
    batch = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in trial["batch"].items())
    size, where = human.scaled(trial["parameters"], "", 3), f"{trial['device']}, torch {trial['torch_version']}"
    yield f"{trial['model']}, {size} parameters, {batch}, {trial['dtype']}; {where}, {trial['date']}\n", "bold"
    before, after = ((trial[f"{when}_bytes"], trial[f"{when}_time"]) for when in ("before", "after"))
    rows = [[when, _bytes(kept), _time(took)] for when, (kept, took) in (("before", before), ("after", after))]
    change = [f"{new / old - 1:+.1%}" for old, new in zip(before, after, strict=True)]
    yield table(("", "kept for the backward pass", "forward + backward"), [*rows, ["change", *change]])
    yield f"\nGradients differ by at most {trial['gradient_difference']:.1e} of the largest."
    if trial["target_bytes"] is not None:
        yield f"The target of {_bytes(trial['target_bytes'])} is {'met' if trial['fits'] else 'NOT met'}."
    taken = [kind for kind in trial["kinds"] if not kind["refused"]]
    for technique in dict.fromkeys(kind["technique"] for kind in taken):
        yield ""
        rows = [_taken(kind) for kind in taken if kind["technique"] == technique]
        yield table((technique, "count", "saves", "adds"), rows, wrapped=(technique,))
    if len(taken) < len(trial["kinds"]):
        yield "\n" + "\n".join(_stays(kind) for kind in trial["kinds"] if kind["refused"])


def _taken(kind: Row) -> list[str]:
    """The cells of equal modules that were converted."""
    return [kind["module"], str(kind["count"]), _bytes(kind["saved_bytes"]), _added(kind["added_time"])]


def _stays(kind: Row) -> str:
    """Why equal modules were not converted."""
    return f"{kind['module']} ({kind['count']}): not {kind['technique']}: {kind['refused']}"


def _where(bench: Mapping[str, Any]) -> str:
    """The machine, the software and the sizes of a measurement, as a line."""
    sizes = ", ".join(f"{name} {value}" for name, value in bench["sizes"].items())
    return f"{bench['machine']}, torch {bench['torch_version']}, {bench['dtype']}, {bench['date']}: {sizes}"


def _variant(row: Row, residual_bytes: float) -> list[str]:
    """The cells of a variant of the layer; its kept bytes also in units of `residual_bytes`, one B·S·H tensor."""
    if row["note"]:
        return [row["name"], "", "", row["note"], ""]
    kept = f"{row['kept_bytes'] / residual_bytes:.1f}"
    return [row["name"], kept, _bytes(row["kept_bytes"]), _time(row["step_time"]), "yes" if row["pays"] else "no"]


def _bytes(value: float) -> str:
    return human.scaled(value, "B", 3)


def _time(value: float) -> str:
    """Seconds as text; empty if the time is not a number."""
    return "" if math.isnan(value) else human.scaled(value, "s", 3)


def _added(value: float) -> str:
    """A difference of seconds as text, with its sign."""
    return f"{'+' if value >= 0 else '-'}{_time(abs(value))}"
