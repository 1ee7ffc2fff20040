"""`amped layouts`: time the memory layouts of an encoder layer, choose the best, run the layer with them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from amped.base.files import exists
from amped.cli import layer_options, options

layouts = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Memory layouts of an encoder layer: measure, choose, run."
)
OutOption = Annotated[Path, Option("--out", "-o", metavar="FILE", help="File to write; never over another.")]
DeviceOption = Annotated[str, Option("--device", help="cpu or cuda.")]
DtypeOption = Annotated[str, Option("--dtype", help="float64, float32, bfloat16 or float16.")]
DropoutOption = Annotated[float, Option("--dropout", metavar="P", help="Probability that dropout zeroes a value.")]


@layouts.command("bench", short_help="Time every operator in every layout.")
@options.bundled(dimensions=layer_options.layer)
def bench(
    dimensions: Any,
    out: OutOption = Path("output_files/layouts.jsonl"),
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    dropout: DropoutOption = 0.1,
    attention: layer_options.AttentionOption = "explicit",
    every: Annotated[bool, Option("--all", help="Also layouts that no whole layer can use.")] = False,
    only: Annotated[str, Option(metavar="NAME,…", help="Only these operators.")] = "",
    budget: Annotated[
        float, Option(metavar="SECONDS", min=0.0, help="Time for repeats after four calls of each.")
    ] = 60.0,
    resume: Annotated[bool, Option("--resume", help="Go on with the file: measure what it lacks.")] = False,
) -> None:
    """Time every operator of an encoder layer in each of its layouts, into a JSON-lines table (or CSV).

    The rows are written every few seconds; --resume goes on with them after an interruption.

    Example: amped layouts bench --batch 2 --seq 64 --heads 4 --hidden 64 -o times.jsonl
    """
    from amped.kernels.tensor_layouts.bench import Bench, run
    from amped.kernels.tensor_layouts.table import read_table

    before = read_table(out) if resume and exists(out) else None
    if before is None:
        options.refuse_existing(out, "-o")
    asked = Bench(dimensions, device, dtype, dropout, attention, every, budget, options.names(only))
    table = run(asked, _progress, before, lambda so_far: so_far.write(out, overwrite=True))
    path = table.write(out, overwrite=True)
    from amped.report.tensor_layouts import spread

    options.show(spread(table.rows))
    options.tell(f"written to {path}")


def _progress(done: int, of: int) -> None:
    if done % 50 == 0 or done == of:
        typer.echo(f"\r{done} of {of} layouts", err=True, nl=done == of)


@layouts.command("select", short_help="Choose the layouts of a whole layer.")
def select(
    table: Annotated[Path, Argument(metavar="TABLE", help="Times of `amped layouts bench`.")],
    out: Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="Write the plan here, as JSON.")] = None,
    batch: Annotated[int, Option("--batch", "-b", metavar="N", help="Sequences to plan for, if fewer were timed.")] = 0,
    attention: layer_options.AttentionOption = "explicit",
    as_json: options.JsonOption = False,
) -> None:
    """Choose the layout of every tensor of the layer, forward and backward, from measured times.

    Example: amped layouts select times.jsonl -o plan.json
    """
    from amped.kernels.tensor_layouts.plan import write_plan, written
    from amped.kernels.tensor_layouts.select import select as chosen
    from amped.kernels.tensor_layouts.table import read_table

    options.refuse_existing(out, "-o")
    plan = chosen(read_table(table), attention, batch)
    if as_json:
        typer.echo(written(plan), nl=False)
    else:
        from amped.report.tensor_layouts import plan_lines, plan_summary

        options.show(plan_lines(plan.layouts))
        typer.echo(plan_summary(plan.strategy, plan.predicted_us, plan.lower_bound_us, plan.gap))
    if out is not None:
        options.tell(f"written to {write_plan(plan, out)}")


@layouts.command("run", short_help="Time a layer with a plan's layouts.")
def run(
    plan: Annotated[str, Argument(metavar="PLAN", help="A plan's file, or b8-l512 or b96-l128.")],
    batch: Annotated[int | None, Option("--batch", "-b", metavar="N", help="Instead of the plan's.")] = None,
    seq: Annotated[int | None, Option("--seq", "-l", metavar="N", help="Instead of the plan's.")] = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    dropout: DropoutOption = 0.1,
    compiled: Annotated[bool, Option("--compile/--no-compile", help="Also torch.compile.")] = True,
    budget: Annotated[float, Option(metavar="SECONDS", min=0.0, help="Time for repeats.")] = 30.0,
    as_json: options.JsonOption = False,
) -> None:
    """Time the layer with a plan's layouts, forward and backward, beside torch eager, with SDPA and compiled.

    Example: amped layouts run b8-l512 --batch 1
    """
    from dataclasses import replace

    from amped.kernels.tensor_layouts.plan import read_plan
    from amped.kernels.tensor_layouts.running import compare

    chosen = read_plan(plan)
    sizes = replace(chosen.dimensions, batch=batch or chosen.dimensions.batch, seq=seq or chosen.dimensions.seq)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        about, runs = compare(chosen, sizes, device, dtype, dropout, budget, compiled)
    for text in dict.fromkeys(str(each.message) for each in told if each.category.__name__ == "PlanWarning"):
        options.tell(f"amped: {text}")
    if as_json:
        options.show_json({"measured": about, "runs": [vars(each) for each in runs]})
        return
    from amped.layers.published import encoder_times
    from amped.report.tensor_layouts import predicted_and_measured, runs_table

    typer.echo(f"{about['device']}, {about['dtype']}, dropout {dropout}, {sizes}\n")
    options.show(runs_table([vars(each) | {"total": each.total} for each in runs], encoder_times(**vars(sizes))))
    predicted = chosen.predicted_without_input_gradient
    if sizes == chosen.timed and predicted and runs[-1].total:
        typer.echo(predicted_and_measured(1e6 * predicted, 1e6 * runs[-1].total, chosen.measured, about))
