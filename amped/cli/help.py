"""How the help of a verb is laid out: what it does, one example that can be copied, and the options in groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer.core

from amped.base.aliases import aliases
from amped.base.commands import broken
from amped.base.errors import ConfigError, did_you_mean, quoted
from amped.cli.reading import read_plainly
from amped.theory.language.catalogue import catalogue

# The groups of options, in the order in which they are shown. Options without a group of their own come first.
OWN, SEARCH, CONFIG, MAPPING, TRAINING, PLACE, OUTPUT = (
    "Options", "Search", "Config", "Mapping", "Batch and precision", "Where it runs", "Output",
)  # fmt: skip
GROUPS = (OWN, SEARCH, CONFIG, MAPPING, TRAINING, PLACE, OUTPUT)
# The options that say what is printed or written, by their first name.
OUTPUTS = frozenset(
    f"--{name}" for name in (
        "json", "csv", "markdown", "format", "output", "out", "output-dir", "plot", "along", "full", "why",
        "save", "save-best", "for", "keep-all", "layers", "stages", "timeline", "gemm", "compute-graph", "help", "dry-run",
    )
)  # fmt: skip
EXAMPLE = "Example: "
# What the library that checks types says of a text that is no whole number.
NO_NUMBER = "Input should be a valid integer, unable to parse string as an integer"
# What it says of a word that is no choice: the word, and the choices.
WRONG_CHOICE = re.compile(r"'([^']*)' is not one of (.*)")
# The range of a number, as it stands behind a default or alone.
RANGE = r"(?:[-\d.]+<=?)?x[<>]=?[-\d.]+"


class Page(typer.core.TyperCommand):
    """A verb whose help has its options in groups."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments; they read plain values by themselves."""
        return read_plainly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words of the command. An unknown option with the name of a parameter becomes --set NAME=VALUE."""
        options = {
            option for parameter in self.get_params(ctx) for option in (*parameter.opts, *parameter.secondary_opts)
        }
        words = _by_name(args, options)
        try:
            rest: list[str] = super().parse_args(ctx, words)
        except Exception as error:
            if hasattr(error, "possibilities"):
                raise _unknown(str(getattr(error, "option_name", "")), options) from None
            if hasattr(error, "format_message"):
                raise _misused(error.format_message(), ctx.command_path) from None
            raise
        return rest

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Writes what the verb does; an example on lines of its own, so that it can be copied."""
        del ctx
        for paragraph in (self.help or "").split("\n\n"):
            plain = " ".join(paragraph.split())
            if plain.startswith(EXAMPLE):
                with formatter.section("Example"):
                    indent = " " * formatter.current_indent
                    lines = broken(plain.removeprefix(EXAMPLE), formatter.width - len(indent))
                    formatter.write("".join(f"{indent}{line}\n" for line in lines))
            else:
                formatter.write_paragraph()
                with formatter.indentation():
                    formatter.write_text(plain)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, then each group of options."""
        parameters = self.get_params(ctx)
        arguments = [
            (p.metavar or p.name.upper(), getattr(p, "help", "")) for p in parameters if p.param_type_name == "argument"
        ]
        options = [
            (_group(p), record) for p in parameters if p.param_type_name == "option" and (record := _record(p, ctx))
        ]
        groups = [
            ("Arguments", arguments),
            *((name, [record for group, record in options if group == name]) for name in GROUPS),
        ]
        for name, records in groups:
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _by_name(words: Sequence[str], options: set[str]) -> list[str]:
    """The words with options renamed: --framework X becomes --software X, and --context 8192 --set context=8192."""
    result: list[str] = []
    remaining = iter(words)
    for word in remaining:
        option, is_joined, value = word.partition("=")
        if option.startswith("--") and option not in (*options, "--"):
            parameter = option[2:].replace("-", "_")
            name = aliases().option(parameter)
            if f"--{name}" in options:
                word = f"--{name}{is_joined}{value}"
            elif "--set" in options and name in catalogue() and catalogue()[name].mark.kind != "records":
                result.append("--set")
                word = f"{parameter}={value if is_joined else next(remaining, '')}"
        result.append(word)
    return result


def _unknown(option: str, options: set[str]) -> ConfigError:
    """The error for an unknown option, with the nearest option or, if the verb has --set, the nearest parameter."""
    candidates = sorted(options)
    if "--set" in options and option.startswith("--"):
        parameters = (name for name, quantity in catalogue().items() if quantity.category)
        candidates += [f"--{name.replace('_', '-')}" for name in (*parameters, *aliases().suggested())]
    advice = did_you_mean(option, list(dict.fromkeys(candidates))) or "`--help` lists the options"
    return ConfigError(f"there is no option {quoted(option)}", advice)


def _misused(message: str, verb: str) -> ConfigError:
    """The error for a wrong value of an option or for too many words, from the message of typer."""
    plain = message.replace("Value error, ", "").replace(NO_NUMBER, "it is no whole number, as 4096 or 4,096")
    wrong_choice = WRONG_CHOICE.search(plain)
    hint = did_you_mean(wrong_choice[1], re.findall("'([^']*)'", wrong_choice[2])) if wrong_choice else ""
    return ConfigError(plain.removesuffix("."), hint or f"`{verb} --help` says what it takes")


def _record(option: Any, ctx: Any) -> tuple[str, str] | None:
    """The names of an option and its help, without the range of numbers; None if the option is hidden."""
    record = option.get_help_record(ctx)
    if record is None:
        return None
    name, text = record
    return name, re.sub(rf"  \[{RANGE}\]$", "", re.sub(rf"; {RANGE}\]$", "]", text))


def _group(option: Any) -> str:
    """The help group of an option: its own panel, else that of outputs, else the first group."""
    return option.rich_help_panel or (OUTPUT if OUTPUTS & {*option.opts} else OWN)
