"""Where the result of an exploration goes: the screen, files of rows, configs, plots."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from amped.base.aliases import aliases
from amped.base.commands import command
from amped.base.errors import ConfigError
from amped.base.files import AtomicFile, output_file, write_atomically
from amped.cli import options, sweeping
from amped.cli.help import Page

if TYPE_CHECKING:
    from amped.exploration.all_candidates import Keep
    from amped.exploration.answer import Exploration
    from amped.exploration.request import Options
    from amped.report.plot_choice import Drawing


Format = Literal["table", "csv", "json", "parquet"]
Plot = Literal["auto", "scaling", "parts", "heatmap", "pareto", "histogram", "cost"]


class BarePlot(Page):
    """A command whose option --plot may stand without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words of the command; a --plot without a value gets the value "auto"."""
        words = []
        for place, word in enumerate(args):
            is_bare = word == "--plot" and (args[place + 1 : place + 2] or ["-"])[0].startswith("-")
            words += [word, "auto"] if is_bare else [word]
        return super().parse_args(ctx, words)


@dataclass(frozen=True)
class Outputs:
    """What is written, and where, as the options say.

    Options:
        form --format: By default as --output ends, or a table.
        as_json --json: The same as --format json.
        as_csv --csv: The same as --format csv.
        --output FILE: Write there instead of printing.
        --keep-all: Write every candidate, as csv or parquet.
        --save-best DIR: Write the best as configs: best-01.json …
        launch_for --for FORMAT: With --save-best: launch lines too: megatron.
        --plot: Draw; with no word, what fits the sweep.
        --report FILE: Write a page with charts, too.
        --along NAMES: Draw along these searched names: A or A,B.
    """

    form: Format | None = None
    as_json: bool = False
    as_csv: bool = False
    output: Path | None = None
    keep_all: bool = False
    save_best: Path | None = None
    launch_for: str | None = None
    plot: Plot | None = None
    report: Path | None = None
    along: str | None = None
    output_dir: Path | None = None

    def __post_init__(self) -> None:
        """Refuses two formats at once."""
        forms = {name: form for name, form in (("--json", self.as_json and "json"), ("--csv", self.as_csv and "csv"),
                                               (f"--format {self.form}", self.form)) if form}  # fmt: skip
        if len({*forms.values()}) > 1:
            raise ConfigError(f"{' and '.join(forms)} exclude one another", "leave one of them out")

    @property
    def written(self) -> str:
        """The output format: the given one, else that of the file's ending, else a table."""
        suffix = self.output.suffix[1:].lower() if self.output else ""
        by_name = suffix if suffix in ("csv", "json", "parquet") else "table"
        return "json" if self.as_json else "csv" if self.as_csv else self.form or by_name

    @property
    def on_screen(self) -> bool:
        """Whether the result goes to standard output."""
        return self.output is None and self.output_dir is None

    def check(self) -> None:
        """Refuses, before any work, an output that could not be written after it.

        Raises:
            ConfigError: for a file that exists, a format that is not possible here, or a missing pyarrow.
        """
        options.refuse_existing(self.output, "--output")
        if self.report is not None:
            from amped.base.extras import from_extra

            options.refuse_unwritable(self.report, "--report")
            from_extra("jinja2", "report", "a report")
        if self.keep_all and self.written not in ("csv", "parquet"):
            raise ConfigError(f"--keep-all does not write {self.written}", "--format csv or --format parquet")
        if self.written == "parquet":
            from amped.report.rows_formats import pyarrow

            if self.on_screen:
                raise ConfigError("Parquet is not for the screen", "name a file: --output best.parquet")
            pyarrow()
        if self.along and self.plot is None:
            raise ConfigError("--along says what a plot is drawn along, and none is drawn", "add --plot")
        options.check_format(self.launch_for)
        if self.launch_for is not None and self.save_best is None:
            raise ConfigError("--for writes launch lines beside saved configs", "add --save-best DIR")
        if self.save_best is not None:
            from amped.exploration.candidate_config import refuse_taken

            refuse_taken(self.save_best)

    def drawing(self, asked: options.Scenario, vary: Mapping[str, Any], wanted: Options) -> Drawing | None:
        """The plot that the user wants; None if no plot is wanted.

        Raises:
            ConfigError: for a plot that needs another sweep, or other groups than the user asks for.
        """
        if self.plot is None:
            return None
        from amped.configuring.gathering import ROW_NAMES
        from amped.report.plot_choice import drawing

        rows = {category: name for name, category in ROW_NAMES.items()}
        names = (*asked.sources.sweeps, *(rows[category] for category in asked.sources.row_sweeps), *vary)
        swept, along = ([*map(aliases().canonical, written)] for written in (names, options.names(self.along)))
        front_names = (aliases().asked(wanted.pareto[0]), aliases().asked(wanted.pareto[1])) if wanted.pareto else None
        plot = drawing(self.plot, list(dict.fromkeys(swept)), along or wanted.each, front_names)
        if wanted.each and plot.names and {*wanted.each} != {*plot.names}:
            problem = f"the plot needs the best of each {', '.join(plot.names)}, and --each asks for another"
            raise ConfigError(problem, "leave --each out, or name the same by --along")
        return plot

    def needed(self, wanted: Options, drawn: Drawing | None) -> Options:
        """The options of the search, with the groups or the front that the plot needs."""
        if drawn is None:
            return wanted
        return replace(wanted, each=drawn.names or wanted.each, pareto=drawn.front or wanted.pareto)

    def _path(self, name: str) -> Path:
        """The file that the user names, else a file of this name in the output folder."""
        return self.output or output_file(self.output_dir or Path(), name)

    def _file(self, form: str) -> Path | None:
        """The file for a format: the one that the user names, else explore.FORMAT; None for standard output."""
        return None if self.on_screen else self._path(f"explore.{'txt' if form == 'table' else form}")

    @contextmanager
    def every(self) -> Iterator[Keep | None]:
        """A writer for all candidates, whose file appears when all are written; None without --keep-all."""
        if not self.keep_all:
            yield None
        elif self.on_screen:
            with _closed(self.written, sys.stdout.buffer) as keep:
                yield keep
        else:
            with (
                AtomicFile(self._path(f"explore_all.{self.written}")) as file,
                _closed(self.written, file.stream) as keep,
            ):
                yield keep
            options.tell(f"every candidate is written to {file.path}")

    def tell(self, asked: options.Scenario, exploration: Exploration, drawn: Drawing | None, grouped: bool) -> None:
        """Shows or writes the result; `grouped` says whether the user asked for groups."""
        self.tell_ranking(exploration if grouped else replace(exploration, groups={}))
        if (self.save_best is not None or drawn is not None) and not exploration.feasible:
            raise ConfigError("no candidate is feasible: there is nothing to save or to plot", "see what removes them")
        if self.save_best is not None:
            _save(asked, exploration, self.save_best, self.launch_for)
        if drawn is not None:
            (path,) = options.write(self.output_dir, (f"explore_{drawn.kind}.png", _image(asked, exploration, drawn)))
            options.tell(f"the plot is written to {path}")

    def tell_report(self, asking: options.Asking, exploration: Exploration) -> None:
        """Writes the page of the search and of its best mapping, if the user wants it."""
        if self.report is None:
            return
        from amped.cli.report import write_page
        from amped.exploration.answer import settings
        from amped.report.page.topics import asked_of, found_topics

        if not exploration.best:
            raise ConfigError("no mapping keeps every rule: there is nothing to report", "see what removes them")
        best = asked_of(asking, settings(exploration.search, exploration.best[0]))
        options.tell(write_page(self.report, [best], found_topics(exploration, best, options.tell)))

    def tell_sweep(self, done: sweeping.Swept) -> None:
        """Shows or writes the table of a sweep."""
        sweeping.tell(done, self.written, path=self._file(self.written))

    def tell_ranking(self, exploration: Exploration) -> None:
        """Shows or writes the ranking; if every candidate goes to standard output, the ranking does not."""
        from amped.report.ranking import ranking

        if not self.keep_all:
            form = self.written
            options.put(form, lambda: ranking(exploration), lambda form: _content(exploration, form), self._file(form))
        elif not self.on_screen:
            options.show(ranking(exploration))


@contextmanager
def _closed(form: str, stream: Any) -> Iterator[Keep]:
    """A writer of rows, which ends the file properly only if no error happened."""
    from amped.report.rows_formats import STREAMS

    writer = STREAMS[form](stream)
    try:
        yield writer
    except BaseException:
        with suppress(Exception):  # the first error is reported, and the file is thrown away
            writer.close()
        raise
    writer.close()


def _content(exploration: Exploration, form: str) -> str | bytes:
    """The best rows as CSV or Parquet, or the whole exploration as JSON."""
    from amped.report.rows_formats import as_csv, as_parquet

    if form == "json":
        return options.as_json(exploration.to_dict(), allow_nan=False) + "\n"
    write = as_csv if form == "csv" else as_parquet
    return write(exploration.columns, exploration.best)


def _save(asked: options.Scenario, exploration: Exploration, folder: Path, launch_for: str | None) -> None:
    """Saves the best mappings as configs, with launch lines if wanted, and prints how to run one."""
    from amped.exploration.candidate_config import save_best

    written = save_best(asked, exploration, folder)
    if launch_for is not None:
        _save_launches(asked, written, launch_for)
    formulas = asked.question.formulas
    further_options = (
        *options.table_words(asked.question.lookup_tables),
        *(("--formulas", formulas) if formulas else ()),
    )
    estimate = command("estimate", "--config", written[0], *further_options)
    options.tell(f"the best {len(written)} are written to {folder}; run one: {estimate}")


def _save_launches(asked: options.Scenario, configs: list[Path], launch_for: str) -> None:
    """Writes the launch line of each saved config beside it."""
    from amped.configuring.scenario import read_scenario
    from amped.estimation.estimation import estimated
    from amped.interop.exporting import target

    chosen, question = target(launch_for), asked.question
    for path in configs:
        scenario = read_scenario(path, {}, question.lookup_tables, question.formulas)
        suffix = chosen.suffix if chosen.suffix != path.suffix else f".{launch_for}{chosen.suffix}"
        write_atomically(path.with_suffix(suffix), chosen.write(estimated(scenario)))


def _image(asked: options.Scenario, exploration: Exploration, drawn: Drawing) -> bytes:
    """The plot as a PNG: the histogram of all candidates, or a figure of groups or of the front."""
    from amped.report.axes_values import title
    from amped.report.exploring_plots import distribution, figure
    from amped.report.plots import as_image

    heading = title(asked, exploration.search.sweeps.by_user)
    if drawn.kind == "histogram":
        return as_image(
            distribution(
                exploration.histogram, exploration.objective, exploration.best[0][exploration.objective], heading
            )
        )
    return as_image(figure(drawn, exploration.groups.values(), exploration.front, exploration.objective, heading))
