"""`amped estimate`: training time, where it goes, and whether it fits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from amped.base.errors import ConfigError, FileError, one_line
from amped.base.files import write_atomically
from amped.cli import options

if TYPE_CHECKING:
    from amped.estimation.estimation import Estimation


# The configs of which no file is written unless the user asks for one: nobody named them.
UNNAMED = (options.DEFAULT_CONFIG, "config")


@options.with_chosen_scenario
def estimate(
    asked: options.Scenario,
    output_dir: Path | None = None,
    as_json: bool = False,
    gemm: bool = False,
    gemm_old: bool = False,
    compute_graph: bool = False,
    compute_graph_old: bool = False,
    plot: bool = False,
    layers: bool = False,
    stages: bool = False,
    timeline: Path | None = None,
    snapshot: Path | None = None,
    full: bool = False,
    why: bool = False,
    save: bool = False,
    must: str | None = None,
    form: str | None = None,
) -> None:
    """Estimate the training time of one configuration, where the time goes, and whether it fits in memory.

    What nobody gave is chosen. --timeline is for ui.perfetto.dev; --layers tells measured times from others.

    Example: amped estimate --model "Llama 3 70B" --system "DGX H100" --gpus 64

    Options:
        as_json --json: Print one JSON object; write no files.
        --gemm: Write gemm_breakdown.txt: matrix products.
        gemm_old --GEMM:
        --compute-graph: With --gemm: write compute_graph files.
        compute_graph_old --compute_graph:
        --plot: Draw the parts of a step, step_time.png.
        --layers: Print the operators of one layer instead.
        --stages: Print every pipeline stage instead.
        --timeline FILE: Execute the step, and write its trace.
        --snapshot FILE: Its memory, for pytorch.org/memory_viz.
        --full: Print every part, and all notes.
        --why: Print what the numbers assume.
        --save: Write inputs and breakdown to files.
        --must fit: Exit code 3 if it does not fit in memory.
    """
    from amped.estimation.estimation import estimated

    _check(timeline, snapshot, must, form)
    result = estimated(asked)
    if stages or layers:
        (_show_stages if stages else _show_layers)(result, as_json)
        _write_executed(result, timeline, snapshot, as_json)
        return
    _show(result, as_json, full, why)
    gemm, compute_graph = gemm or gemm_old, compute_graph or compute_graph_old
    if (is_asked := bool(output_dir or save or gemm or plot)) or (asked.label not in UNNAMED and not as_json):
        _write(output_dir or options.DEFAULT_FOLDER, _files(result, gemm, compute_graph, plot), as_json, is_asked)
    _write_executed(result, timeline, snapshot, as_json)
    if compute_graph and not gemm:
        options.tell("note: --compute-graph needs --gemm beside it")
    _show_launch(result, form, as_json)
    _insist(must, result)


def _insist(must: str | None, result: Estimation) -> None:
    """Ends with an exit code of its own if the user wants what does not fit to be refused."""
    if must and not result["fits_in_memory"]:
        raise typer.Exit(options.NOT_MET)


def _check(timeline: Path | None, snapshot: Path | None, must: str | None, form: str | None) -> None:
    """Refuses existing files of a timeline or of memory, an unknown launch format, and a --must other than fit.

    Raises:
        ConfigError: for each of these.
    """
    options.check_format(form)
    options.refuse_existing(timeline, "--timeline")
    options.refuse_existing(snapshot, "--snapshot")
    if must not in (None, "fit"):
        raise ConfigError(f"--must {must!r} is no wish", "--must fit: exit code 3 where it does not fit in memory")


def _show_launch(result: Estimation, form: str | None, as_json: bool) -> None:
    """Prints the launch line of a framework if the user asks for it."""
    if form is not None:
        from amped.interop.exporting import target

        typer.echo("\n" + target(form).write(result), nl=False, err=as_json)


def _show(result: Estimation, as_json: bool, full: bool, why: bool) -> None:
    """Prints the answers on one screen, the whole summary (full), the assumptions (why), or all results as JSON."""
    if as_json:
        options.show_json(_plain(result))
        options.tell_notices(result.notices)
        return
    if why or full:
        from amped.report.summary import assumptions, summary

        options.show(assumptions(result) if why else summary(result))
        return
    from amped.report.screen import screen

    options.show_lines(screen(result))


def _show_layers(result: Estimation, as_json: bool) -> None:
    """Prints the operators of one layer, as a table or as JSON; writes no files."""
    from amped.estimation.breakdown import layer_lines
    from amped.estimation.kinds_of_layers import kind_lines

    if as_json:
        operators, kinds = map(asdict, layer_lines(result)), map(asdict, kind_lines(result))
        options.show_json({"operators": list(operators), "kinds_of_layers": list(kinds)})
    else:
        from amped.report.layers import layer_table

        options.show(layer_table(result))


def _show_stages(result: Estimation, as_json: bool) -> None:
    """Prints every stage of the pipeline as a table, or as JSON together with the results; writes no files."""
    from amped.estimation.stages import stage_lines

    if as_json:
        options.show_json(_plain(result) | {"stages": [asdict(line) for line in stage_lines(result)]})
    else:
        from amped.report.stages import stage_table

        options.show(stage_table(result))


def _write_executed(result: Estimation, timeline: Path | None, snapshot: Path | None, quiet: bool) -> None:
    """Writes what the user asks for of the executed step."""
    _write_timeline(result, timeline, quiet)
    _write_snapshot(result, snapshot, quiet)


def _write_timeline(result: Estimation, path: Path | None, quiet: bool) -> None:
    """Writes the executed step if the user asks for it, and says how it compares with the closed form."""
    if path is None:
        return
    from amped.estimation.execution import executed_step
    from amped.report.human import duration
    from amped.report.trace import as_trace, shown_microbatches

    step = executed_step(result)
    text = as_trace(step, result)
    written = write_atomically(path, text)
    shown, number = shown_microbatches(step), step.timeline.pipe.microbatches
    what = f", the first and last {shown} of {number} micro-batches" if 2 * shown < number else ""
    sentence = (f"\ntimeline written to {written} ({len(text) / 1e6:.1f} MB{what}); open it at ui.perfetto.dev\n"
            f"executed pass by pass, a step takes {duration(step.step_time)}; by the closed form "
            f"{duration(step.estimated_time)} ({-step.deviation / (1 + step.deviation):+.2%})")  # fmt: skip
    typer.echo(sentence, err=quiet)


def _write_snapshot(result: Estimation, path: Path | None, quiet: bool) -> None:
    """Writes the memory of the executed step if the user asks for it, and says where its peak is, and why."""
    if path is None:
        return
    from amped.estimation.execution import executed_step
    from amped.estimation.memory_over_time import memory_over_time
    from amped.report.memory_snapshot import as_snapshot, peak_in_words

    memory = memory_over_time(result, executed_step(result))
    written = write_atomically(path, as_snapshot(memory))
    where = f"\nmemory over time written to {written}; open it at pytorch.org/memory_viz (a device is a stage)\n"
    typer.echo(where + peak_in_words(memory.peak, result["memory_per_accelerator_bytes"]), err=quiet)


def _plain(result: Estimation) -> dict[str, Any]:
    """The results as one flat object for JSON, with all notices; without room in memory, also the smallest change that fits."""
    from amped.estimation.manners import other_runs
    from amped.estimation.remedies import smallest_change

    others = other_runs(result)
    runs = {f"step_time_of_{run.name}": run.step_time for run in others}
    notices = [*result.notices, *(run.notice for run in others if run.notice)]
    fix = {} if result["fits_in_memory"] else {"smallest_change_that_fits": smallest_change(result)}
    return result.to_dict() | runs | fix | {"notices": notices}


def _write(folder: Path, files: Iterable[tuple[str, str | bytes]], quiet: bool, is_asked: bool) -> None:
    """Writes the files of a run, and prints their names.

    If the folder cannot be written, that is an error if the user asked for files, and else a note.
    """
    try:
        written = options.write(folder, *files)
    except FileError as error:
        if is_asked:
            raise
        options.tell_notices([f"no files are written to {folder}: {one_line(error)}"])
        return
    if not quiet:
        typer.echo(f"\nwritten to {folder}: {', '.join(path.name for path in written)}")


def _files(result: Estimation, gemm: bool, compute_graph: bool, plot: bool) -> Iterator[tuple[str, str | bytes]]:
    """The names and contents of the files of a run: the inputs, the parts of the time, and those asked for."""
    from amped.report import text

    yield "config_summary.txt", text.config_summary(result)
    yield "training_time_breakdown.txt", text.training_time_breakdown(result)
    if gemm:
        from amped.estimation.breakdown import gemm_lines

        yield "gemm_breakdown.txt", text.gemm_breakdown(gemm_lines(result))
    if gemm and compute_graph:
        from amped.estimation import graph
        from amped.report import graph_text

        nodes = graph.compute_graph(result)
        yield "compute_graph.txt", graph_text.as_text(nodes)
        yield "compute_graph.dot", graph_text.as_dot(nodes)
        yield "compute_graph.json", json.dumps(graph.as_json(nodes), indent=1) + "\n"
    if plot:
        from amped.report.plots import step_time_plot

        yield "step_time.png", step_time_plot(result)
