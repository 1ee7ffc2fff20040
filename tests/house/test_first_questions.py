"""The first command that comes to mind gives the answer that an expert would give, on one screen."""

import re
import runpy

import pytest

from tests.helpers.cli import amped
from tests.helpers.places import ROOT

MADE = runpy.run_path(str(ROOT / "docs" / "first_questions.py"))
QUESTIONS, PAGE = MADE["QUESTIONS"], MADE["PAGE"].read_text("utf-8")
MOST_LINES, WIDTH = 20, 100
TWELVE = 12


def run(words, folder):
    done = amped(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shape(text):
    """The words of a text: without numbers, bars and the spaces that depend on them, which move with predictions."""
    return re.sub(r"[\s]+", " ", re.sub(r"[\d.,]+|#+", "", text))


@pytest.mark.thorough
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.asked.split("?")[0])
def test_the_first_command_answers(question, tmp_path):
    answer = MADE["printed"](question, run, tmp_path)
    lines = answer.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDTH
    assert "\x1b" not in answer
    told = MADE["told"](question, answer)
    assert shape(told) in shape(PAGE), "python docs/first_questions.py writes the page again"
    if question.is_screen:
        used = MADE["utilization"](answer)
        least, most = MADE["USUAL"]
        if question.published:
            figure = MADE["published"](question.published, answer)
            least, most = figure / 2, figure * 1.5
        assert least <= used <= most


def test_the_page_has_every_question():
    assert len(QUESTIONS) >= TWELVE
    assert [each.command for each in QUESTIONS if f"```bash\n{each.command}\n```" not in PAGE] == []
