"""`amped layouts`: time the memory layouts of an encoder layer, choose the best, run the layer with them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import typer

from amped.base.files import exists
from amped.cli import layer_options, options

layouts = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Memory layouts of an encoder layer: measure, choose, run."
)


@layouts.command("bench", short_help="Time every operator in every layout.")
@options.bundled(dimensions=layer_options.layer)
def bench(
    dimensions: Any,
    out: Path = Path("output_files/layouts.jsonl"),
    device: str = "cpu",
    dtype: str = "float32",
    dropout: float = 0.1,
    attention: layer_options.Attention = "explicit",
    every: bool = False,
    only: str = "",
    budget: float = 60.0,
    resume: bool = False,
) -> None:
    """Time every operator of an encoder layer in each of its layouts, into a JSON-lines table (or CSV).

    The rows are written every few seconds; --resume goes on with them after an interruption.

    Example: amped layouts bench --batch 2 --seq 64 --heads 4 --hidden 64 -o times.jsonl

    Options:
        --out -o FILE: File to write; never over another.
        --device: cpu or cuda.
        --dtype: float64, float32, bfloat16 or float16.
        --dropout P: Probability that dropout zeroes a value.
        --attention: Scores in memory, or fused attention.
        every --all: Also layouts that no whole layer can use.
        --only NAME,…: Only these operators.
        --budget SECONDS 0.0..: Time for repeats after four calls of each.
        --resume: Go on with the file: measure what it lacks.
    """
    from amped.kernels.tensor_layouts.bench import Bench, run
    from amped.kernels.tensor_layouts.table import read_table

    before = read_table(out) if resume and exists(out) else None
    if before is None:
        options.refuse_existing(out, "-o")
    request = Bench(dimensions, device, dtype, dropout, attention, every, budget, options.names(only))
    table = run(request, _progress, before, lambda so_far: so_far.write(out, overwrite=True))
    path = table.write(out, overwrite=True)
    from amped.report.tensor_layouts import spread

    options.show(spread(table.rows))
    options.tell(f"written to {path}")


def _progress(done: int, total: int) -> None:
    """Prints after every 50 layouts how many of them are done, on one line of stderr."""
    if done % 50 == 0 or done == total:
        typer.echo(f"\r{done} of {total} layouts", err=True, nl=done == total)


@layouts.command("select", short_help="Choose the layouts of a whole layer.")
@options.with_options
def select(
    table: Path,
    out: Path | None = None,
    batch: int = 0,
    attention: layer_options.Attention = "explicit",
    as_json: bool = False,
) -> None:
    """Choose the layout of every tensor of the layer, forward and backward, from measured times.

    Example: amped layouts select times.jsonl -o plan.json

    Options:
        table TABLE: Times of `amped layouts bench`.
        --out -o FILE: Write the plan here, as JSON.
        --batch -b N: Sequences to plan for, if fewer were timed.
        --attention: Scores in memory, or fused attention.
    """
    from amped.kernels.tensor_layouts.exact import select as chosen
    from amped.kernels.tensor_layouts.plan import write_plan, written
    from amped.kernels.tensor_layouts.table import read_table

    options.refuse_existing(out, "-o")
    plan = chosen(read_table(table), attention, batch)
    if as_json:
        typer.echo(written(plan), nl=False)
    else:
        from amped.report.tensor_layouts import plan_lines, plan_summary

        options.show(plan_lines(plan.layouts))
        typer.echo(plan_summary(plan))
    if out is not None:
        options.tell(f"written to {write_plan(plan, out)}")


@layouts.command("run", short_help="Time a layer with a plan's layouts.")
@options.with_options
def run(
    plan: str,
    batch: int | None = None,
    seq: int | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    dropout: float = 0.1,
    compiled: bool = True,
    budget: float = 30.0,
    as_json: bool = False,
) -> None:
    """Time the layer with a plan's layouts, forward and backward, beside torch eager, with SDPA and compiled.

    Example: amped layouts run b8-l512 --batch 1

    Options:
        plan PLAN: A plan's file, or b8-l512 or b96-l128.
        --batch -b N: Instead of the plan's.
        --seq -l N: Instead of the plan's.
        --device: cpu or cuda.
        --dtype: float64, float32, bfloat16 or float16.
        --dropout P: Probability that dropout zeroes a value.
        compiled --compile/--no-compile: Also torch.compile.
        --budget SECONDS 0.0..: Time for repeats.
    """
    from dataclasses import replace

    from amped.kernels.tensor_layouts.plan import read_plan
    from amped.kernels.tensor_layouts.running import compare

    chosen = read_plan(plan)
    sizes = replace(chosen.dimensions, batch=batch or chosen.dimensions.batch, seq=seq or chosen.dimensions.seq)
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        about, runs = compare(chosen, sizes, device, dtype, dropout, budget, compiled)
    for text in dict.fromkeys(str(record.message) for record in records if record.category.__name__ == "PlanWarning"):
        options.tell(f"amped: {text}")
    if as_json:
        options.show_json({"measured": about, "runs": [vars(record) for record in runs]})
        return
    from amped.layers.published import encoder_times
    from amped.report.tensor_layouts import predicted_and_measured, runs_table

    typer.echo(f"{about['device']}, {about['dtype']}, dropout {dropout}, {sizes}\n")
    options.show(runs_table([vars(record) | {"total": record.total} for record in runs], encoder_times(**vars(sizes))))
    predicted = chosen.predicted_without_input_gradient
    if sizes == chosen.timed and predicted and runs[-1].total:
        typer.echo(predicted_and_measured(1e6 * predicted, 1e6 * runs[-1].total, chosen.measured, about))
