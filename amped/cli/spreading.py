"""The options that say where an exploration runs and what it keeps, and its progress bar."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Literal

import typer

from amped.base.errors import ConfigError
from amped.base.files import exists
from amped.cli import options
from amped.cli.progress import progress

if TYPE_CHECKING:
    from amped.exploration.running import Run, Watch


# Shown below the help of the verb.
EXAMPLES = """Several cores or machines give the same answer, to the last bit (mpi and dask are extras: pip install
'amped[mpi]', 'amped[dask]'). A run that was interrupted, in whatever way, goes on with --resume:

    amped explore --space full --workers 8 --resume found.jsonl

    mpirun -np 64 amped explore --space full --executor mpi

    amped explore --space full --executor dask --scheduler tcp://head:8786

    amped explore --space full --shard 3/16     # in a job array, then:

    amped merge explore-shard-*.jsonl
"""


# The kinds of engines that evaluate the parts of the space.
ExecutorName = Literal["serial", "processes", "mpi", "dask"]


@dataclass(frozen=True)
class Place:
    """Where an exploration runs and what it keeps, as the options say.

    Where it runs:
        --workers N 1..: Processes on this machine.
        --executor: How parts are spread; mpi needs mpirun.
        --scheduler ADDRESS: Scheduler for dask, as tcp://HOST:8786.
        --resume FILE: Keep finished parts in FILE; go on from it.
        --shard I/N: One of N equal shares, for `amped merge`.
    """

    workers: int | None = None
    executor: ExecutorName | None = None
    scheduler: str | None = None
    resume: Path | None = None
    shard: str | None = None

    def __post_init__(self) -> None:
        """With MPI, this process may be one that evaluates: its libraries have one thread, which is said before they are loaded."""
        if self.executor == "mpi":
            from amped.exploration.executors import one_thread_each

            one_thread_each()


@contextmanager
def running(asked: Place, output: Path | None, output_dir: Path | None) -> Iterator[Run | None]:
    """The run that the options describe, with a progress bar; None in a process of MPI that only evaluates.

    Ctrl-C ends with code 130, and SIGTERM, which cleans up as Ctrl-C does, with 143.
    """
    from amped.exploration.executors import Spread, opened
    from amped.exploration.merging import read_shard
    from amped.exploration.running import Run, load

    share, findings = (1, 1), asked.resume
    if asked.shard is not None:
        share = read_shard(asked.shard)
        findings = shard_file(share, asked.resume, output, output_dir)
    spread = Spread(asked.executor or "", asked.workers, asked.scheduler or "", load)
    best: list[str] = []
    try:
        with _ended_by_sigterm(), opened(spread) as engine:
            if engine is None:
                yield None
            else:
                with _watched(best) as watch:
                    yield Run(engine, findings, share, watch)
    except KeyboardInterrupt as interrupt:
        advice = (
            f"what is finished is in {findings}: --resume goes on from it" if findings else "--resume FILE keeps it"
        )
        options.tell(f"amped: interrupted; {advice}")
        for text in best[-1:]:
            options.tell(f"amped: the best so far: {text}")
        raise typer.Exit(143 if isinstance(interrupt, Terminated) else 130) from None


class Terminated(KeyboardInterrupt):
    """SIGTERM as an interrupt, so that it causes the same clean-up as Ctrl-C."""


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Turns SIGTERM into an interrupt while the block runs. Processes that the block starts still end by SIGTERM."""

    def interrupt(*_: object) -> None:
        raise Terminated

    previous_handler = signal.signal(signal.SIGTERM, interrupt) if current_thread() is main_thread() else None
    try:
        yield
    finally:
        if previous_handler is not None:
            signal.signal(signal.SIGTERM, previous_handler)


def shard_file(share: tuple[int, int], resume: Path | None, output: Path | None, output_dir: Path | None) -> Path:
    """The file for the findings of a shard: that of --resume or --output, else one named by the share (I, N).

    Raises:
        ConfigError: if two files are named, or if the file exists and --resume does not name it.
    """
    if resume and output:
        raise ConfigError("--shard writes one file, and both --resume and --output name it",
                          "keep --resume to go on from a file, or --output for a new one")  # fmt: skip
    path = resume or output or (output_dir or Path()) / f"explore-shard-{share[0]}-of-{share[1]}.jsonl"
    if not resume and exists(path):
        raise ConfigError(f"{path} exists and is not overwritten", f"--resume {path} goes on with it")
    return path


@contextmanager
def _watched(best: list[str]) -> Iterator[Watch]:
    """A progress bar with the rate, the time left, and notes; each better candidate is added to `best`, in words."""
    from amped.exploration.running import Watch

    with progress("exploring", "[progress.percentage]{task.percentage:>3.0f}%") as (bar, task):
        bar.update(task, told="layouts of pipelines")

        class Shown(Watch):
            def began(self, done: int, candidates: int) -> None:
                bar.update(task, total=candidates, completed=done, told=f"of {candidates:,} candidates")

            def advanced(self, candidates: int) -> None:
                bar.advance(task, candidates)
                speed, total = bar.tasks[0].speed, bar.tasks[0].total
                if speed:
                    found = f"; {best[-1].partition(';')[0]}" if best else ""
                    bar.update(task, told=f"of {total:,.0f} candidates, {speed / 1e6:.2f} million/s{found}")

            def improved(self, text: str) -> None:
                best.append(text)

            def note(self, text: str) -> None:
                options.tell(f"note: {text}")

        yield Shown()
