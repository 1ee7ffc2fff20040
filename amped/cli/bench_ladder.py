"""`amped bench ladder`: one GPT layer from plain torch to fp8, measured and predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from amped.cli import options
from amped.cli.bench_fit import AcceleratorOption, coefficients_of

if TYPE_CHECKING:
    from amped.kernels.ladder.analytic import Board

RungsOption = Annotated[str | None, Option("--rungs", metavar="A,B,…", help="Only these rungs, by name.")]


def ladder(
    hidden: Annotated[int, Option(help="Width of the layer.")] = 4096,
    ffn: Annotated[int, Option(help="Width of its feed-forward network.")] = 16384,
    heads: Annotated[int, Option(help="Attention heads.")] = 32,
    seq: Annotated[int, Option(help="Tokens of a sequence.")] = 2048,
    batch: Annotated[int, Option(help="Sequences.")] = 4,
    dropout: Annotated[float, Option(help="Share dropped out.")] = 0.1,
    causal: Annotated[bool, Option(help="Mask the future.")] = False,
    device: Annotated[str | None, Option("--device", help="cpu or cuda; a GPU where there is one.")] = None,
    dtype: Annotated[str | None, Option("--dtype", metavar="FORMAT", help="fp32, bf16 or fp16.")] = None,
    rungs: RungsOption = None,
    warm_up: Annotated[int, Option("--warm-up", min=0, help="Passes that do not count.")] = 10,
    passes: Annotated[int, Option("--passes", min=1, help="Passes that do.")] = 20,
    accelerator: AcceleratorOption = None,
    as_json: Annotated[bool, Option("--json", help="Print the rungs as JSON.")] = False,
    plot: Annotated[
        bool, Option("--plot", help="Draw measured and predicted times, ladder.png and ladder.svg.")
    ] = False,
    output_dir: options.OutputOption = None,
    lookup_tables: options.TablesOption = None,
) -> None:
    """Climb the layer ladder: one GPT layer as rungs that share parameters, each checked against the first and timed.

    Rungs: eager, functional, sdpa, compiled, graph, fp8_dynamic, fp8_delayed, transformer_engine.

    Example: amped bench ladder --hidden 256 --ffn 1024 --heads 4 --seq 128 --batch 2 --device cpu
    """
    from amped.kernels.ladder.climbing import RUNGS, climbed
    from amped.kernels.ladder.shape import Shape
    from amped.kernels.torch_import import chosen_device, chosen_format

    where = chosen_device(device)
    shape = Shape(hidden, ffn, heads, seq, batch, chosen_format(dtype, where), dropout, causal)
    board, name = _board(where, shape.dtype, accelerator, lookup_tables)
    wanted = tuple(part.strip() for part in rungs.split(",")) if rungs else RUNGS
    rows = [_told(row) for row in climbed(shape, where, wanted, board, warm_up, passes)]
    _show(rows, vars(shape), name, as_json)
    if plot:
        _draw(rows, name, output_dir or options.DEFAULT_FOLDER)


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A rung's row, as soon as it is there."""
    typer.echo(f"{row['rung']}: {row['skipped'] or format(row['ms'], '.2f') + ' ms'}", err=True)
    return row


def _board(device: str, dtype: str, accelerator: str | None, lookup_tables: Path | None) -> tuple[Board | None, str]:
    """The two constants of this machine by its row of kernel efficiencies, and its name; none where it has no row."""
    from amped.base.errors import AmpedError
    from amped.base.version import __version__
    from amped.kernels.bench import prepared
    from amped.kernels.ladder.analytic import Board
    from amped.kernels.machine import machine_of
    from amped.kernels.predicting import SUSTAINED
    from amped.kernels.rows import base_row
    from amped.tables.table_files import user_folders
    from amped.tables.tables import Tables

    tables, fresh = Tables(user_folders(lookup_tables)), prepared(device, 1, __version__)
    name = str(fresh["device"]["name"])
    try:
        machine = machine_of(fresh, tables, accelerator, known_ones=True)
    except AmpedError as error:
        typer.echo(f"not predicted: {error}", err=True)
        return None, name
    own = coefficients_of(tables, base_row(tables, machine.name, machine.known))
    peak = machine.peaks.get(dtype) or max(machine.peaks.values())
    beside = (own.get("elementary_function_time", 0.0), own.get("random_number_time", 0.0))
    shares = own[SUSTAINED[dtype]], own["memory_bandwidth_efficiency"]
    return Board(peak, machine.bandwidth, *shares, *beside), name


def _show(rows: list[dict[str, Any]], shape: dict[str, Any], name: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"device": name, "shape": shape, "rungs": rows}, indent=1))
        return
    from amped.report.benching import ladder as table

    options.show(table(rows, f"{name}: {', '.join(f'{n} {v}' for n, v in shape.items())}"))


def _draw(rows: list[dict[str, Any]], name: str, folder: Path) -> None:
    from amped.base.files import free_stamp, output_file, write_atomically
    from amped.report.bench_plots import ladder_bars

    names = ["ladder.png", "ladder.svg"]
    stamp = free_stamp(folder, names)
    for each in names:
        drawn = ladder_bars([row for row in rows if row["ms"]], name, each[-3:])
        typer.echo(f"written to {write_atomically(output_file(folder, each, stamp), drawn)}", err=True)
