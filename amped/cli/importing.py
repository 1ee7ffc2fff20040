"""`amped import`: a config of another tool in amped's names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from amped.cli import options


def import_file(
    file: Annotated[Path, Argument(metavar="FILE", help="The file, or a folder with a config.json.")],
    form: Annotated[
        str | None, Option("--from", metavar="FORMAT", help="Its format; without it, the content says it.")
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write the config there instead of printing it.")
    ] = None,
    model: Annotated[
        str | None, Option("--model", metavar="ROW|PATH", help="The network, where the file does not say it.")
    ] = None,
    strict: Annotated[bool, Option("--strict", help="Refuse a file with something that amped cannot express.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print values and report as JSON.")] = False,
) -> None:
    """Read a config of another tool: what was used, ignored, assumed, and what amped cannot express.

    Nothing in the file is executed, and nothing is fetched.

    Example: amped import ./config.json -o my.json
    """
    from amped.base.files import write_atomically
    from amped.configuring.config_writing import as_json as as_text
    from amped.interop.as_config import as_config
    from amped.interop.models import named_model
    from amped.interop.recognition import read_file
    from amped.report.importing import import_report

    options.refuse_existing(output, "--output")
    found = read_file(file, form)
    if strict:
        found.refuse_unsupported()
    config = as_config(found, named_model(model))
    if as_json:
        options.show_json(
            {"from": found.source, "name": found.name, "values": dict(found.values), **found.report.to_dict()}
        )
    elif output is None:
        options.tell(options.plain(import_report(found)).rstrip())
        typer.echo(as_text(config), nl=False)
    if output is not None:
        if not as_json:
            options.show(import_report(found))
        written = write_atomically(output, as_text(config))
        typer.echo(f"written to {written}", err=as_json)
