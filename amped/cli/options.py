"""Options that every verb with a config has, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amped.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from amped.scenario import Scenario

# Width of tables that are redirected: what a page or a mail takes.
PLAIN_WIDTH = 100

ConfigOption = Annotated[
    str,
    typer.Option("--config", "-c", metavar="FILE|NAME", help="Config file, or a shipped one (`amped list configs`)."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="NAME=VALUE", help='Give a parameter, such as memory_capacity="96 GB"; repeatable.'
    ),
]
ModelOption = Annotated[str | None, typer.Option(metavar="ROW", help="Transformer to train (`amped list models`).")]
AcceleratorOption = Annotated[str | None, typer.Option(metavar="ROW", help="Accelerator (`amped list accelerators`).")]
SystemOption = Annotated[str | None, typer.Option(metavar="ROW", help="Nodes and networks (`amped list systems`).")]
TablesOption = Annotated[
    Path | None, typer.Option("--lookup-tables", metavar="DIR", help="Lookup tables to layer over the shipped ones.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output-dir", metavar="DIR", help="Folder for files, by default output_files.")
]
FormulasOption = Annotated[
    Path | None, typer.Option("--formulas", metavar="FILE", help="Your own formulas, a Python file. Its code is run.")
]


def scenario(
    config: str,
    settings: list[str] | None,
    rows: dict[str, str | None],
    lookup_tables: Path | None,
    formulas: Path | None,
) -> Scenario:
    """The scenario that the options describe."""
    from amped.scenario import read_scenario

    named = {name: row for name, row in rows.items() if row is not None}
    return read_scenario(config, {**overrides(settings or []), **named}, lookup_tables, formulas)


def overrides(settings: list[str]) -> dict[str, object]:
    """`NAME=VALUE` texts as values by name: numbers and true/false as such, all else as text.

    Raises:
        ConfigError: for text of another form, or a name that is set twice.
    """
    found: dict[str, object] = {}
    for setting in settings:
        name, equals, written = (part.strip() for part in setting.partition("="))
        if not (name and equals and written):
            raise ConfigError(f"--set {setting!r} is not NAME=VALUE", "for example --set tensor_parallel_degree=4")
        if name in found:
            raise ConfigError(f"--set {name} is given twice", "keep one")
        found[name] = {"true": True, "false": False}.get(written.lower(), _number(written))
    return found


def _number(written: str) -> object:
    try:
        return float(written) if len(written) < 100 else written
    except ValueError:
        return written


def console(stderr: bool = False) -> Console:
    """A console for people: colours and the terminal's width there, plain text of a fixed width elsewhere."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH, color_system=None)
