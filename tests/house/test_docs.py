"""The pages in docs/ are true: their commands run, their outputs are real, the generated ones are what the verbs print."""

import contextlib
import io
import json
import re
import runpy
import shlex
import subprocess
import sys

import matplotlib as mpl
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


def test_the_tutorials_links_lead_somewhere():
    links = re.findall(r"\]\((?!http)([^)#]+)", (DOCS / "tutorial.md").read_text("utf-8"))
    assert [link for link in links if not (DOCS / link).exists()] == []


@pytest.fixture(scope="module")
def notebook():
    return json.loads((DOCS / "worked-example.ipynb").read_text("utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored(cell):
    """The text that a cell printed when the notebook was last executed."""
    return "".join("".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream")


@pytest.mark.thorough
def test_the_notebooks_cells_run_and_print_what_is_stored(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = mpl.get_backend()
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    names, compared = {}, 0
    try:
        for cell in code_cells(notebook):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), "worked-example.ipynb", "exec"), names)
            assert plain(printed.getvalue()) == plain(stored(cell))
            compared += bool(stored(cell))
    finally:
        plt.close("all")
        mpl.use(before)
    assert compared >= 4


def test_the_notebook_was_executed_in_order_and_is_small(notebook):
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(out["output_type"] == "error" for cell in cells for out in cell["outputs"])
    assert any("image/png" in out.get("data", {}) for cell in cells for out in cell["outputs"])
    assert (DOCS / "worked-example.ipynb").stat().st_size < 300_000
    assert str(DOCS.parent) not in json.dumps(notebook)


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


def test_the_glossary_is_what_the_command_prints():
    code, printed = run(["parameters", "--markdown"])
    assert code == 0
    assert (DOCS / "glossary.md").read_text("utf-8").rstrip() == printed.rstrip(), "amped parameters --markdown"
