"""The pages that nobody writes by hand are made for the site, and hold the figures that stand here; the first answers are an expert's."""

import json
import re
import runpy
from pathlib import Path

import pytest

from tests.helpers.cli import amped
from tests.helpers.places import ROOT

BUILD = runpy.run_path(str(ROOT / "docs" / "build.py"))
ASKED = runpy.run_path(str(BUILD["QUESTIONS"]))
NOTEBOOK = ROOT / "docs" / "worked-example.ipynb"
# `amped why` has the waterfall, of a dozen lines.
MOST_LINES, WIDTH, FEWEST_QUESTIONS = 36, 100, 12
# By page: where a figure stands, and the figure. Predictions may move by this share before they are changed here.
TOLERANCE = 0.01
FIGURES = {
    "glossary.md": {
        r"`reserved_memory_bytes` \| byte \| (\d+) GB": 1,
        r"`fused_backward_products` \|  \| ([\d.]+)": 2.5,
        r"`deterministic_attention_fraction` \|  \| ([\d.]+)": 0.75,
    },
    "first-questions.md": {
        r"7B model .*?MFU ([\d.]+)": 60.8,
        r"8B on a server.*?MFU ([\d.]+)": 59.1,
        r"70B on 64 H100.*?([\d.]+) s a step": 57.44,
        r"Mixtral on 16.*?FITS +([\d.]+)": 77.2,
        r"V3 on 512 H100.*?([\d,]+) tokens/s": 1103,
        r"on 256 GB200.*?published: ([\d.]+)": 35.3,
        r"vision transformer.*?MFU ([\d.]+)": 35.9,
        r"70B on TPU v5p.*?MFU ([\d.]+)": 74.9,
        r"from its datasheet.*?([\d.]+) s a step": 42.74,
    },
    "worked-example.md": {
        r"([\d.]+) days, [\d.]+ s a step": 25.2,
        r"MFU ([\d.]+)%": 44.7,
        r"([\d,]+) USD": 912_806,
        r"([\d.]+) GB an accelerator": 61.9,
        r"pipeline bubble +([\d.]+) s": 1.572,
        r"8192 accelerators +([\d.]+) days": 4.1,
        r"([\d,]+) candidates": 3825,
        r"0\.62 of the peak: ([\d.]+) days": 33.4,
    },
}


def moved(page: str, text: str) -> list[str]:
    """The figures of a page that are missing, or not what they were."""
    found = {pattern: re.search(pattern, text, re.S) for pattern in FIGURES[page]}
    shown = {pattern: float(match[1].replace(",", "")) if match else None for pattern, match in found.items()}
    return [
        f"{pattern}: {shown[pattern]}, not {figure}"
        for pattern, figure in FIGURES[page].items()
        if shown[pattern] != pytest.approx(figure, rel=TOLERANCE)
    ]


def run(words: list[str], folder: Path) -> str:
    """What amped prints, in this process."""
    done = amped(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_twenty_figures() -> None:
    assert sum(map(len, FIGURES.values())) == 20


def test_the_glossary_is_made() -> None:
    text = BUILD["MADE"]["glossary.md"]()
    assert text == run(["parameters", "--markdown"], ROOT)
    assert moved("glossary.md", text) == []


def wrong(question: object, answer: str) -> list[str]:
    """What is wrong with an answer: its size, or a utilization that is far from the published or the usual one."""
    lines = answer.splitlines()
    problems = [f"{len(lines)} lines"] if len(lines) > MOST_LINES else []
    problems += [f"{len(line)} columns: {line}" for line in lines if len(line) > WIDTH]
    problems += ["it has colors"] if "\x1b" in answer else []
    if question.is_screen:  # type: ignore[attr-defined]
        used, published = ASKED["utilization"](answer), question.published  # type: ignore[attr-defined]
        figure = published and ASKED["published"](published, answer)
        least, most = (figure / 2, figure * 1.5) if figure else ASKED["USUAL"]
        problems += [] if least <= used <= most else [f"MFU {used} is not from {least} to {most}"]
    return problems


@pytest.mark.thorough
def test_the_first_command_gives_an_experts_answer_on_one_screen() -> None:
    answers: list[str] = []

    def kept(words: list[str], folder: Path) -> str:
        answers.append(run(words, folder))
        return answers[-1]

    page = ASKED["page"](kept)
    asked = ASKED["QUESTIONS"]
    assert len(asked) >= FEWEST_QUESTIONS
    assert {q.asked: wrong(q, a) for q, a in zip(asked, answers, strict=True) if wrong(q, a)} == {}
    assert [q.command for q in asked if f"```bash\n{q.command}\n```" not in page] == []
    assert moved("first-questions.md", page) == []


@pytest.mark.thorough
def test_the_notebook_runs_from_its_first_cell_to_its_last() -> None:
    page = BUILD["notebook"](NOTEBOOK)
    assert moved("worked-example.md", page) == []
    assert "](data:image/png;base64," in page


def test_the_notebook_is_committed_without_what_it_prints() -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert [cell["source"] for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
    assert str(ROOT) not in NOTEBOOK.read_text("utf-8")
