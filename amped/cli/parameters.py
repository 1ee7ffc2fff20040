"""`amped parameters`: the glossary and the equations."""

from __future__ import annotations

import typer

from amped.cli import options
from amped.theory.language.catalogue import catalogue


def parameters(markdown: bool = False, as_json: bool = False, equations: bool = False) -> None:
    """Print every name that a config may have, with its unit, default and meaning.

    Example: amped parameters --markdown > glossary.md

    Options:
        --markdown: Print the glossary, in Markdown.
        as_json --json: Print a JSON list.
        --equations: Print every equation, as code in Markdown.
    """
    from amped.report import reference

    form = options.only(markdown=markdown, json=as_json, equations=equations)
    if form == "json":
        options.show_json(reference.entries(catalogue()), indent=2)
    elif form:
        page = reference.equations if equations else reference.glossary
        typer.echo(page(catalogue()), nl=False)
    else:
        options.show(reference.table(catalogue()))
