"""The command `amped`: a line for each verb, and how errors are reported."""

from __future__ import annotations

import atexit
import gc
import inspect
import io
import json
import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from amped.base.errors import AmpedError, WrongResultError
from amped.base.files import NO_SPACE
from amped.base.printable import printable
from amped.base.version import __version__
from amped.cli import options
from amped.cli.help import Page
from amped.cli.reading import read_plainly
from amped.cli.visible import visible

# The name of the command, by whatever file it is started.
PROGRAM = "amped"
# The most columns of a help text; on a narrower terminal it is as wide as that.
WIDEST = 100


# The verbs by what people want of them, and what each does in at most 45 characters. Only the verb that is called is loaded.
VERB_GROUPS = {
    "Ask": {
        "estimate": "How long, does it fit, where the time goes.",
        "why": "What slows a run down, and what would help.",
        "whatif": "What one change does.",
        "explain": "Where a number comes from.",
        "compare": "Configs, systems or values side by side.",
        "sensitivity": "What a result depends on.",
        "report": "A page with charts, to open and to send.",
        "app": "A page whose numbers follow its sliders.",
        "scenario-summary": "Charts of one or more configs.",
    },
    "Search": {
        "explore": "Rank every mapping that is possible.",
        "recommend": "Fewest accelerators for a deadline or budget.",
        "tune": "Fine-tune: full, LoRA or QLoRA, side by side.",
        "phases": "Add up the phases of a training.",
        "init": "Write a config to start from.",
        "merge": "Join the findings of shards of a search.",
    },
    "In and out": {
        "import": "Read a config of another tool.",
        "export": "Write the launch line of a framework.",
        "support": "What of a config is modeled and validated.",
        "mcp": "Serve these questions to agents.",
    },
    "Check": {
        "validate": "Compare predictions with measured runs.",
        "calibrate": "Fit coefficients to measured runs or kernels.",
        "coefficients": "List every coefficient and its source.",
        "check-tables": "Find mistakes in lookup tables.",
    },
    "Measure": {
        "bench": "Time this machine's kernels.",
        "layouts": "Choose the memory layouts of a layer.",
        "memory": "Modules that keep less for backward.",
        "data-movement": "Flop and words of a layer's operators.",
        "mat-dims": "Matrix dimensions for DeepFlow.",
    },
    "Tables": {
        "list": "Models, systems, accelerators, software, ...",
        "show": "A row with its units, sources and doubts.",
        "parameters": "Every name that a config may have.",
        "prices": "Prices by provider; read a public catalog.",
        "schema": "The JSON Schema of a config, for an editor.",
    },
}
# The files, and the functions (or apps with verbs of their own) in them, of the verbs that do not have the verb's name.
PLACES = {"app": "page:app", "import": "importing:import_file", "export": "exporting:export", "layouts": "tensor_layouts:layouts",
          "list": "listing:listing", "mcp": "agents:mcp"}  # fmt: skip
# The verbs that measure or fit. For all others numpy need not start threads for products of matrices, which takes as long as
# half of its import.
MEASURING = {*VERB_GROUPS["Measure"], "calibrate"}
ONE_THREAD = "OPENBLAS_NUM_THREADS", "1"
# What is listed without the word `list`, too.
LISTED = ("models", "systems", "accelerators", "configs", "measurements", "links", "topologies")
# Other words for what is listed.
LISTED_AS = {"gpus": "accelerators", "tpus": "accelerators", "devices": "accelerators", "networks": "models", "machines": "systems",
             "clusters": "systems", "frameworks": "software"}  # fmt: skip
# The option that prints what a shell needs for completion, of the shell that is named after it.
SHOWS_COMPLETION = "--show-completion"
# The variables in which a shell asks how a line goes on: that it asks, and the line.
COMPLETES, COMPLETED = "_AMPED_COMPLETE", ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
VERBS = {name: summary for verbs in VERB_GROUPS.values() for name, summary in verbs.items()}


def questions() -> None:
    """Prints what people ask first, each question with its command: what `amped` alone shows.

    How long, does it fit, where does the time go?
      amped estimate --model "Llama 3 70B" --system "DGX H100" --gpus 64
    Why is it slow, and what would help?
      amped why --model "Llama 3 70B" --system "DGX H100" --gpus 64
    Which mapping is best?
      amped explore --model "Llama 3 8B" --system "DGX H100" --gpus 16 --top 5
    How many accelerators do I need?
      amped recommend --model "Llama 3 8B" --system "DGX H100" --deadline "30 days"
    What is there?
      amped list models; amped list systems; amped --help
    """
    typer.echo((inspect.getdoc(questions) or "").partition("\n\n")[2])


class ByGroup(TyperGroup):
    """The command; its help lists the verbs by group, and needs none of them loaded."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments; they read plain values by themselves."""
        return read_plainly(super().get_params(ctx))

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Writes the verbs of each group with their summaries."""
        for group, verbs in VERB_GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([*verbs.items()])


def _version(wanted: bool) -> None:
    """Prints the version and ends the command, if the user asks for that."""
    if wanted:
        typer.echo(f"amped {__version__}")
        raise typer.Exit


def _top(
    _version_is_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How long a transformer trains, where the time goes, whether it fits, and which mapping is best."""


@lru_cache(maxsize=2)
def built(*verbs: str) -> typer.Typer:
    """The Typer app with these verbs; only their modules are loaded."""
    app = typer.Typer(
        name="amped",
        cls=ByGroup,
        epilog="Start with: amped estimate",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    )
    app.callback()(_top)
    for verb in verbs:
        place, _, name = PLACES.get(verb, verb.replace("-", "_")).partition(":")
        module = import_module(f"{__package__}.{place}")
        function = getattr(module, name or place)
        if isinstance(function, typer.Typer):
            for verb_of_app in function.registered_commands:
                verb_of_app.cls = Page
            app.add_typer(function, name=verb)
        else:
            settings = {"cls": Page} | getattr(module, "COMMAND", {})
            app.command(verb, short_help=VERBS[verb], **settings)(options.with_options(function))
    return app


def _typed(*first: str) -> list[str]:
    """The words of the command line.

    If they ask for the completion script of a named shell, sets the variable by which that shell asks.
    """
    words = [*first, *sys.argv[1:]]
    if words[:1] == [SHOWS_COMPLETION] and len(words) > 1:  # by itself, the option takes the shell that runs amped
        os.environ[COMPLETES] = f"source_{words.pop()}"
    return words


def _as_meant(words: list[str]) -> list[str]:
    """The words with short forms written out: `help why` is `why --help`, and `gpus` is `list accelerators`."""
    if words[:1] == ["help"]:
        return [*words[1:2], "--help"]
    if words[:1] == ["list"]:
        return ["list", *(LISTED_AS.get(word, word) for word in words[1:2]), *words[2:]]
    return _as_meant(["list", *words]) if words and words[0] in (*LISTED, *LISTED_AS) else words


def _needed(words: list[str]) -> Iterable[str]:
    """The verbs to load: the called one; any two if only help is asked for; else all, to suggest the nearest."""
    called = (
        next(filter(None, map(os.environ.get, COMPLETED)), "").split()[1:2] if COMPLETES in os.environ else words[:1]
    )
    if {*called} & VERBS.keys():
        return called
    return ("schema", "show") if {*called} & {"-h", "--help"} else VERBS


def __getattr__(name: str) -> Any:
    """The app with all verbs, built when `app` is first asked for."""
    if name == "app":
        return built(*VERBS)
    raise AttributeError(f"module 'amped.cli.app' has no attribute '{name}'")


def _prepare() -> None:
    """Turns off garbage collection at the end of the process, and makes all output printable.

    Halves of surrogate pairs become question marks. Characters that turn the direction of writing become numbers.
    """
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = map(visible, (sys.stdout, sys.stderr))


def main(*first: str) -> None:
    """Runs the command; `first` are words before those of the command line.

    The exit code is 2 with a message for the user's mistake, and 1 for a mistake of amped.
    """
    _prepare()
    words = _typed(*first)
    if not MEASURING & {*words[:1]}:
        os.environ.setdefault(*ONE_THREAD)
    if not words and COMPLETES not in os.environ:
        questions()
        return
    words = _as_meant(words)
    try:
        built(*_needed(words))(words, prog_name=PROGRAM)
    except AmpedError as error:
        options.tell(f"amped: {printable(str(error))}")
        sys.exit(2)
    except WrongResultError as error:
        options.tell(f"amped: this result is wrong, and not by your mistake: {error}")
        options.tell(f"Please report it with your config: {json.dumps(error.config, default=str)}")
        sys.exit(1)
    except BrokenPipeError:  # for example `amped explore | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        options.tell("amped: the output cannot be written: there is no space left")
        sys.stdout = None  # what is left in its buffer cannot be written, either
        sys.exit(2)
    except MemoryError:
        options.tell("amped: out of memory; ask for less at once")
        sys.exit(1)
    except Exception as error:
        import traceback

        traceback.print_exc()
        options.tell(f"amped: this is a mistake of amped's, not yours ({type(error).__name__}). Please report it.")
        sys.exit(1)
