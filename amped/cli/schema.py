"""`amped schema`: the JSON Schema of a config."""

from __future__ import annotations

import json

import typer

from amped.theory.language.catalogue import catalogue


def schema() -> None:
    """Print the JSON Schema of a config, for an editor to complete names and show units.

    Example: amped schema > config.schema.json
    """
    from amped.configuring.config_schema import config_schema

    typer.echo(json.dumps(config_schema(catalogue()), indent=1, ensure_ascii=False))
