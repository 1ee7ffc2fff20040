"""`amped import`: a config of another tool in amped's names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from amped.base.files import write_atomically
from amped.cli import options

if TYPE_CHECKING:
    from amped.interop.records import Imported


def import_file(
    file: Path,
    form: str | None = None,
    output: Path | None = None,
    model: str | None = None,
    strict: bool = False,
    as_json: bool = False,
) -> None:
    """Read a config of another tool: what was used, ignored, assumed, and what amped cannot express.

    Nothing in the file is executed, and nothing is fetched.

    Example: amped import ./config.json -o my.json

    Options:
        file FILE: The file, or a folder with a config.json.
        form --from FORMAT: Its format; without it, the content says it.
        --output -o FILE: Write the config there; by default print it.
        --model ROW|PATH: The network, where the file does not say it.
        --strict: Refuse what amped cannot express.
        as_json --json: Print values and report as JSON.
    """
    from amped.configuring.config_writing import as_json as as_text
    from amped.interop.as_config import as_config
    from amped.interop.models import named_model
    from amped.interop.recognition import read_file
    from amped.interop.sections import NO_SIZES

    options.refuse_existing(output, "--output")
    imported = read_file(file, form)
    if strict:
        imported.refuse_unsupported()
    text = as_text(as_config(imported, named_model(model)))
    if model is not None:
        imported.report.defaulted[:] = [line for line in imported.report.defaulted if line != NO_SIZES]
    _tell(imported, as_json, output is not None)
    if output is not None:
        typer.echo(f"written to {write_atomically(output, text)}", err=as_json)
    elif not as_json:
        typer.echo(text, nl=False)


def _tell(imported: Imported, as_json: bool, on_screen: bool) -> None:
    """Prints the report of an import: as JSON with the values, on the screen, or on stderr beside a printed config."""
    from amped.report.importing import import_report

    if as_json:
        values = {"from": imported.source, "name": imported.name, "values": dict(imported.values)}
        options.show_json({**values, **imported.report.to_dict()})
    elif on_screen:
        options.show(import_report(imported))
    else:
        options.tell(options.plain(import_report(imported)).rstrip())
