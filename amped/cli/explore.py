"""`amped explore`: all valid mappings, ranked."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amped.cli import options, spreading
from amped.errors import ConfigError

if TYPE_CHECKING:
    from amped.exploration.answer import Exploration
    from amped.exploration.request import Options
    from amped.exploration.running import Run
    from amped.scenario import Scenario


class Format(enum.StrEnum):
    """How to print the ranking."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


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
Space = Annotated[
    SpaceName,
    typer.Option("--space", help="Searched of itself: default, full (every placement, ZeRO 0-3, overlap), degrees."),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="WISH", help='"memory_per_accelerator_bytes < 70 GB and ..."; repeatable.'),
]
Objective = Annotated[
    str, typer.Option("--objective", metavar="NAME", help="What to rank by: any quantity, as step_time, cost, memory.")
]
Largest = Annotated[
    bool | None, typer.Option("--maximize/--minimize", help="Whether more of it is better; else as its name says.")
]
Pareto = Annotated[str | None, typer.Option("--pareto", metavar="A,B", help="Show the front of two quantities beside.")]
Each = Annotated[
    str | None, typer.Option("--each", metavar="NAMES", help="Best of each value of these swept names: A or A,B.")
]
Top = Annotated[int, typer.Option("--top", min=1, max=100_000, metavar="K", help="How many of the best to print.")]
Yes = Annotated[bool, typer.Option("--yes", help="Explore even what takes very long.")]
Form = Annotated[Format, typer.Option("--format", help="table, csv or json.")]
Output = Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write there instead of printing.")]


@options.with_options(asked=options.read, place=spreading.place)
def explore(
    asked: Scenario,
    place: spreading.Place,
    vary: Vary = None,
    space: Space = SpaceName.DEFAULT,
    where: Where = None,
    objective: Objective = "training_time",
    largest: Largest = None,
    pareto: Pareto = None,
    each: Each = None,
    top: Top = 10,
    yes: Yes = False,
    form: Form = Format.TABLE,
    output: Output = None,
    output_dir: options.OutputOption = None,
) -> None:
    """Evaluate every valid mapping and rank them.

    Searched are degrees, micro-batch, virtual stages, recomputation, ZeRO and sequence parallelism (see --space); what
    is set on the command line (--tp 8, --set microbatch_size=1) is held, what --vary lists is swept.

    Example: amped explore --model "Llama 3 70B" --system "DGX H100" --gpus 512 --where "tensor_parallel_degree <= 8"
    """
    from amped.exploration.request import Options
    from amped.exploration.sweeps import parse_vary

    wanted = Options(top, space.value, tuple(where or ()), objective, largest, _two(pareto), _names(each), yes)
    with spreading.running(place, output, output_dir) as run:
        if run is None:  # another MPI process leads, and tells the answer
            return
        for notice in asked.sources.notices:
            typer.echo(f"note: {notice}", err=True)
        refuse_existing(output)
        found = _explored(asked, wanted, parse_vary(vary or []), run, whole=place.shard is None)
    if found:
        tell(found, form, output, output_dir)


def _explored(
    asked: Scenario, wanted: Options, vary: Mapping[str, Sequence[object]], run: Run, whole: bool
) -> Exploration | None:
    """The answer; for a shard none, but a file of findings."""
    from amped.exploration.answer import explored, searched
    from amped.exploration.running import found_in

    if whole:
        return explored(asked, wanted, vary, run)
    search = searched(asked, wanted, vary)
    found = found_in(search, run)
    typer.echo(f"{found.candidates:,} candidates; written to {run.findings}, for `amped merge`", err=True)
    return None


def refuse_existing(output: Path | None) -> None:
    """Nothing is overwritten.

    Raises:
        ConfigError: if the file exists.
    """
    if output is not None and output.exists():
        raise ConfigError(f"{output} exists and is not overwritten", "choose another --output")


def tell(found: Exploration, form: Format, output: Path | None, output_dir: Path | None) -> None:
    """Prints the answer, or writes it to a file."""
    if output is None and output_dir is None:
        _show(found, form)
    else:
        _write(found, form, output, output_dir)


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


def _two(listed: str | None) -> tuple[str, str] | None:
    if listed is None:
        return None
    names = _names(listed)
    if len(names) != 2 or names[0] == names[1]:
        raise ConfigError(f"--pareto {listed!r} is not two quantities", "for example --pareto step_time,cost")
    return names[0], names[1]


def _write(found: Exploration, form: Format, output: Path | None, output_dir: Path | None) -> None:
    from amped.files import output_file, write_atomically

    suffix = "txt" if form is Format.TABLE else form.value
    path = output if output is not None else output_file(output_dir or Path(), f"explore.{suffix}")
    typer.echo(f"written to {write_atomically(path, _text(found, form))}", err=True)


def _show(found: Exploration, form: Format) -> None:
    from amped.report.ranking import ranking

    if form is Format.TABLE:
        options.show(ranking(found))
    else:
        typer.echo(_text(found, form), nl=False)


def _text(found: Exploration, form: Format) -> str:
    """The exploration as plain text."""
    if form is Format.JSON:
        return json.dumps(found.to_dict(), indent=1) + "\n"
    from amped.report.ranking import as_csv, ranking

    return as_csv(found) if form is Format.CSV else options.plain(ranking(found))
