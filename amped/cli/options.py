"""What the verbs share: options, the scenario that they describe, and how a result is printed and written."""

from __future__ import annotations

import functools
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from amped.base.aliases import aliases
from amped.base.commands import command
from amped.base.errors import ConfigError
from amped.base.files import exists, free_stamp, is_folder, output_file, write_atomically
from amped.cli.anchoring import anchor_words, anchored_tables
from amped.cli.described import SHORT as SHORT
from amped.cli.described import in_order, parameters, without_options
from amped.configuring.not_modeled import ANYWAY
from amped.drafting.asking import DEFAULT_CONFIG as DEFAULT_CONFIG
from amped.drafting.asking import ROWS as ROWS
from amped.drafting.asking import Asking as Asking
from amped.report.width import columns
from amped.tables.table_files import LookupTables, table_paths
from amped.theory.language.catalogue import catalogue

if TYPE_CHECKING:
    from rich.console import RenderableType

    from amped.configuring.scenario import Scenario as Scenario
    from amped.measured_kernels.found_rows import FileRead
    from amped.tables.tables import Tables
else:  # the verb loads the other types when it runs
    Scenario = Any

# The variables that ask for colors where there is no terminal, and the first character that is two columns wide.
COLORING, WIDE = ("FORCE_COLOR", "TTY_COMPATIBLE"), "\u1100"
# The texts that --vary takes and --set does not: [1, 2], 1,2 or 1:8:x2.
_LIST = re.compile(r"\[.*\]|[^,:\"']+,[^\"']*|[\d.]+:[\d.]+:x?[\d.]+.*")

# A value in double quotes, as --vary takes it.
_QUOTED = re.compile(r'^"([^"]*)"$')
# What --ideal sets to 1.
IDEAL = "goodput_fraction"
# The exit code of an answer that is not as --must asks.
NOT_MET = 3

# The folder for files if the user names none.
DEFAULT_FOLDER = Path("output_files")
# The folders of lookup tables that a user names.
Folders = list[Path] | None


def tell_names(*texts: str) -> None:
    """Prints on stderr which quantities the short names and words in these texts are taken for."""
    names = re.findall(r"[\w.]+", " ".join(texts))
    tell_notices(aliases().told_asked(names))


def tell_name(written: str, name: str) -> None:
    """Prints on stderr the quantity that a written name is taken for, if the two differ."""
    tell_notices([f"{written} is {name}"] if name != written else [])


def as_json(data: Any, **how: Any) -> str:
    """Data as JSON text; `how` has further arguments of `json.dumps`."""
    return json.dumps(data, **{"indent": 1} | how)


def check_format(form: str | None) -> None:
    """Refuses an unknown launch format before long work; None is accepted.

    Raises:
        ConfigError: if amped does not write the format.
    """
    if form is not None:
        from amped.interop.exporting import target

        target(form)


def asked(
    named_config: str | None = None,
    config: str = DEFAULT_CONFIG,
    settings: list[str] | None = None,
    lookup_tables: Folders = None,
    anchor: Path | None = None,
    formulas: Path | None = None,
    anyway: bool = False,
    ideal: bool = False,
    **short: float | str | None,
) -> Asking:
    """The question that the options describe; its config is not read yet."""
    if named_config is not None and config not in (DEFAULT_CONFIG, named_config):
        problem = f"{named_config!r} and --config {config!r} are two configs"
        raise ConfigError(problem, "keep one; `amped compare` takes two")
    values = changes(settings, **short) | flags(anyway, ideal)
    is_named = named_config is not None or config != DEFAULT_CONFIG
    tables = with_anchor(anchor, values, lookup_tables)
    return Asking((named_config or config) if is_named else None, values, tables, formulas)


def with_anchor(anchor: Path | None, values: Mapping[str, object], lookup_tables: Folders) -> Folders:
    """The user's own tables with the rows of an anchor, which is told on stderr; the tables alone without one.

    Args:
        anchor: the file of the anchor.
        values: values and rows of the question.
        lookup_tables: the user's own tables.
    """
    if anchor is None:
        return lookup_tables
    tables, said = anchored_tables(anchor, values, lookup_tables)
    tell_notices(said)
    return tables


def flags(anyway: bool, ideal: bool) -> dict[str, object]:
    """The settings of `--anyway` and of `--ideal`; empty if neither is asked for.

    Args:
        anyway: estimate also where the cost of something not modeled has no bound.
        ideal: all days train, without failures, checkpoints and evaluations.
    """
    return {**({ANYWAY: True} if anyway else {}), **({IDEAL: 1.0} if ideal else {})}


@functools.wraps(asked)
def read(**given: Any) -> Scenario:
    """The scenario that the options describe; the options are the arguments of `asked`."""
    return asked(**given).as_written()


def changes(settings: list[str] | None = None, **short: float | str | None) -> dict[str, object]:
    """The values and rows that change a config, by name: those of --set, and those of options of their own.

    Raises:
        ConfigError: if both give the same name.
    """
    from_settings = overrides(settings or [])
    from_options: dict[str, object] = {}
    for option, value in short.items():
        from_options |= {} if value is None else aliases().given(option, value)
    twice = from_options.keys() & from_settings.keys()
    if twice:
        raise ConfigError(f"{', '.join(sorted(twice))} is given twice", "by --set and by its own option; keep one")
    return {**from_settings, **from_options}


def bundled(
    without: Sequence[str] = (), **readers: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that gives a verb the options of each reader.

    The result of a reader becomes the verb's argument of the same name. `without` names options that the verb lacks.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        shared = {name: parameters(reader) for name, reader in readers.items()}
        of_verb = [p for p in parameters(verb) if p.name not in (*readers, *without)]

        def called(**options: Any) -> None:
            results = {
                name: readers[name](**{p.name: options.pop(p.name) for p in reader_parameters})
                for name, reader_parameters in shared.items()
            }
            verb(**results, **options)

        in_help = sorted((*chain(*shared.values()), *of_verb), key=in_order)
        called.__signature__ = inspect.Signature(in_help)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in in_help}
        called.__doc__, called.__name__ = without_options(verb), verb.__name__
        return called

    return decorate


@functools.wraps(asked)
def read_or_choose(**given: Any) -> Scenario:
    """The scenario that the options describe; if they name rows and no config, amped chooses the other values."""
    return asked(**given).completed()


# Gives a verb the options of `read`; the verb takes the scenario as its argument `asked`.
with_scenario = bundled(asked=read)
# The same, for verbs that tell of one configuration: what nobody gave is chosen.
with_chosen_scenario = bundled(asked=read_or_choose)
# For verbs that read no scenario.
with_options = bundled()


def overrides(settings: list[str]) -> dict[str, object]:
    """`NAME=VALUE` texts as values by amped's names: numbers and true/false as such, all else as text.

    Says once, on stderr, what the names of other tools were taken for.

    Raises:
        ConfigError: for text of another form, or a name that is set twice.
    """
    from amped.configuring.gathering import ROW_NAMES  # the value of such a name is a row, whose name may have a comma
    from amped.configuring.settings import setting

    values: dict[str, object] = {}
    for text in settings:
        name, equals, written = (part.strip() for part in text.partition("="))
        if not (name and equals and written):
            raise ConfigError(f"--set {text!r} is not NAME=VALUE", "for example --set tensor_parallel_degree=4")
        if name in values:
            raise ConfigError(f"--set {name} is given twice", "keep one")
        if _LIST.fullmatch(written) and not (_is_layout(name) or name in ROW_NAMES):
            problem = f"--set {name} takes one value, and {written!r} is a list"
            sweep = f"{name}={written.strip('[] ')}"
            raise ConfigError(problem, f"sweep it: {command('explore', '--vary', sweep)}")
        values[name] = setting(_QUOTED.sub(r"\1", written))
    named, notices = aliases().all_given(values)
    tell_notices(notices)
    return named


def table_words(lookup_tables: LookupTables) -> tuple[str, ...]:
    """The words `--lookup-tables DIR` that name these tables; of rows that `--anchor` made, these words."""
    words = (anchor_words(path) or ("--lookup-tables", str(path)) for path in table_paths(lookup_tables))
    return tuple(chain.from_iterable(words))


def _is_layout(name: str) -> bool:
    """Whether the value of a parameter is a layout, which lists the layers of stages in one text with commas."""
    from amped.configuring.values import TEXTS

    name = aliases().canonical(name)
    return name in catalogue() and catalogue()[name].mark.unit in TEXTS


def user_tables(lookup_tables: LookupTables = None) -> Tables:
    """The lookup tables of amped together with those of the user."""
    from amped.tables.tables import user_tables as read

    return read(lookup_tables)


def tell(text: str) -> None:
    """Prints a text on stderr."""
    typer.echo(text, err=True)


def kernel_files(path: Path) -> list[FileRead]:
    """The measured kernels in a file or folder. Prints on stderr which parts of another tool's file were read."""
    from amped.measured_kernels.kernel_files import read_all

    files = read_all(path)
    for file in files:
        if not file.own:
            tell(str(file))
    return files


def tell_notices(notices: Iterable[str]) -> None:
    """Prints on stderr what the user should know about a config."""
    for notice in notices:
        tell(notice if notice.startswith("warning") else f"note: {notice}")


def write(folder: Path | None, *files: tuple[str, str | bytes]) -> list[Path]:
    """Writes files (name and content) into a folder, and returns their paths.

    All names begin with the same date and time, and with a number if such a file exists.
    """
    folder = folder or DEFAULT_FOLDER
    stamp = free_stamp(folder, [name for name, _ in files])
    return [write_atomically(output_file(folder, name, stamp), content) for name, content in files]


def write_and_tell(folder: Path | None, *files: tuple[str, str | bytes]) -> None:
    """Writes files as `write` does, and prints their paths on stderr."""
    for path in write(folder, *files):
        tell(f"written to {path}")


def write_file(path: Path, content: str | bytes) -> None:
    """Writes a new file, and prints its path on stderr."""
    tell(f"written to {write_atomically(path, content)}")


def put(
    form: str, table: Callable[[], RenderableType], content: Callable[[str], str | bytes], path: Path | None = None
) -> None:
    """Prints a result, or writes it to `path`.

    The form `table` uses the table; any other form uses the text or bytes that `content` returns for the form.
    """
    if path is not None:
        write_file(path, plain(table()) if form == "table" else content(form))
    elif form == "table":
        show(table())
    else:
        typer.echo(content(form), nl=False)


def print_or_write(text: str, path: Path | None, more: str) -> None:
    """Prints a text; or writes it to `path`, and prints the path followed by `more`."""
    typer.echo(text if path is None else f"written to {write_atomically(path, text)}{more}", nl=path is not None)


def show_json(data: Any, **how: Any) -> None:
    """Prints data as JSON; `how` has further arguments of `json.dumps`."""
    typer.echo(as_json(data, **how))


def show(renderable: RenderableType) -> None:
    """Prints for people: in color and as wide as the terminal, or else as plain text of a fixed width."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        console.print(renderable)
    else:
        typer.echo(plain(renderable), nl=False)


def show_lines(lines: Iterable[Sequence[tuple[str, str]]]) -> None:
    """Prints lines as `show` does; each line is texts, each with its style.

    Plain lines that fit are printed as they are, because the library for colors takes long to load.
    """
    styled = [*lines]
    texts = ["".join(text for text, _ in line).rstrip() for line in styled]
    colored, room = is_terminal(sys.stdout) or any(map(os.environ.get, COLORING)), columns()
    if not colored and all(len(text) <= room and text.isprintable() and max(text, default="") < WIDE for text in texts):
        typer.echo("\n".join(texts))
        return
    from rich.console import Group
    from rich.text import Text

    show(Group(*(Text.assemble(*line) for line in styled)))


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; a stream that was closed before amped began is none."""
    return stream is not None and stream.isatty()


def plain(renderable: RenderableType) -> str:
    """A renderable as plain text, without blanks at the ends of lines."""
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=columns(), color_system=None, highlight=False, markup=False).print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def names(listed: str | None) -> tuple[str, ...]:
    """The names in a text such as `A,B`; empty for None."""
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


def only(**asked: bool) -> str:
    """The name of the one option that is set, or an empty text.

    Raises:
        ConfigError: if more than one is set.
    """
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(f'--{name}' for name in names)} exclude one another", "keep one")
    return "".join(names)


def refuse_existing(path: Path | None, option: str) -> None:
    """Refuses a file that exists: amped overwrites nothing.

    Raises:
        ConfigError: if the file exists.
    """
    if path is not None and exists(path):
        raise ConfigError(f"{path} exists and is not overwritten", f"choose another {option}, or remove it")


def refuse_unwritable(path: Path, option: str) -> None:
    """Refuses a file that exists or cannot be written, before the long work that makes its content.

    Raises:
        ConfigError: if it exists, or if the nearest existing folder above it takes no file, or is not a folder.
    """
    refuse_existing(path, option)
    nearest = next((folder for folder in path.absolute().parents if exists(folder)), path.parent)
    if not is_folder(nearest):
        raise ConfigError(f"{path} cannot be written: {nearest} is a file, not a folder", f"choose another {option}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{path} cannot be written: no permission for {nearest}", f"choose another {option}")
