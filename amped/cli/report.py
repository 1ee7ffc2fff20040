"""`amped report`: an estimate as a page that can be sent."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from amped.base.errors import ConfigError
from amped.base.files import write_atomically
from amped.cli import options

if TYPE_CHECKING:
    from amped.report.page.topics import Asked, Topic

# The largest page in bytes.
LARGEST = 2_000_000
NAME = Path("report.html")


@options.bundled(given=options.changes)
def report(
    given: dict[str, object], names: list[str] | None = None, output: Path = NAME, lookup_tables: options.Folders = None
) -> None:
    """Write the answer as one HTML file with charts, which opens in a browser without a network.

    It has what `amped estimate` says, the time by part, the memory by stage, the timeline, the roofline, a quick search
    over sizes, the sensitivity, what is assumed, how good it is, and the config. Several configs stand side by side;
    options change each of them.

    Example: amped report --model "Llama 3 70B" --system "DGX H100" --gpus 64 -o llama.html

    Options:
        names CONFIG...: Configs; none: what the options name.
        --output -o FILE: The page to write.
    """
    from amped.report.page.beside import LETTERS
    from amped.report.page.topics import asked_of, topics

    options.refuse_unwritable(output, "--output")
    if names and len(names) > len(LETTERS):
        raise ConfigError(f"{len(names)} configs are too many for one page", f"name at most {len(LETTERS)}")
    configs = [asked_of(options.Asking(name, given, lookup_tables)) for name in names or (None,)]
    typer.echo(write_page(output, configs, topics(configs, options.tell)))


def write_page(output: Path, configs: Sequence[Asked], topics: Sequence[Topic]) -> str:
    """Writes a page of some configurations, and returns a sentence with its path and its size.

    Raises:
        ConfigError: if the page is too large for a browser.
    """
    from amped.report.page.topics import headings
    from amped.report.page.writing import as_html

    page = as_html(headings(configs), topics, shlex.join(["amped", *sys.argv[1:]]))
    size = len(page.encode())
    if size > LARGEST:
        raise ConfigError(
            f"the page would have {size / 1e6:.1f} MB", "name fewer configs, or rank fewer mappings with --top"
        )
    return f"written to {write_atomically(output, page)} ({size / 1e6:.1f} MB)"
