"""Writes the outputs that pages show again: of README.md, docs/accuracy.md, docs/usage.md and docs/tutorial.md.

`python docs/refresh.py` runs the commands of these pages. A block without `...` becomes what its command prints; in a block
of the tutorial, each line becomes the printed line that is most like it. Read the differences before you commit them: text
around the blocks may quote numbers that moved.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OUTPUT = re.compile(r"(<!-- output of: (?P<line>[^\n]+) -->\n+```text\n)(?P<body>.*?)(?=```)", re.S)
ACCURACY = re.compile(r"(<!-- accuracy: (?P<line>[^\n]+) -->\n)(?P<body>.*?)(?=<!-- end of accuracy -->)", re.S)
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>bash|json|text)\n(?P<body>.*?)```", re.S)
EXITS = re.compile(r"\s+# exits with (\d+)$")


def printed_by(line: str, folder: Path) -> str:
    """All that a line of a shell prints in a folder; `amped` is the one of this clone."""
    words = shlex.split(EXITS.sub("", line))
    command = [sys.executable, "-m", "amped", *words[1:]] if words[0] == "amped" else ["bash", "-c", line]
    seen = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "SOURCE_DATE_EPOCH": "1782864000"}
    done = subprocess.run(
        command, cwd=folder, env=seen, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def words_of(line: str) -> str:
    """A line without its numbers and bars, which may have moved."""
    return re.sub(r"[\d.,]+|#+", "0", line.rstrip())


def like(shown: str, printed: str) -> str:
    """The shown lines, each replaced by a printed line after those before: the first with the same words, or the nearest."""
    rest, lines = printed.splitlines(), []
    for line in shown.splitlines():
        words, own = [words_of(each) for each in rest], words_of(line)
        alike = [own] if own in words else difflib.get_close_matches(own, words, 1, 0.6)
        if line in ("...", "") or not alike:
            lines.append(line)
            continue
        place = words.index(alike[0])
        lines.append(rest[place].rstrip())
        rest = rest[place + 1 :]
    return "\n".join(lines) + "\n"


def refresh_outputs(page: Path, blocks: re.Pattern[str], around: str) -> None:
    """Writes the blocks of a page again that name their command."""
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        fresh = blocks.sub(lambda b: b[1] + around + printed_by(b["line"], Path(folder)).rstrip() + "\n" + around, text)
    page.write_text(fresh, "utf-8")


def refreshed_parts(text: str, folder: Path) -> Iterator[str]:
    """The tutorial in parts, with its blocks of outputs written again."""
    end, printed = 0, ""
    for block in BLOCK.finditer(text):
        yield text[end : block.start("body")]
        body, end = block["body"], block.end("body")
        if block["file"]:
            (folder / block["file"]).parent.mkdir(exist_ok=True)
            (folder / block["file"]).write_text(body, "utf-8")
        elif block["kind"] == "bash":
            printed = "".join(printed_by(line, folder) for line in body.splitlines())
        yield like(body, printed) if block["kind"] == "text" else body
    yield text[end:]


def refresh_tutorial() -> None:
    """Writes the outputs of the tutorial again."""
    page = DOCS / "tutorial.md"
    with tempfile.TemporaryDirectory() as folder:
        page.write_text("".join(refreshed_parts(page.read_text("utf-8"), Path(folder))), "utf-8")


if __name__ == "__main__":
    refresh_outputs(ROOT / "README.md", ACCURACY, "\n")
    refresh_outputs(ROOT / "README.md", OUTPUT, "")
    refresh_outputs(DOCS / "accuracy.md", OUTPUT, "")
    refresh_outputs(DOCS / "usage.md", OUTPUT, "")
    refresh_tutorial()
