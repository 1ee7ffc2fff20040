"""The command `amped`: a line for each verb, and how a mistake is told."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from amped.base.errors import AmpedError
from amped.base.version import __version__
from amped.cli import layouts, spreading
from amped.cli.bench import bench
from amped.cli.calibrate import calibrate
from amped.cli.check_tables import check_tables
from amped.cli.coefficients import coefficients
from amped.cli.compare import compare
from amped.cli.data_movement import data_movement
from amped.cli.estimate import estimate
from amped.cli.explain import explain
from amped.cli.explore import explore
from amped.cli.explore_output import BarePlot
from amped.cli.init import init
from amped.cli.listing import listing
from amped.cli.mat_dims import mat_dims
from amped.cli.memory import memory
from amped.cli.merge import merge
from amped.cli.parameters import parameters
from amped.cli.scenario_summary import scenario_summary
from amped.cli.schema import schema
from amped.cli.sensitivity import sensitivity
from amped.cli.show import show
from amped.cli.validate import validate

app = typer.Typer(
    name="amped",
    help="How long a transformer trains, where the time goes, whether it fits, and which mapping is best.",
    epilog="Start with: amped estimate",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("estimate")(estimate)
app.command("explain")(explain)
app.command("explore", cls=BarePlot, epilog=spreading.EXAMPLES)(explore)
app.command("merge")(merge)
app.command("sensitivity")(sensitivity)
app.command("validate")(validate)
app.command("calibrate")(calibrate)
app.command("coefficients")(coefficients)
app.command("init")(init)
app.command("compare")(compare)
app.command("scenario-summary")(scenario_summary)
app.command("mat-dims")(mat_dims)
app.command("data-movement")(data_movement)
app.command("list")(listing)
app.command("show")(show)
app.command("check-tables")(check_tables)
app.command("parameters")(parameters)
app.command("schema")(schema)
app.add_typer(memory, name="memory")
app.add_typer(layouts.app, name="layouts")
app.add_typer(bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"amped {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How long a transformer trains, where the time goes, whether it fits, and which mapping is best."""


def main(verb: str | None = None) -> None:
    """Runs the command, or one verb of it: exit code 2 and a message for the user's mistake, 1 for ours."""
    try:
        app([verb, *sys.argv[1:]] if verb else None)
    except AmpedError as error:
        typer.echo(f"amped: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # `amped explore | head`
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
