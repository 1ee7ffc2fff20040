"""Builds the site of the docs into build/docs/site: `python docs/build.py`, with what the extra `docs` brings.

Its pages are those of docs/ and the READMEs. Made beside them are the equations, the door for Python, the notebook as
a page, and a page for each file of the repository that a page links to. A link that leads nowhere is an error.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
    """A notebook as a page: its texts, its code, and what it printed and drew."""
    lines: list[str] = []
    for cell in json.loads(file.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        lines += [source] if cell["cell_type"] == "markdown" else [f"```python\n{source}\n```"]
        for output in cell.get("outputs", ()):
            lines += [f"```text\n{''.join(output['text']).rstrip()}\n```"] if "text" in output else []
            image = "".join(output.get("data", {}).get("image/png", ""))
            lines += [f"![what this cell draws](data:image/png;base64,{image.replace(chr(10), '')})"] if image else []
    return "\n\n".join(lines)


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
    for file in linked - set(texts):
        if not file.is_relative_to(DOCS):
            write(place_of(file), source(file))
        elif file.suffix == ".ipynb":
            write(place_of(file), notebook(file))
        else:
            (PAGES / place_of(file)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, PAGES / place_of(file))
    write("equations.md", reference.equations(catalogue()))
    write("api.md", "\n\n".join(["# amped for Python", "::: amped", *(f"::: amped.{name}" for name in amped.__all__)]))


def main() -> None:
    """Builds the site, strictly."""
    shutil.rmtree(BUILD, ignore_errors=True)
    write_pages()
    shutil.copy(DOCS / "zensical.toml", BUILD)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(BUILD / "zensical.toml")]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SystemExit("the site was not built")
    door = (SITE / "api.html").read_text("utf-8")
    if missing := [name for name in amped.__all__ if f'id="amped.{name}"' not in door]:
        raise SystemExit(f"the page of the Python door lacks {', '.join(missing)}")
    print(f"{(SITE / 'index.html').relative_to(ROOT)}: {len([*SITE.rglob('*.html')])} pages")


if __name__ == "__main__":
    main()
