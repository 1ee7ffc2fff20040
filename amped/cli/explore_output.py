"""Where an exploration goes: the screen, files of rows, configs, plots."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
from typer import Option

from amped.base.errors import ConfigError
from amped.cli import options

if TYPE_CHECKING:
    from amped.configuring.scenario import Scenario
    from amped.exploration.all_candidates import Keep
    from amped.exploration.answer import Exploration
    from amped.exploration.request import Options
    from amped.report.plot_choice import Drawing


class Format(enum.StrEnum):
    """How to write the ranking, or every candidate."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


class Plot(enum.StrEnum):
    """What to draw."""

    AUTO = "auto"
    SCALING = "scaling"
    PARTS = "parts"
    HEATMAP = "heatmap"
    PARETO = "pareto"
    HISTOGRAM = "histogram"


class BarePlot(typer.core.TyperCommand):
    """A command whose --plot may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Gives a --plot without a name the name "auto"."""
        filled = []
        for place, word in enumerate(args):
            alone = word == "--plot" and (args[place + 1 : place + 2] or ["-"])[0].startswith("-")
            filled += [word, Plot.AUTO.value] if alone else [word]
        return super().parse_args(ctx, filled)


@dataclass(frozen=True)
class Outputs:
    """What the user wants written, and where."""

    form: Format | None
    output: Path | None
    folder: Path | None
    keep_all: bool
    save_best: Path | None
    plot: Plot | None
    along: tuple[str, ...]

    @property
    def written(self) -> Format:
        """The format: as said, else as the file's name ends, else a table."""
        suffix = self.output.suffix[1:].lower() if self.output else ""
        return self.form or (Format(suffix) if suffix in (Format.CSV, Format.JSON, Format.PARQUET) else Format.TABLE)

    def check(self) -> None:
        """Refuses, before any work, what could not be written after it.

        Raises:
            ConfigError: for a file that exists, a format that does not fit, a missing pyarrow.
        """
        form, nowhere = self.written, self.output is None and self.folder is None
        options.refuse_existing(self.output, "--output")
        if self.keep_all and form not in (Format.CSV, Format.PARQUET):
            raise ConfigError(f"--keep-all does not write {form.value}", "--format csv or --format parquet")
        if form is Format.PARQUET:
            from amped.report.rows_formats import pyarrow

            if nowhere:
                raise ConfigError("Parquet is not for the screen", "name a file: --output best.parquet")
            pyarrow()
        if self.along and self.plot is None:
            raise ConfigError("--along says what a plot is drawn along, and none is drawn", "add --plot")
        if self.save_best is not None:
            from amped.exploration.candidate_config import refuse_taken

            refuse_taken(self.save_best)

    def drawing(self, asked: Scenario, vary: Mapping[str, Any], wanted: Options) -> Drawing | None:
        """The plot that is wanted, if one is.

        Raises:
            ConfigError: for a plot that needs another sweep, or other groups than those asked for.
        """
        if self.plot is None:
            return None
        from amped.base.aliases import aliases
        from amped.configuring.gathering import ROW_NAMES
        from amped.exploration.objectives import quantity_named
        from amped.report.plot_choice import drawing

        rows = {category: name for name, category in ROW_NAMES.items()}
        own = (*asked.sources.sweeps, *(rows[category] for category in asked.sources.row_sweeps), *vary)
        each, along = (tuple(map(aliases().canonical, some)) for some in (wanted.each, self.along))
        swept = list(dict.fromkeys(map(aliases().canonical, own)))
        front = (quantity_named(wanted.pareto[0]), quantity_named(wanted.pareto[1])) if wanted.pareto else None
        found = drawing(self.plot.value, swept, along or each, front)
        if each and found.names and {*each} != {*found.names}:
            told = f"the plot needs the best of each {', '.join(found.names)}, and --each asks for another"
            raise ConfigError(told, "leave --each out, or name the same by --along")
        return found

    def needed(self, wanted: Options, drawn: Drawing | None) -> Options:
        """What is wanted, with the groups or the front that the plot shows."""
        if drawn is None:
            return wanted
        return replace(wanted, each=drawn.names or wanted.each, pareto=drawn.front or wanted.pareto)

    def _path(self, name: str) -> Path:
        from amped.base.files import output_file

        return self.output or output_file(self.folder or Path(), name)

    @contextmanager
    def every(self) -> Iterator[Keep | None]:
        """What takes every candidate in, if all are to be kept: a file that is there when all are."""
        if not self.keep_all:
            yield None
        elif self.output is None and self.folder is None:
            with _closed(self.written, sys.stdout.buffer) as keep:
                yield keep
        else:
            from amped.base.files import AtomicFile

            with (
                AtomicFile(self._path(f"explore_all.{self.written.value}")) as file,
                _closed(self.written, file.stream) as keep,
            ):
                yield keep
            typer.echo(f"every candidate is written to {file.path}", err=True)

    def tell(self, asked: Scenario, found: Exploration, drawn: Drawing | None, grouped: bool) -> None:
        """Shows or writes what was found; `grouped` says whether the user asked for groups."""
        self.tell_ranking(found if grouped else replace(found, groups={}))
        if (self.save_best is not None or drawn is not None) and not found.feasible:
            raise ConfigError("no candidate is feasible: there is nothing to save or to plot", "see what removes them")
        if self.save_best is not None:
            _save(asked, found, self.save_best)
        if drawn is not None:
            from amped.base.files import output_file, write_atomically

            path = output_file(self.folder or options.DEFAULT_FOLDER, f"explore_{drawn.kind}.png")
            typer.echo(f"the plot is written to {write_atomically(path, _image(asked, found, drawn))}", err=True)

    def tell_ranking(self, found: Exploration) -> None:
        """Shows or writes the ranking."""
        if self.keep_all and self.output is None and self.folder is None:
            return  # standard output has every candidate already
        form = Format.TABLE if self.keep_all else self.written
        if self.keep_all or (self.output is None and self.folder is None):
            _show(found, form)
            return
        from amped.base.files import write_atomically

        path = self._path(f"explore.{'txt' if form is Format.TABLE else form.value}")
        typer.echo(f"written to {write_atomically(path, _content(found, form))}", err=True)


def names(listed: str | None) -> tuple[str, ...]:
    """`A,B` as names."""
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


FormatOption = Annotated[
    Format | None, Option("--format", help="table, csv, json or parquet; else as --output ends, or a table.")
]
JsonOption = Annotated[bool, Option("--json", help="The same as --format json.")]


def form_of(form: Format | None, as_json: bool) -> Format | None:
    """The format that two options ask for.

    Raises:
        ConfigError: if they ask for two.
    """
    if as_json and form not in (None, Format.JSON):
        raise ConfigError(f"--json and --format {form.value} exclude one another", "leave one of them out")
    return Format.JSON if as_json else form


def outputs_of(
    form: FormatOption = None,
    as_json: JsonOption = False,
    output: Annotated[Path | None, Option(metavar="FILE", help="Write there instead of printing.")] = None,
    keep_all: Annotated[
        bool, Option("--keep-all", help="Write every candidate, not only the best, as csv or parquet.")
    ] = False,
    save_best: Annotated[
        Path | None, Option(metavar="DIR", help="Write the best as configs that run: best-01.json ...")
    ] = None,
    plot: Annotated[
        Plot | None,
        Option(help="Draw scaling, parts, heatmap, pareto or histogram; with no name, what fits the sweep."),
    ] = None,
    along: Annotated[str | None, Option(metavar="NAMES", help="Draw along these searched names: A or A,B.")] = None,
    output_dir: options.OutputOption = None,
) -> Outputs:
    """What to write, and where."""
    return Outputs(form_of(form, as_json), output, output_dir, keep_all, save_best, plot, names(along))


@contextmanager
def _closed(form: Format, stream: Any) -> Iterator[Keep]:
    """A writer of rows, finished when all went well."""
    from amped.report.rows_formats import STREAMS

    writer = STREAMS[form.value](stream, options.printed_name)
    try:
        yield writer
    except BaseException:
        with suppress(Exception):  # what it is closed for is told, and the file is thrown away
            writer.close()
        raise
    writer.close()


def _show(found: Exploration, form: Format) -> None:
    from amped.report.ranking import ranking

    if form is Format.TABLE:
        options.show(ranking(found))
    else:
        typer.echo(_content(found, form), nl=False)


def _content(found: Exploration, form: Format) -> str | bytes:
    """The exploration as a file has it."""
    from amped.report.ranking import ranking
    from amped.report.rows_formats import as_csv, as_parquet

    if form is Format.JSON:
        return options.as_json(found.to_dict(), allow_nan=False) + "\n"
    if form is Format.TABLE:
        return options.plain(ranking(found))
    write = as_csv if form is Format.CSV else as_parquet
    return write(found.columns, found.best, options.printed_name)


def _save(asked: Scenario, found: Exploration, folder: Path) -> None:
    from amped.exploration.candidate_config import save_best

    written = save_best(asked, found, folder)
    extras = {"--lookup-tables": asked.question.lookup_tables, "--formulas": asked.question.formulas}
    also = "".join(f" {option} {value}" for option, value in extras.items() if value is not None)
    typer.echo(
        f"the best {len(written)} are written to {folder}; run one: amped estimate --config {written[0]}{also}",
        err=True,
    )


def _image(asked: Scenario, found: Exploration, drawn: Drawing) -> bytes:
    from amped.report.axes_values import title
    from amped.report.distribution_plot import distribution
    from amped.report.exploring_plots import figure
    from amped.report.plots import as_image

    told = title(asked, found.search.sweeps.by_user if found.search else {})
    if drawn.kind == "histogram":
        return as_image(distribution(found.histogram, found.objective, found.best[0][found.objective], told))
    return as_image(figure(drawn, found.groups.values(), found.front, found.objective, told))
