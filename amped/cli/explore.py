"""`amped explore`: all valid mappings, ranked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from amped.base.errors import ConfigError
from amped.cli import options, spreading, sweeping
from amped.cli.explore_output import BarePlot, Outputs

if TYPE_CHECKING:
    from amped.exploration.request import Options
    from amped.exploration.running import Run

COMMAND = {"cls": BarePlot, "epilog": spreading.EXAMPLES}


# The spaces that can be searched.
SpaceName = Literal["quick", "default", "full", "memory", "degrees"]


def wanted_of(
    space: SpaceName = "default",
    where: list[str] | None = None,
    objective: str = "training_time",
    largest: bool | None = None,
    pareto: str | None = None,
    each: str | None = None,
    yes: bool = False,
) -> Options:
    """How to search and to rank.

    Search:
        --space: What is searched.
        --where WISH: "memory < 70 GB and tp <= 8"; repeatable.
        --objective NAME: Rank by: step_time, cost, memory, MFU, …
        largest --maximize/--minimize: Which is better; else the name decides.
        --pareto A,B: Show the Pareto front of two quantities, too.
        --each NAMES: Best of each value of these swept names.
        --yes: Explore even a very large space.
    """
    from amped.exploration.request import Options

    return Options(DEFAULT_TOP, space, tuple(where or ()), objective, largest, _two(pareto), options.names(each), yes)


# How many of the best are kept if the user does not say.
DEFAULT_TOP = 10


# The place comes first: with MPI, it limits libraries before the others load them.
@options.bundled(place=spreading.Place, asking=options.asked, wanted=wanted_of, outputs=Outputs)
def explore(
    asking: options.Asking,
    wanted: Options,
    outputs: Outputs,
    place: spreading.Place,
    vary: list[str] | None = None,
    top: int | None = None,
) -> None:
    """Evaluate every valid mapping and rank them; with --vary, show the best of each value.

    It searches degrees (those of experts, too), micro-batch, virtual stages, recomputation, ZeRO, sequence parallelism
    and fused attention; if nothing fits, also offload and recomputation of single modules. --space quick has what
    usually wins, degrees has degrees and micro-batches alone, full adds every placement and overlap, memory offload and
    modules. What is set on the command line (--tp 8) is held.

    --vary sweeps a parameter or a row: NAME=A,B,C or NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:xFACTOR, with :UNIT at the end
    where the values need one; a value with a comma stands in double quotes. The answer has one row for each value; with
    --top, --each, --plot and the like, all are ranked together.

    Example: amped explore --model "Llama 3 8B" --gpus 16 --vary system="DGX H100,DGX B200"

    Search:
        --vary NAME=VALUES: Sweep: tp=1,2,4 or gbs=8:64:x2; repeatable.
        --top K 1..100000: How many of the best to keep, else 10.
    """
    _refuse_both(outputs, place)
    with spreading.running(place, outputs.output, outputs.output_dir) as run:
        if run is None:  # another MPI process leads, and prints the result
            return
        texts = vary or []
        names = (wanted.objective, *wanted.where, *(wanted.pareto or ()), *wanted.each, outputs.along or "")
        options.tell_names(*names, *(text.partition("=")[0].strip() for text in texts))
        sweeps = sweeping.read(asking, texts)
        if sweeps and top is None and not _ranked(wanted, outputs, place) and sweeping.is_short(sweeps):
            outputs.check()
            outputs.tell_sweep(sweeping.swept(asking, sweeps, wanted, run))
        else:
            _explored(asking, sweeps, replace(wanted, top=top or DEFAULT_TOP), run, outputs, place)


def _explored(
    asking: options.Asking, sweeps: sweeping.Sweeps, wanted: Options, run: Run, outputs: Outputs, place: spreading.Place
) -> None:
    """Explores all values as one space, and writes the ranking; for a shard, only its findings."""
    from amped.exploration.answer import explored
    from amped.exploration.asked_space import searched
    from amped.exploration.running import found_in

    asked, _ = asking.searched(sweeps)
    options.tell_notices(asked.sources.notices)
    vary = sweeping.canonical(sweeps)
    if "cost" in (wanted.objective, outputs.plot, *(wanted.pareto or ())):
        sweeping.refuse_other_lists(asking, sweeps)
    if place.shard is not None:
        candidates = found_in(searched(asked, wanted, vary), run).candidates
        options.tell(f"{candidates:,} candidates; written to {run.findings}, for `amped merge`")
        return
    outputs.check()
    drawing = outputs.drawing(asked, vary, wanted)
    with outputs.every() as keep:
        beside = outputs.output.parent if outputs.output else outputs.output_dir
        exploration = explored(asked, outputs.needed(wanted, drawing), vary, replace(run, keep=keep, beside=beside))
    outputs.tell(asked, exploration, drawing, bool(wanted.each))
    outputs.tell_report(asking, exploration)


def _ranked(wanted: Options, outputs: Outputs, place: spreading.Place) -> bool:
    """Whether an option asks for one ranking of all values together."""
    drawn = outputs.plot or outputs.along or outputs.save_best or outputs.keep_all or outputs.written == "parquet"
    return bool(drawn or outputs.report or wanted.each or wanted.pareto or place.resume or place.shard)


def _refuse_both(outputs: Outputs, place: spreading.Place) -> None:
    """Refuses options that need all candidates in a run that does not evaluate all of them.

    Raises:
        ConfigError: for --keep-all with --resume or --shard, and for the best, a plot or a page of one shard.
    """
    partial = "--resume" if place.resume is not None else "--shard" if place.shard is not None else ""
    if outputs.keep_all and partial:
        problem = (
            f"--keep-all and {partial} do not go together: a file of findings has the best of each part, not every row"
        )
        raise ConfigError(problem, "leave one of them out")
    if place.shard is not None and (outputs.save_best or outputs.plot or outputs.report):
        raise ConfigError(
            "a shard has no winners to save, to plot or to report", "ask `amped merge` of all of them for the best"
        )


def _two(text: str | None) -> tuple[str, str] | None:
    """The two names in a text `A,B`; None if there is no text.

    Raises:
        ConfigError: if the text does not have two different names.
    """
    if text is None:
        return None
    names = options.names(text)
    if len(names) != 2 or names[0] == names[1]:
        raise ConfigError(f"--pareto {text!r} is not two quantities", "for example --pareto step_time,cost")
    return names[0], names[1]
