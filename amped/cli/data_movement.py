"""`amped data-movement`: what an encoder layer computes and moves, operator by operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from amped.cli import layer_options, options


@options.bundled(dimensions=layer_options.layer, device=layer_options.device)
def data_movement(
    dimensions: Any,
    device: Any,
    attention: layer_options.Attention = "explicit",
    plan: Path | None = None,
    as_json: bool = False,
) -> None:
    """Print flop, words and class of every operator of an encoder layer, fused and un-fused totals, and MUE.

    MUE, the memory usage efficiency, is the compulsory traffic per measured time, as a share of the peak bandwidth. MUE
    and the share of peak arithmetic need times (--plan). Words are elements; each tensor of an operator counts once.

    Example: amped data-movement --batch 8 --seq 512 --accelerator "V100 SXM2 16GB"

    Options:
        --attention: Scores in memory, or fused attention.
        --plan FILE|NAME: A plan of `amped layouts select`.
    """
    from amped.kernels.tensor_layouts.cost import Device, told
    from amped.kernels.tensor_layouts.plan import read_plan

    seconds: dict[str, float] = {}
    kind: str = attention
    if plan is not None:
        chosen = read_plan(plan)
        dimensions, kind, seconds = chosen.timed, chosen.attention, chosen.seconds
        device = device or Device(*chosen.ceilings, chosen.word_bytes)
    content: dict[str, Any] = told(dimensions, kind, device, seconds)
    if as_json:
        options.show_json(content)
        return
    from amped.report.data_movement import class_totals, operator_tables, saved_by_fusion

    typer.echo(f"Encoder layer, forward and backward: {dimensions}\n")
    for table in operator_tables(content["operators"]):
        options.show(table)
        typer.echo()
    options.show(class_totals(content))
    typer.echo(saved_by_fusion(content))
