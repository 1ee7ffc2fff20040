"""`amped memory bench`: what memory-saving modules save and cost on this device."""

from __future__ import annotations

import dataclasses
import json

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


def _shares(written: str) -> tuple[float, ...]:
    """The numbers in a text, which commas separate.

    Raises:
        ConfigError: for any other text.
    """
    try:
        return tuple(float(share) for share in written.split(","))
    except ValueError:
        raise ConfigError(f"--budgets {written!r} are no numbers", "for example --budgets 1,0.8,0.5") from None
