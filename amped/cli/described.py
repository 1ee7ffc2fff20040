"""The options of verbs, as docstrings describe them.

A section of a docstring has the name of a group of options, and a line for each: the name of the parameter where it is another
one than the option's, the option (an argument has none), what stands for its value, the range of a number, and the help. An
option without help is not shown. A function needs no line for what `SHARED` describes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_origin

from typer import Argument, Option

from amped.cli.help import GROUPS, MAPPING, OWN, TRAINING
from amped.theory.nouns.parallelisms import OPTIONS, WRITTEN

# What several verbs have.
SHARED = """
Options:
    named_config CONFIG: The same as --config.
    --output-dir DIR: Folder for files; by default output_files.
    as_json --json: Print JSON.
    form --for FORMAT: Also a launch line of a framework: megatron.
Config:
    --config -c FILE|NAME: A file, or one of `amped list configs`.
    settings --set -s NAME=VALUE: Give a parameter: context=8192; repeatable.
    --model ROW|PATH: Of `amped list models`, or a config.json.
    --accelerator ROW: Accelerator (`amped list accelerators`).
    --system ROW: Nodes, networks (`amped list systems`).
    --software ROW: Framework (`amped list software`).
    --manner WORD: How software runs: plain, recipe or tuned.
    --lengths FILE|TEXT: Lengths of documents, to fill sequences.
    --packing WORD: packed, padded, longest, dynamic.
    --cloud NAME: Whose prices: aws, gcp, nebius, oci, …
    --region NAME: Region of that provider; else all of them.
    --term WORD: on_demand, spot, capacity_block, 1y, 3y.
    --grid NAME: Whose electricity (`amped list grids`).
    --lookup-tables DIR: Your own lookup tables; repeatable.
    --anchor FILE: Your measured step (table, log) or layer.
    --formulas FILE: Your own formulas: a Python file, run.
    --anyway: Accept parts without a known bound.
    --ideal: All days train: no failures, no checkpoints.
Mapping:
    --gpus N: Number of accelerators.
    --nodes N: Number of servers.
DEGREES
    --etp N: Accelerators that share an expert.
    --vp N: Chunks of layers in each stage.
    --mbs N: Sequences of a micro-batch.
    --zero N: What replicas share: ZeRO 0 to 3.
    --recompute WORD: none, selective, full or block.
    --headroom WORD: Memory left free: a share (10%) or 8 GB.
Batch and precision:
    --gbs N: Sequences of a global batch.
    --seq N: Tokens of a sequence.
    --precision WORD: Format of products: bf16, fp8, mxfp8, …
""".replace("DEGREES", "\n".join(f"    --{OPTIONS[kind]} N: {kind.capitalize()}-parallel degree." for kind in WRITTEN))
KEYWORD, RANGE = inspect.Parameter.KEYWORD_ONLY, re.compile(r"([\d.]*?)\.\.(\d*)")


def described(text: str) -> dict[str, Any]:
    """The options and arguments that a docstring describes, by the names of their parameters."""
    options, group = {}, ""
    for line in text.splitlines():
        if not line.startswith("    "):
            group = line.removesuffix(":")
        elif group in GROUPS:
            declaration, _, help_text = f"{line.strip()} ".partition(": ")
            words = declaration.split()
            names = [word for word in words if word.startswith("-")]
            parameter = words.pop(0) if words[0] not in names else names[0].lstrip("-").replace("-", "_")
            options[parameter] = _option(names, [word for word in words if word not in names], help_text.strip(), group)
    return options


def _option(names: list[str], words: list[str], help_text: str, group: str) -> Any:
    """The Typer option of one described line; a Typer argument if `names` is empty.

    Args:
        names: flags such as --config and -c.
        words: the other words of the declaration: the metavar (N), and optionally a range (1..8).
        help_text: the help of the option; an option without help is hidden.
        group: the panel of the help in which the option stands.
    """
    range_ends = next((match.groups() for word in words if (match := RANGE.fullmatch(word))), ("", ""))
    metavar = " ".join(word for word in words if not RANGE.fullmatch(word)) or None
    if not names:
        return Argument(metavar=metavar, help=help_text)
    least, most = (None if not end else int(end) if end.isdigit() else float(end) for end in range_ends)
    panel = None if group == OWN else group
    return Option(
        *names, metavar=metavar, help=help_text, min=least, max=most, rich_help_panel=panel, hidden=not help_text
    )


EVERYWHERE = described(SHARED)
# The names of rows, the manner in which software runs, and documents of sequences. Below: the parameters that many people type, by short names of their
# own (`amped/schema/common_aliases.json`).
ROWS = ("model", "accelerator", "system", "software", "manner", "lengths", "packing", "cloud", "region", "term", "grid")
SHORT = {name: option for name, option in EVERYWHERE.items() if option.rich_help_panel in (MAPPING, TRAINING)}


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function with their options.

    `**short` becomes the parameters of rows (`ROWS`) and those of `SHORT`.
    """
    signature = dict(inspect.signature(function, locals={"Options": Any}, eval_str=True).parameters)
    if signature.pop("short", None):
        kinds = {name: int if EVERYWHERE[name].metavar == "N" else str for name in (*ROWS, *SHORT)}
        signature |= {
            name: inspect.Parameter(name, KEYWORD, default=None, annotation=kind | None)
            for name, kind in kinds.items() if name not in signature
        }  # fmt: skip
    options = EVERYWHERE | described(inspect.getdoc(function) or "")
    return [_with_option(parameter.replace(kind=KEYWORD), options) for parameter in signature.values()]


def in_order(parameter: inspect.Parameter) -> tuple[bool, int]:
    """The sort key of a parameter: required parameters first, then optional ones in the order of `SHARED`."""
    (option,) = getattr(parameter.annotation, "__metadata__", (None,))
    grouped = [shared for shared in EVERYWHERE.values() if shared.rich_help_panel]
    return parameter.default is not parameter.empty, grouped.index(option) if option in grouped else 0


def _with_option(parameter: inspect.Parameter, options: dict[str, Any]) -> inspect.Parameter:
    """A parameter with its option added to its type; unchanged if it has no option, or if its type already has one."""
    if parameter.name not in options or get_origin(parameter.annotation) is Annotated:
        return parameter
    return parameter.replace(annotation=Annotated[parameter.annotation, options[parameter.name]])


def without_options(function: Callable[..., Any]) -> str:
    """The docstring of a function without its sections of options."""
    sections = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(section for section in sections if section.partition(":\n")[0] not in GROUPS)
