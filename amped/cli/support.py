"""`amped support`: what of a configuration amped models, and what of it is validated."""

from __future__ import annotations

import typer

from amped.base.errors import ConfigError
from amped.cli import options

WISHES = ("modelled", "modeled")


@options.bundled(asking=options.asked)
def support(asking: options.Asking, must: str | None = None, as_json: bool = False) -> None:
    """Say what of a configuration amped models, and how many measured runs speak for each part of it.

    The config may be amped's own or a file of another tool, as a config.json or a launch script.

    Example: amped support ./config.json --system "DGX H100" --gpus 64 --must modelled

    Options:
        --must modelled: Exit code 3 if something is not modeled.
    """
    from amped.library.answers import evidence

    if must not in (None, *WISHES):
        raise ConfigError(f"--must {must!r} is no wish", "--must modelled: exit code 3 where something is not modeled")
    found = evidence(asking)
    if as_json:
        options.show_json(found.to_dict())
    else:
        options.show(found)
    if must and found.not_modeled:
        raise typer.Exit(options.NOT_MET)
