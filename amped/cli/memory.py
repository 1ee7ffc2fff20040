"""`amped memory bench`: what memory-saving modules save and cost on this device."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from typer import Option

from amped.base.errors import ConfigError
from amped.cli import options

memory = typer.Typer(
    name="memory",
    help="Modules that keep less for their backward pass (amped.kernels.memory).",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@memory.command("bench", short_help="What each technique saves, and its time.")
def bench(
    batch: Annotated[int, Option(metavar="N", help="Sequences.")] = 4,
    sequence: Annotated[int, Option("--seq", metavar="N", help="Tokens of a sequence.")] = 256,
    hidden: Annotated[int, Option(metavar="N", help="Width of the residual stream.")] = 512,
    heads: Annotated[int, Option(metavar="N", help="Attention heads.")] = 8,
    dtype: Annotated[str, Option(metavar="NAME", help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str | None, Option(metavar="NAME", help="cpu or cuda; else a GPU where there is one.")] = None,
    with_compile: Annotated[bool, Option("--compile/--no-compile", help="Compare with torch.compile.")] = True,
    budgets: Annotated[str, Option(metavar="SHARE,…", help="torch.compile's budgets; 1 is its default.")] = "1,0.8,0.5",
    seconds: Annotated[float, Option(metavar="S", help="Seconds that timing one variant may take.")] = 0.5,
    as_json: Annotated[bool, Option("--json", help="All measurements as JSON.")] = False,
    markdown: Annotated[bool, Option("--markdown", help="The tables as Markdown.")] = False,
) -> None:
    """Measure the bytes that each technique saves in an encoder layer, the time it adds, and what still pays.

    Example: amped memory bench --batch 2 --seq 64 --hidden 128 --heads 4 --no-compile
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
    """Numbers that are separated by commas.

    Raises:
        ConfigError: for any other text.
    """
    try:
        return tuple(float(each) for each in written.split(","))
    except ValueError:
        raise ConfigError(f"--budgets {written!r} are no numbers", "for example --budgets 1,0.8,0.5") from None
