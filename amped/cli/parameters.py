"""`amped parameters`: the glossary and the equations."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from amped.cli import options


def parameters(
    markdown: Annotated[bool, Option("--markdown", help="Print the glossary, in Markdown.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print a JSON list.")] = False,
    equations: Annotated[bool, Option("--equations", help="Print every equation, as code in Markdown.")] = False,
) -> None:
    """Print every name that a config may have, with its unit, default and meaning.

    Example: amped parameters --markdown > glossary.md
    """
    from amped.report import reference
    from amped.theory.language.catalogue import catalogue

    form = options.only(markdown=markdown, json=as_json, equations=equations)
    if form == "json":
        options.show_json(reference.entries(catalogue()), indent=2)
    elif form:
        page = reference.equations if equations else reference.glossary
        typer.echo(page(catalogue()), nl=False)
    else:
        options.show(reference.table(catalogue()))
