"""The command `amped`: a line for each verb, and how errors are reported."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any

import typer

from amped.base.errors import AmpedError
from amped.base.version import __version__
from amped.cli import options

# Each verb and its place: a function, or an app with verbs of its own. Only the verb that is called is loaded.
VERBS = {
    "estimate": "amped.cli.estimate:estimate",
    "why": "amped.cli.why:why",
    "whatif": "amped.cli.whatif:whatif",
    "explain": "amped.cli.explain:explain",
    "explore": "amped.cli.explore:explore",
    "merge": "amped.cli.merge:merge",
    "sensitivity": "amped.cli.sensitivity:sensitivity",
    "validate": "amped.cli.validate:validate",
    "calibrate": "amped.cli.calibrate:calibrate",
    "coefficients": "amped.cli.coefficients:coefficients",
    "init": "amped.cli.init:init",
    "recommend": "amped.cli.recommend:recommend",
    "compare": "amped.cli.compare:compare",
    "scenario-summary": "amped.cli.scenario_summary:scenario_summary",
    "mat-dims": "amped.cli.mat_dims:mat_dims",
    "data-movement": "amped.cli.data_movement:data_movement",
    "list": "amped.cli.listing:listing",
    "show": "amped.cli.show:show",
    "check-tables": "amped.cli.check_tables:check_tables",
    "parameters": "amped.cli.parameters:parameters",
    "schema": "amped.cli.schema:schema",
    "memory": "amped.cli.memory:memory",
    "layouts": "amped.cli.layouts:layouts",
    "bench": "amped.cli.bench:bench",
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"amped {__version__}")
        raise typer.Exit


def _top(
    _version_is_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How long a transformer trains, where the time goes, whether it fits, and which mapping is best."""
    options.print_old_names(False)  # until a verb turns it on


@lru_cache(maxsize=2)
def built(*verbs: str) -> typer.Typer:
    """The command with some of its verbs."""
    made = typer.Typer(
        name="amped",
        epilog="Start with: amped estimate",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_top)
    for verb in verbs:
        place, _, name = VERBS[verb].partition(":")
        module = import_module(place)
        found = getattr(module, name)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=verb)
        else:
            made.command(verb, **getattr(module, "COMMAND", {}))(found)
    return made


def __getattr__(name: str) -> Any:
    if name == "app":
        return built(*VERBS)
    raise AttributeError(f"module 'amped.cli.app' has no attribute '{name}'")


def main(*first: str) -> None:
    """Runs the command, or one verb of it with some options first. Exit code 2 with a message is for the user's mistake, 1 for amped's."""
    words = [*first, *sys.argv[1:]]
    try:
        built(*(words[:1] if words[:1] and words[0] in VERBS else VERBS))(words)
    except AmpedError as error:
        typer.echo(f"amped: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # for example `amped explore | head`
        sys.stderr.close()
        sys.exit(0)
    except MemoryError:
        typer.echo("amped: out of memory; ask for less at once", err=True)
        sys.exit(1)
    except Exception as error:
        import traceback

        traceback.print_exc()
        typer.echo(
            f"amped: this is a mistake of amped's, not yours ({type(error).__name__}). Please report it.", err=True
        )
        sys.exit(1)
