"""A page of the site: what a new user asks first, the command that comes to mind, and what it prints.

`python docs/build.py` makes it; `python docs/first_questions.py` prints it.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
TUTORIAL = DOCS / "tutorial.md"
MEASURED = DOCS.parent / "lookup_tables" / "published_measurements.csv"
# The lines that are shown of answers that are no screen of an estimate.
FEW = 9
# What no two runs have in common.
VOLATILE = re.compile(r" \([\d,]+ candidates in [^)]*\)")
# Where no figure is published: the utilization that trainings reach.
USUAL = (15.0, 65.0)
Run = Callable[[list[str], Path], str]


class Published(NamedTuple):
    """A published figure: the row of the measurements that has the tokens a second, or a utilization and its source."""

    row: str = ""
    utilization: float = 0.0
    source: str = ""


class Question(NamedTuple):
    """What is asked, the command, and what is published; `is_screen` if the answer is the screen of an estimate."""

    asked: str
    command: str
    published: Published | None = None
    is_screen: bool = True


QUESTIONS = (
    Question("Does a 7B model train on one GPU?", 'amped estimate --model "Llama 2 7B" --gpus 1'),
    Question("How fast is 8B on a server?", 'amped estimate --model "Llama 3 8B" --gpus 8', Published("v1-0001")),
    Question("70B on 64 H100?", 'amped estimate --model "Llama 3 70B" --system "DGX H100" --gpus 64', Published("v1-0007")),
    Question("Mixtral on 16?", 'amped estimate --model "Mixtral 8x7B" --gpus 16',
             Published("", 49.3, "Mixtral 8x22B on 128 H100: arXiv 2504.14960, table 2")),
    Question("DeepSeek V3 on 512 H100?", 'amped estimate --model "DeepSeek V3" --system "DGX H100" --gpus 512', Published("04c-0004")),
    Question("And on 256 GB200?", 'amped estimate --model "DeepSeek V3" --system "GB200 NVL72" --gpus 256', Published("04b-0047")),
    Question("A vision transformer?", "amped estimate --model ViT-L/16 --gpus 8"),
    Question("A large one on TPUs?", 'amped estimate --model ViT-22B --system "TPU v4" --gpus 1024',
             Published("", 54.9, "arXiv 2302.05442, section 3.2")),
    Question("BERT on V100?", 'amped estimate --model "BERT large" --accelerator V100 --gpus 8'),
    Question("70B on TPU v5p?", 'amped estimate --model "Llama 2 70B" --system "TPU v5p" --gpus 512', Published("v3-0128")),
    Question("My own accelerator, from its datasheet? (The rows are those of the [tutorial](tutorial.md).)",
             'amped estimate --model "Llama 3 70B" --system "Nimbus node" --gpus 64 --lookup-tables my_tables'),
    Question("Which is cheaper?", 'amped explore --model "Llama 3 8B" --gpus 64 --vary system="DGX H100,DGX A100"', is_screen=False),
    Question("Why is it slow?", 'amped why --model "DeepSeek V3" --system "DGX H100" --gpus 512', is_screen=False),
    Question("How many do I need?", 'amped recommend --model "Llama 3 8B" --system "DGX H100" --deadline "1 year"', is_screen=False),
    *(Question(f"8B on {number}?", f'amped estimate --model "Llama 3 8B" --gpus {number}', Published("v1-0001")) for number in (3, 6, 12)),
)  # fmt: skip


def page(run: Run) -> str:
    """The page; `run` gives what a command prints in a folder."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        parts = [told(question, printed(question, run, folder)) for question in QUESTIONS]
    return "\n".join([HEAD, *parts]).rstrip() + "\n"


HEAD = """# First questions

What a new user asks, the first command that comes to mind, and the lines of its answer that matter. Model FLOPs utilization (MFU) stands beside a published figure for the same kind of
accelerator. The network or the number of accelerators may differ; the line then names those of the figure.
"""


def datasheet() -> str:
    """The rows of an accelerator that the tutorial writes from a datasheet."""
    found = re.search(r"<!-- file: my_tables/tables.json -->\n```json\n(.*?)```", TUTORIAL.read_text("utf-8"), re.S)
    assert found
    return found[1]


def printed(question: Question, run: Run, folder: Path) -> str:
    """What the command of a question prints, in a folder that has the rows of the tutorial."""
    (folder / "my_tables").mkdir(exist_ok=True)
    (folder / "my_tables" / "tables.json").write_text(datasheet(), "utf-8")
    return run(shlex.split(question.command)[1:], folder)


def told(question: Question, answer: str) -> str:
    """A question, its command, and its answer."""
    shown = "\n".join(_shown(question, answer))
    text = f"**{question.asked}**\n\n```bash\n{question.command}\n```\n\n```text\n{shown}\n```\n"
    return f"{text}\n{_beside(question, answer)}\n" if question.is_screen else text


def _shown(question: Question, answer: str) -> list[str]:
    """The lines of an answer that matter."""
    lines = [VOLATILE.sub("", line) for line in answer.splitlines() if line.strip()]
    if not question.is_screen:
        return lines[:FEW]
    return lines[: next(place for place, line in enumerate(lines) if line.startswith("TRAINING"))]


def _beside(question: Question, answer: str) -> str:
    """The utilization beside the published one."""
    own = utilization(answer)
    if question.published is None:
        return f"MFU {own:.1f} %; none published that we know."
    return f"MFU {own:.1f} %; published: {published(question.published, answer):.1f} % ({_source(question.published)})."


def utilization(answer: str) -> float:
    """The utilization on a screen, in percent."""
    return _number(r"MFU ([\d.]+) %", answer)


def published(figure: Published, answer: str) -> float:
    """The published utilization in percent; tokens a second become one as those on the screen do."""
    if not figure.row:
        return figure.utilization
    return utilization(answer) * _tokens(_row(figure.row)) / _number(r"([\d,.]+) tokens/s", answer)


def _tokens(row: dict[str, str]) -> float:
    """The tokens a second of each accelerator that a row of the measurements has."""
    if row["measured_tokens_per_second_per_accelerator"]:
        return float(row["measured_tokens_per_second_per_accelerator"])
    step, number = float(row["measured_step_time"]), float(row["number_of_accelerators"])
    return float(row["batch_size"]) * float(row["context"]) / step / number


def _row(name: str) -> dict[str, str]:
    with MEASURED.open(encoding="utf-8", newline="") as file:
        return next(row for row in csv.DictReader(file) if row["id"] == name)


def _source(figure: Published) -> str:
    if not figure.row:
        return figure.source
    row = _row(figure.row)
    return f"row {figure.row}: {row['network']} on {row['number_of_accelerators']}, {row['source_ref']}"


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in\n{text}"
    return float(found[1].replace(",", ""))


def run(words: list[str], folder: Path) -> str:
    """What amped prints for these words, in a process of its own."""
    command, seen = (
        [sys.executable, "-m", "amped", *words],
        {**os.environ, "COLUMNS": "100", "SOURCE_DATE_EPOCH": "1782864000"},
    )
    done = subprocess.run(command, cwd=folder, env=seen, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    print(page(run), end="")
