"""The stages of the pipeline: layers, memory by part, and how long each works and waits; as a table of a terminal and of a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from amped.estimation.estimation import Estimation
from amped.estimation.stages import MODULES, StageLine, stage_lines
from amped.report.human import GIGA, duration, scaled
from amped.report.summary import heading
from amped.report.tables import Part, drawn, table

# The bytes of each use, with their heads on a page; and all heads on a terminal.
USES = {"weight_bytes": "weights", "gradient_bytes": "gradients", "optimizer_state_bytes": "optimizer states",
        "activation_bytes": "activations", "temporary_bytes": "temporary"}  # fmt: skip
HEADS = ("stage", "has", "params", "weights", "grads", "states", "activations", "other", "GB", "busy", "idle")
LETTERS = {"layers": "", "dense": "d", "mixture": "x", "attention": "a", "linear attention": "l", MODULES: "m"}
# What the letters of kinds mean.
MEANINGS = {"d": "d dense", "x": "x mixture of experts", "a": "a attention", "l": "l linear attention"}
# A row: the stage, what it holds, its parameters, its bytes by use and together, and the seconds in which it works and waits.
Row = tuple[Any, ...]


@drawn
def stage_table(e: Estimation) -> Iterator[Part]:
    """One line for each group of neighboring stages that are alike."""
    yield from heading(e)
    rows = stage_rows(stage_lines(e))
    runs = [[*run] for _, run in groupby(rows, key=lambda row: row[1:])]
    yield table(HEADS, map(_cells, runs), text=("has",))
    yield f"\n{meaning(rows)}; GB of one accelerator", "dim"


def stage_rows(lines: list[StageLine]) -> list[Row]:
    """The row of each stage: its layers, parameters, memory by use, and the busy and idle seconds of a step."""
    return [
        (float(line.stage), _layers(line), line.parameters, *(getattr(line, name) for name in USES), line.bytes, line.busy_time,
         line.idle_time)
        for line in lines
    ]  # fmt: skip


def meaning(rows: list[Row]) -> str:
    """A sentence on the meaning of the letters in the column of layers."""
    letters = set("".join(str(row[1]) for row in rows))
    kinds = "".join(f", {meaning}" for letter, meaning in MEANINGS.items() if letter in letters)
    tower = "T tower, " if "T" in letters else ""
    return f"{tower}E embedding, L output head, m module that predicts further tokens{kinds}"


def _cells(run: list[Row]) -> list[str]:
    """The cells of one line for a run of neighboring stages that are alike."""
    stage, layers, parameters, *sizes, busy, idle = run[0]
    place = f"{stage:g}" if len(run) == 1 else f"{stage:g} to {run[-1][0]:g}"
    gigabytes = (f"{size / GIGA:.1f}" for size in sizes)
    return [place, layers, scaled(parameters, "", 3), *gigabytes, duration(busy), duration(idle)]


def _layers(line: StageLine) -> str:
    """The layers of a stage as text, in the order of the network: E 4d 12x L."""
    layers = [f"{number:g}{_letters(kind)}" for kind, number in line.layers.items() if number]
    first = [letter for end, letter in {"tower": "T", "embedding": "E"}.items() if end in line.ends]
    return " ".join(first + layers + ["L"] * ("output head" in line.ends))


def _letters(kind: str) -> str:
    """The letters of a kind of layer: one for each word of its name that tells it from others."""
    return "".join(LETTERS[word] for word in kind.split(", "))
