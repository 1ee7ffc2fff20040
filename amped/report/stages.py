"""The stages of the pipeline as a table: layers, memory by part, and how long each works and waits."""

from __future__ import annotations

from collections.abc import Iterator

from amped.estimation.estimation import Estimation
from amped.estimation.stages import MODULES, StageLine, stage_lines
from amped.report.human import duration, scaled
from amped.report.summary import heading
from amped.report.tables import Part, drawn, table

GIGABYTE = 1e9
BYTES = ("weight", "gradient", "optimizer_state", "activation", "temporary")
HEADS = ("stage", "has", "params", "weights", "grads", "states", "activations", "other", "GB", "busy", "idle")
LETTERS = {"layers": "", "dense": "d", "mixture": "x", MODULES: "m"}


@drawn
def stage_table(e: Estimation) -> Iterator[Part]:
    """One line for each group of neighboring stages that are alike."""
    yield from heading(e)
    lines = stage_lines(e)
    yield table(HEADS, [_cells(run) for run in _runs(lines)], text=("has",))
    kinds = ", d a dense and x a mixture layer" if "dense" in lines[0].layers else ""
    yield (f"\nE embedding, L output head, m module that predicts further tokens{kinds}; GB of one accelerator", "dim")  # fmt: skip


def _runs(lines: list[StageLine]) -> list[list[StageLine]]:
    """Groups of neighboring stages that differ in nothing but their place."""
    found: list[list[StageLine]] = []
    for line in lines:
        if found and _values(found[-1][-1]) == _values(line):
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _values(line: StageLine) -> list[object]:
    return [value for name, value in vars(line).items() if name != "stage"]


def _cells(run: list[StageLine]) -> list[str]:
    line = run[0]
    parts = [f"{getattr(line, f'{name}_bytes') / GIGABYTE:.1f}" for name in BYTES]
    place = f"{line.stage}" if len(run) == 1 else f"{line.stage} to {run[-1].stage}"
    whole = f"{line.bytes / GIGABYTE:.1f}"
    return [
        place,
        _layers(line),
        scaled(line.parameters, "", 3),
        *parts,
        whole,
        *map(duration, (line.busy_time, line.idle_time)),
    ]


def _layers(line: StageLine) -> str:
    """What a stage holds, in the order of the network."""
    kinds = [f"{n:g}{LETTERS[name]}" for name, n in line.layers.items() if n]
    return " ".join(["E"] * ("embedding" in line.ends) + kinds + ["L"] * ("output head" in line.ends))
