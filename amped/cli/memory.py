"""`amped memory`: what memory-saving modules save and cost on this device, one by one and in a model of transformers."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import typer

from amped.base.errors import ConfigError
from amped.cli import options

memory = typer.Typer(
    name="memory",
    help="Modules that keep less for their backward pass (amped.kernels.memory).",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@memory.command("bench", short_help="What each technique saves, and its time.")
@options.with_options
def bench(
    batch: int = 4,
    sequence: int = 256,
    hidden: int = 512,
    heads: int = 8,
    dtype: str = "float32",
    device: str | None = None,
    with_compile: bool = True,
    budgets: str = "1,0.8,0.5",
    seconds: float = 0.5,
    as_json: bool = False,
    markdown: bool = False,
) -> None:
    """Measure the bytes that each technique saves in an encoder layer, the time it adds, and what still pays.

    Example: amped memory bench --batch 2 --seq 64 --hidden 128 --heads 4 --no-compile

    Options:
        --batch N: Sequences.
        sequence --seq N: Tokens of a sequence.
        --hidden N: Width of the residual stream.
        --heads N: Attention heads.
        --dtype NAME: float32, bfloat16 or float16.
        --device NAME: cpu or cuda; else a GPU where there is one.
        with_compile --compile/--no-compile: Compare with torch.compile.
        --budgets SHARE,…: torch.compile's budgets; 1 is its default.
        --seconds S: Seconds that timing one variant may take.
        as_json --json: All measurements as JSON.
        --markdown: The tables as Markdown.
    """
    from amped.kernels.layer_shape import Dimensions
    from amped.report.memory import memory_markdown, memory_tables

    shares = _shares(budgets) if with_compile else ()
    import amped.kernels.torch_import  # noqa: F401 (it says what to install if torch is missing)
    from amped.kernels.memory import bench as benches

    sizes = Dimensions(batch, sequence, heads, hidden)
    measured = dataclasses.asdict(benches.run_bench(sizes, device, dtype, shares, seconds))
    if as_json:
        options.show_json(json.loads(json.dumps(measured), parse_constant=lambda _: None), indent=2)
    elif markdown:
        typer.echo(memory_markdown(measured), nl=False)
    else:
        options.show(memory_tables(measured))


@memory.command("convert", short_help="What they save in a model of transformers.")
@options.with_options
def convert(
    network: str,
    layers: int | None = None,
    batch: int = 2,
    sequence: int = 128,
    fields: list[str] | None = None,
    techniques: list[str] | None = None,
    target: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    as_json: bool = False,
) -> None:
    """Build a model of transformers with random weights, convert it, and measure it before and after.

    What saves memory for the backward pass is exchanged, the most bytes a microsecond first, until the target is met.
    In Python: amped.kernels.memory.convert(model, Policy(), batch).

    Example: amped memory convert bert --layers 2 --set hidden_size=256

    Options:
        network MODEL: A model type (bert, vit) or a config.json.
        --layers N 1..: Layers of each stack; else as configured.
        --batch N 1..: Sequences.
        sequence --seq N 1..: Tokens of a sequence.
        fields --set -s NAME=VALUE: A field of its configuration; repeatable.
        techniques --technique NAME: Only this technique; repeatable.
        --target BYTES: Stop when no more is kept: "40 MB".
        --dtype NAME: float32, or under autocast bfloat16, float16.
        --device NAME: cpu or cuda; else a GPU where there is one.
        as_json --json: All measurements as JSON.
    """
    import amped.kernels.torch_import  # noqa: F401 (it says what to install if torch is missing)
    from amped.base.units import parse
    from amped.kernels.memory import trial
    from amped.kernels.memory.conversion import PAYING, Policy
    from amped.report.memory import conversion_table

    policy = Policy(tuple(techniques or PAYING), parse(target, "byte") if target else None)
    sizes = trial.Sizes(batch, sequence, layers, dict(_field(written) for written in fields or ()))
    measured = dataclasses.asdict(trial.run_trial(network, sizes, policy, device, dtype))
    if as_json:
        options.show_json(json.loads(json.dumps(measured), parse_constant=lambda _: None), indent=2)
    else:
        options.show(conversion_table(measured))


def _field(written: str) -> tuple[str, Any]:
    """The name and the value of a field; a value that is no JSON is a text.

    Raises:
        ConfigError: if the text has no equals sign.
    """
    name, equals, value = written.partition("=")
    if not equals:
        raise ConfigError(f"--set {written!r} has no value", "for example --set hidden_size=256")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _shares(written: str) -> tuple[float, ...]:
    """The numbers in a text, which commas separate.

    Raises:
        ConfigError: for any other text.
    """
    try:
        return tuple(float(share) for share in written.split(","))
    except ValueError:
        raise ConfigError(f"--budgets {written!r} are no numbers", "for example --budgets 1,0.8,0.5") from None
