"""`amped explore`: all valid mappings, ranked."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amped.base.errors import ConfigError
from amped.cli import options, spreading
from amped.cli.explore_output import BarePlot, Outputs, names, outputs_of

if TYPE_CHECKING:
    from amped.configuring.scenario import Scenario
    from amped.exploration.request import Options
    from amped.exploration.running import Run

COMMAND = {"cls": BarePlot, "epilog": spreading.EXAMPLES}


class SpaceName(enum.StrEnum):
    """What is searched of itself."""

    DEFAULT = "default"
    FULL = "full"
    DEGREES = "degrees"


Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME=VALUES",
        help="Sweep a parameter or a row: A,B,C or LOW:HIGH:STEP or LOW:HIGH:xFACTOR, with :UNIT behind; repeatable.",
    ),
]


def wanted_of(
    space: Annotated[
        SpaceName,
        typer.Option(
            "--space", help="Searched of itself: default, full (every placement, ZeRO 0-3, overlap), degrees."
        ),
    ] = SpaceName.DEFAULT,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="WISH", help='"memory_per_accelerator_bytes < 70 GB and ..."; repeatable.'),
    ] = None,
    objective: Annotated[
        str,
        typer.Option("--objective", metavar="NAME", help="What to rank by: any quantity, as step_time, cost, memory."),
    ] = "training_time",
    largest: Annotated[
        bool | None, typer.Option("--maximize/--minimize", help="Whether more of it is better; else as its name says.")
    ] = None,
    pareto: Annotated[
        str | None, typer.Option("--pareto", metavar="A,B", help="Show the front of two quantities beside.")
    ] = None,
    each: Annotated[
        str | None, typer.Option("--each", metavar="NAMES", help="Best of each value of these swept names: A or A,B.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=100_000, metavar="K", help="How many of the best to keep.")] = 10,
    yes: Annotated[bool, typer.Option("--yes", help="Explore even what takes very long.")] = False,
) -> Options:
    """How to search and rank."""
    from amped.exploration.request import Options

    return Options(top, space.value, tuple(where or ()), objective, largest, _two(pareto), names(each), yes)


@options.bundled(asked=options.read, wanted=wanted_of, outputs=outputs_of, place=spreading.place)
def explore(
    asked: Scenario,
    wanted: Options,
    outputs: Outputs,
    place: spreading.Place,
    vary: Vary = None,
) -> None:
    """Evaluate every valid mapping and rank them.

    Searched are degrees, micro-batch, virtual stages, recomputation, ZeRO and sequence parallelism (see --space); what
    is set on the command line (--tp 8, --set microbatch_size=1) is held, what --vary lists is swept.

    Example: amped explore --gpus 512 --where "tensor_parallel_degree <= 8"

    \b
    Example: amped explore --top 3 --save-best winners
             amped estimate --config winners/best-01.json
    Example: amped explore --keep-all --output every.parquet
    Example: amped explore --vary number_of_accelerators=128:4096:x2 \\
             --vary "system=Selene,DGX H100" --plot
    Example: amped explore --plot heatmap \\
             --along tensor_parallel_degree,pipeline_parallel_degree
    """  # noqa: D301 (the backspace keeps lines as they are)
    from amped.exploration.sweep_syntax import parse_vary

    _refuse_both(outputs, place)
    with spreading.running(place, outputs.output, outputs.folder) as run:
        if run is None:  # another MPI process leads, and tells the answer
            return
        for notice in asked.sources.notices:
            typer.echo(f"note: {notice}", err=True)
        named = (wanted.objective, *wanted.where, *(wanted.pareto or ()), *wanted.each, *outputs.along, *(vary or ()))
        options.tell_former_names(*named)
        sweeps = parse_vary(vary or [])
        if place.shard is not None:
            _share(asked, wanted, sweeps, run)
        else:
            _whole(asked, wanted, sweeps, run, outputs)


def _refuse_both(outputs: Outputs, place: spreading.Place) -> None:
    """What is written of every candidate is written as all are evaluated, from the first to the last."""
    partial = {"--resume": place.resume, "--shard": place.shard}
    of_some = [option for option, value in partial.items() if value is not None]
    if outputs.keep_all and of_some:
        told = f"--keep-all and {of_some[0]} do not go together: a file of findings has the best of each part, not every row"
        raise ConfigError(told, "leave one of them out")
    if place.shard is not None and (outputs.save_best or outputs.plot):
        raise ConfigError("a shard has no winners to save or to plot", "ask `amped merge` of all of them for the best")


def _whole(asked: Scenario, wanted: Options, sweeps: Mapping[str, Any], run: Run, outputs: Outputs) -> None:
    """Explores, and writes the answer where it is wanted."""
    from amped.exploration.answer import explored

    outputs.check()
    drawn = outputs.drawing(asked, sweeps, wanted)
    with outputs.every() as keep:
        beside = outputs.output.parent if outputs.output else outputs.folder
        found = explored(asked, outputs.needed(wanted, drawn), sweeps, replace(run, keep=keep, beside=beside))
    outputs.tell(asked, found, drawn, bool(wanted.each))


def _share(asked: Scenario, wanted: Options, sweeps: Mapping[str, Any], run: Run) -> None:
    """Explores one share; it has no answer, but a file of findings."""
    from amped.exploration.answer import searched
    from amped.exploration.running import found_in

    found = found_in(searched(asked, wanted, sweeps), run)
    typer.echo(f"{found.candidates:,} candidates; written to {run.findings}, for `amped merge`", err=True)


def _two(listed: str | None) -> tuple[str, str] | None:
    if listed is None:
        return None
    two = names(listed)
    if len(two) != 2 or two[0] == two[1]:
        raise ConfigError(f"--pareto {listed!r} is not two quantities", "for example --pareto step_time,cost")
    return two[0], two[1]
