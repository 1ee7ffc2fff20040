"""Running the command in this process or in one of its own, and what must not come of it."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

from tests.campaigns.answers import wrong_words
from tests.campaigns.records import Seen
from tests.helpers.cli import amped, apart

RIGHT, REFUSED, LACKING = 0, 2, 3


@contextmanager
def folder() -> Iterator[Path]:
    """An empty folder, for the time of a case."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as made:
        yield Path(made)


def done(words: list[str], where: Path, own_process: bool = False) -> CompletedProcess[str]:
    """The command, ended."""
    return apart(*words, folder=where) if own_process else amped(*words, folder=where)


def seen_of_command(run: CompletedProcess[str], where: Path, own_codes: tuple[int, ...] = ()) -> Seen:
    """What is wrong with a command that ended."""
    answered = int(run.returncode == RIGHT)
    if run.returncode not in (RIGHT, REFUSED, *own_codes):
        return Seen(f"exit code {run.returncode}, {_last_line(run.stderr)}: {run.stderr[-600:]}", answered)
    if "Traceback" in run.stderr + run.stdout:
        return Seen(f"a traceback with exit code {run.returncode}: {run.stderr[-600:]}", answered)
    if run.returncode == REFUSED and not run.stderr.strip():
        return Seen("refused without a word", answered)
    if run.returncode == REFUSED and (wrong := wrong_words(run.stderr)):
        return Seen(wrong, answered)
    if answered and "--json" in run.args and "--help" not in run.args and (wrong := _no_json(run.stdout)):
        return Seen(wrong, answered)
    left = [path.name for path in where.rglob(".amped-*")]
    return Seen(f"left behind: {left}" if left else "", answered)


def _last_line(told: str) -> str:
    """The last word of a traceback, without what differs from case to case."""
    lines = [line for line in told.splitlines() if line and not line.startswith((" ", "amped:"))]
    return lines[-1].partition(":")[0][:60] if lines else "silent"


def _no_json(text: str) -> str:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return f"--json that is none: {error}, {text[:100]!r}"
    return ""
