"""Builds the site of the docs into build/docs/site: `python docs/build.py`, with what the extra `docs` brings.

Its pages are those of docs/ and the READMEs. Made beside them are the glossary, the equations, the first questions with their
answers, the door for Python, the notebook as a page, which is run, and a page for each file of the repository that a page links
to. A link that leads nowhere is an error. `--pages` writes the pages as Markdown into build/docs/pages, and needs no extra.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import posixpath
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl

import amped
from amped.report import reference
from amped.theory.language.catalogue import catalogue

ROOT = Path(__file__).resolve().parent.parent
DOCS, BUILD = ROOT / "docs", ROOT / "build" / "docs"
PAGES, SITE = BUILD / "pages", BUILD / "site"
# Pages that lie outside docs/, and where they are on the site.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
# A page that is made from a file, in whose place it stands.
QUESTIONS = DOCS / "first_questions.py"
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml"}
BLOCK = re.compile(r"(^```.*?^```$)", re.M | re.S)
# A list behind a line of text, which needs a blank line before it in Python's Markdown.
RUN_ON = re.compile(r"^(?![-\s])(.+)\n(?=- )", re.M)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def place_of(file: Path) -> str:
    """Where a file of the repository is on the site."""
    path = file.relative_to(ROOT).as_posix()
    if path in OUTSIDE:
        return OUTSIDE[path]
    if file == QUESTIONS:
        return "first-questions.md"
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS).as_posix().replace(".ipynb", ".md")
    return f"source/{path}.md"


def on_the_site(text: str, page: Path, linked: set[Path]) -> str:
    """The text of a page whose links lead to pages of the site; the files that they name are added to `linked`."""

    def led(link: re.Match[str]) -> str:
        file = (page.parent / link[1]).resolve()
        file = file / "__init__.py" if file.is_dir() else file
        if not file.is_file():
            raise SystemExit(f"{page.relative_to(ROOT)}: there is no {link[1]}")
        linked.add(file)
        return f"]({posixpath.relpath(place_of(file), posixpath.dirname(place_of(page)) or '.')}{link[2] or ''})"

    parts = BLOCK.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(led, RUN_ON.sub(r"\1\n\n", part)) for part in parts)


def write(place: str, text: str) -> None:
    """Writes a page of the site."""
    path = PAGES / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def notebook(file: Path) -> str:
    """A notebook as a page: its texts, its code, and what it prints and draws when it is run."""
    names: dict[str, Any] = {}
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in json.loads(file.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"])
            is_code = cell["cell_type"] == "code"
            lines += [f"```python\n{source}\n```", *outputs(source, names)] if is_code else [source]
    return "\n\n".join(lines)


def outputs(code: str, names: dict[str, Any]) -> Iterator[str]:
    """What the code of a cell prints and draws; `names` are those of the cells before, and get its own."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mock.patch.object(plt, "show"):
        exec(compile(code, "a cell of the notebook", "exec"), names)
    if printed.getvalue():
        yield f"```text\n{printed.getvalue().rstrip()}\n```"
    for number in plt.get_fignums():
        image = io.BytesIO()
        plt.figure(number).savefig(image, format="png")
        yield f"![what this cell draws](data:image/png;base64,{base64.b64encode(image.getvalue()).decode()})"
    plt.close("all")


def first_questions() -> str:
    """The first questions with their answers."""
    made = runpy.run_path(str(QUESTIONS))
    return on_the_site(made["page"](made["run"]), QUESTIONS, set())


def door() -> str:
    """What `import amped` offers, as the site's tool for Python reads it."""
    return "\n\n".join(["# amped for Python", "::: amped", *(f"::: amped.{name}" for name in amped.__all__)])


# The pages that are no file of the repository, each with what makes it.
MADE: Mapping[str, Callable[[], str]] = {
    "glossary.md": lambda: reference.glossary(catalogue()),
    "equations.md": lambda: reference.equations(catalogue()),
    "first-questions.md": first_questions,
    "api.md": door,
}


def source(file: Path) -> str:
    """A file of the repository as a page."""
    fenced = f"````{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text('utf-8').rstrip()}\n````"
    return f"# {file.relative_to(ROOT).as_posix()}\n\n{fenced}\n"


def write_pages() -> None:
    """Writes all pages of the site."""
    linked: set[Path] = set()
    texts = [ROOT / path for path in OUTSIDE] + sorted(DOCS.rglob("*.md"))
    for file in texts:
        write(place_of(file), on_the_site(file.read_text("utf-8"), file, linked))
    for file in linked - {*texts, QUESTIONS}:
        if not file.is_relative_to(DOCS):
            write(place_of(file), source(file))
        elif file.suffix == ".ipynb":
            write(place_of(file), notebook(file))
        else:
            (PAGES / place_of(file)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, PAGES / place_of(file))
    for place, make in MADE.items():
        write(place, make())


def main() -> None:
    """Builds the site, strictly; or its pages only."""
    shutil.rmtree(BUILD, ignore_errors=True)
    write_pages()
    if "--pages" in sys.argv[1:]:
        print(f"{PAGES.relative_to(ROOT)}: {len([*PAGES.rglob('*.md')])} pages")
        return
    shutil.copy(DOCS / "zensical.toml", BUILD)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(BUILD / "zensical.toml")]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SystemExit("the site was not built")
    api = (SITE / "api.html").read_text("utf-8")
    if missing := [name for name in amped.__all__ if f'id="amped.{name}"' not in api]:
        raise SystemExit(f"the page of the Python door lacks {', '.join(missing)}")
    print(f"{(SITE / 'index.html').relative_to(ROOT)}: {len([*SITE.rglob('*.html')])} pages")


if __name__ == "__main__":
    main()
