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
    """Where it was measured, both tables, and what they mean."""
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
    stream = sizes["batch"] * sizes["seq"] * sizes["hidden"] * width
    techniques = [
        [row["name"], f"{row['saved_bytes']:,.0f}", f"{row['expected_bytes']:,.0f}", _added(row["added_time"])]
        for row in bench["techniques"]
    ]
    variants = [_variant(row, stream) for row in bench["variants"]]
    return (
        (("technique", "bytes saved a layer", "closed form", "time added"), techniques),
        (("layer", "kept, in B·S·H entries", "bytes kept", "time", "pays"), variants),
    )


def readings(bench: Mapping[str, Any]) -> list[str]:
    """What the measurements mean, in sentences."""
    by = {row["name"]: row for row in (*bench["techniques"], *bench["variants"])}
    in_place, again = by["in_place_activation"], by["activation_function_recomputation"]
    beaten = again["saved_bytes"] >= in_place["saved_bytes"] and again["step_time"] <= in_place["step_time"]
    verdict = "does not pay: recomputation saves as much in less time" if beaten else "is not beaten by recomputation"
    sentences = [
        f"The activation function in place {verdict} ({_bytes(in_place['saved_bytes'])} for "
        f"{_added(in_place['added_time'])}; recomputed {_bytes(again['saved_bytes'])} for {_added(again['added_time'])})."
    ]
    fused, dropout = by["fused attention"], by["dropout_recomputation"]
    saves = fused["saved_bytes"] >= dropout["saved_bytes"] and fused["step_time"] <= dropout["step_time"]
    sentences.append(
        f"Dropout recomputation {'does not pay' if saves else 'may pay'}: fused attention keeps "
        f"{_bytes(fused['saved_bytes'])} less and takes {_added(fused['added_time'])}"
        f" (it saves {_bytes(dropout['saved_bytes'])} for {_added(dropout['added_time'])})."
    )
    paying = [row["name"] for row in bench["variants"] if row["pays"]]
    return [*sentences, f"No other variant keeps as little in as little time: {'; '.join(paying)}."]


def _where(bench: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in bench["sizes"].items())
    return f"{bench['machine']}, torch {bench['torch_version']}, {bench['dtype']}, {bench['date']}: {sizes}"


def _variant(row: Row, stream: float) -> list[str]:
    if row["note"]:
        return [row["name"], "", "", row["note"], ""]
    kept = f"{row['kept_bytes'] / stream:.1f}"
    return [row["name"], kept, _bytes(row["kept_bytes"]), _time(row["step_time"]), "yes" if row["pays"] else "no"]


def _bytes(value: float) -> str:
    return human.scaled(value, "B", 3)


def _time(value: float) -> str:
    return "" if math.isnan(value) else human.scaled(value, "s", 3)


def _added(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{_time(abs(value))}"
