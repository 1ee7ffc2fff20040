"""`amped parameters`: the glossary and the equations."""

from __future__ import annotations

from typing import Annotated

import typer

from amped.cli import options


def parameters(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the glossary of docs/ as Markdown.")] = False,
    equations: Annotated[bool, typer.Option("--equations", help="Print the equations of docs/ as Markdown.")] = False,
) -> None:
    """Print every name that a config may have, with its unit, default and meaning.

    Example: amped parameters --markdown > glossary.md
    """
    from amped.catalogue import catalogue
    from amped.report import reference

    if equations:
        typer.echo(reference.equations(catalogue()), nl=False)
    elif markdown:
        typer.echo(reference.glossary(catalogue()), nl=False)
    else:
        options.show(reference.table(catalogue()))
