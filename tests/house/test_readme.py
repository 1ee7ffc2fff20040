"""The README's output is what the commands print, and its commands are commands."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from amped.cli.app import app
from tests.helpers.places import ROOT
from tests.helpers.validation import estimated_once, validate

README = (ROOT / "README.md").read_text("utf-8")
USAGE = (ROOT / "docs" / "usage.md").read_text("utf-8")
BOTH = README + USAGE
SCREEN = 'amped estimate --model "Llama 3 70B" --system "DGX H100" --gpus 64'
# What a screen may take: lines, columns; and the page that shows it: lines, words.
MOST_LINES, WIDTH, MOST_PAGE_LINES, MOST_WORDS = 20, 100, 150, 1300
RUNS = [
    line.split("#")[0].split(">")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", BOTH, re.S)
    for line in block.splitlines()
    if line.startswith("amped ")
]


def block_after(mark):
    return BOTH.split(f"<!-- {mark} -->")[1].split("```")[1].partition("\n")[2].rstrip("\n")


def test_the_page_is_short():
    assert len(README.splitlines()) <= MOST_PAGE_LINES
    assert len(README.split()) <= MOST_WORDS


def test_the_screen_is_one_screen():
    lines = block_after(f"output of: {SCREEN}").splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("command", [SCREEN, "amped estimate --layers"])
def test_the_printed_output_is_real(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    lines = [line.rstrip() for line in CliRunner().invoke(app, shlex.split(command)[1:]).stdout.splitlines()]
    printed = "\n".join(line for line in lines if not line.startswith("written")).rstrip()
    assert printed == block_after(f"output of: {command}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all commands, as a reader has."""
    made = tmp_path_factory.mktemp("readme")
    (made / "my.json").write_bytes((ROOT / "configs" / "minimal.json").read_bytes())
    return made


def written_by(command):
    words = shlex.split(command)
    return words[words.index("-o") + 1] if "-o" in words else None


@pytest.mark.thorough
@pytest.mark.parametrize("command", RUNS)
def test_the_commands_run(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for earlier in RUNS[: RUNS.index(command)]:  # this worker may have been handed this command without those before it
        file = written_by(earlier)
        if file in shlex.split(command) and not (folder / file).exists():
            CliRunner().invoke(app, shlex.split(earlier)[1:], catch_exceptions=False)
    if written_by(command):  # a later command may have needed it before
        (folder / written_by(command)).unlink(missing_ok=True)
    with estimated_once():
        done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0


def test_the_ten_lines_are_the_shipped_config():
    assert (ROOT / "configs" / "minimal.json").read_text().strip() in BOTH


def test_the_section_on_accuracy_is_what_validate_prints(tmp_path):
    printed = validate("--markdown", folder=tmp_path)
    between = README.split("<!-- accuracy: amped validate --markdown -->\n")[1].split("<!-- end of accuracy -->")[0]
    assert between.strip() == printed.strip()
    assert len(printed.splitlines()) <= 15
