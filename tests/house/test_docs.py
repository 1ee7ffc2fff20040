"""The pages in docs/ are true: their commands run, and their outputs are real."""

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys

import pytest

from amped.cli.app import main
from tests.helpers.places import ROOT
from tests.helpers.validation import validate

DOCS = ROOT / "docs"
# What a page is cut by, as what writes its outputs again cuts it.
REFRESH = runpy.run_path(str(DOCS / "refresh.py"))
BLOCK, EXITS = REFRESH["BLOCK"], REFRESH["EXITS"]
# What no two runs have in common: times of day, and how long a search took.
VOLATILE = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d|\([\d.]+ m?s\)")


def run(arguments):
    """The exit code of amped and all it prints."""
    printed = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        patch.setattr(sys, "argv", ["amped", *arguments])
        patch.delenv("FORCE_COLOR", raising=False)
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), printed.getvalue()
    return 0, printed.getvalue()


def run_line(line, folder):
    """The exit code and output of one line of a bash block; what is not amped's goes to a shell."""
    words = shlex.split(line)
    if words[0] == "amped":
        return run(words[1:])
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def plain(text):
    """Lines without what differs from run to run and without the padding of tables."""
    return [VOLATILE.sub("…", line).rstrip() for line in text.splitlines()]


def missing(shown, printed):
    """The first shown line that does not follow, in order, in what was printed; lines `...` skip any number."""
    rest = iter(plain(printed))
    return next((line for line in plain(shown) if line not in ("...", "") and line not in rest), None)


@pytest.mark.thorough
def test_each_word_has_two_sentences_and_a_command_that_runs():
    entries = re.findall(r"^- (\*\*.+?)(?=^- |^## |\Z)", (DOCS / "words.md").read_text("utf-8"), re.M | re.S)
    assert len(entries) >= 35
    for entry in entries:
        meaning, command = re.fullmatch(r"(.+?) `amped ([^`]+)`", " ".join(entry.split())).groups()
        assert len(re.findall(r"[.;](?= |$)", meaning)) in (2, 3), meaning
        assert run(shlex.split(command))[0] == 0, command


# `amped explain` says the line of each formula, which moves with every change above it.
LINE_OF_CODE = re.compile(r"\.py:\d+")


@pytest.mark.thorough
@pytest.mark.parametrize(("page", "least"), [("tutorial.md", 11), ("coming-from-amped.md", 7)])
def test_the_commands_of_a_page_run_and_print_what_it_shows(page, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    commands, line, printed = 0, "", ""
    for block in BLOCK.finditer((DOCS / page).read_text("utf-8")):
        body = block["body"]
        if block["file"]:
            path = tmp_path / block["file"]
            path.parent.mkdir(exist_ok=True)
            path.write_text(body, "utf-8")
        elif block["kind"] == "text":
            shown, there = (LINE_OF_CODE.sub(".py", text) for text in (body, printed))
            assert missing(shown, there) is None, f"not in this order in the output of {line!r}:\n{printed}"
        elif block["kind"] == "bash":
            printed = ""
            for line in body.splitlines():
                wanted = EXITS.search(line)
                code, output = run_line(EXITS.sub("", line), tmp_path)
                assert code == int(wanted[1] if wanted else 0), f"{line}\n{output}"
                printed += output
                commands += 1
    assert commands >= least


@pytest.mark.thorough
def test_the_page_on_accuracy_has_todays_screen(tmp_path):
    """Its sentences take their figures from it."""
    page = (DOCS / "accuracy.md").read_text("utf-8")
    shown = page.split("<!-- output of: amped validate -->\n```text\n")[1].split("```")[0]
    assert plain(shown) == plain(validate(folder=tmp_path))
    figures = {
        line.split("  ")[0] or line.strip().split("  ")[0]: re.findall(r"[\d.]+(?= %)", line)
        for line in shown.splitlines()
    }
    mean, median = ({name: each[place] for name, each in figures.items() if len(each) > 2} for place in (0, 1))
    dense, mixture = "dense", "mixture of experts"
    assert (
        f"off by {mean[dense]} % on average (half of them by less than {median[dense]} %), of a {mixture} by {mean[mixture]} %"
        in page
    )
    read = [
        mean[name]
        for name in ("memory, confidence high or medium", "allocated", "reserved", "device", "unsaid how it was read")
    ]
    assert (
        "off by {} % on average: {} % where allocated bytes were read, {} % reserved, {} % device, {} %".format(*read)
        in page
    )


@pytest.mark.parametrize(("page", "most"), [("CHANGELOG.md", 90), ("docs/accuracy-log.md", 150)])
def test_a_page_of_what_there_is_does_not_become_a_log(page, most):
    """Each version has a page of what it does, and what failed has one; how it came to be is in the history."""
    assert len((ROOT / page).read_text("utf-8").splitlines()) <= most
