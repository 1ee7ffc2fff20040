"""The progress bar of long work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID


@contextmanager
def progress(what: str, done: str | ProgressColumn) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar on stderr and its task; nothing is drawn if stderr is no terminal.

    The bar shows `what` is done, the progress as `done` draws it, the task's text `told`, and the time left.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (what, BarColumn(), done, "{task.fields[told]}", TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task("", total=None, told="")
