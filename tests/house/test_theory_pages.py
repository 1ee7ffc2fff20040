"""The pages in docs/theory/ follow the book: a page for each chapter, and links that lead to functions that exist."""

import re
from pathlib import Path

from amped.tables.table_files import KERNELS
from amped.theory.language.catalogue import CHAPTERS, Formula, catalogue
from tests.helpers.culprits import for_each
from tests.helpers.places import ROOT

THEORY = ROOT / "docs" / "theory"
PAGES = sorted(THEORY.glob("*.md"))
PAPER = "a_step_on_paper"
# A function's name in backticks that links to the file it stands in.
LINK = re.compile(r"\[`(\w+)`\]\(([^)#\s]+)\)")
FORMULAS = [formula for quantity in catalogue().values() for formula in quantity.formulas]
CHOICES = {choice for quantity in catalogue().values() for choice in quantity.mark.choices}
ASKED = (
    "bubble of an interleaved schedule", "bytes of a ZeRO-3 gather", "time of an all-reduce",
    "memory of attention without fusion", "what hides expert exchanges", "largest micro-batch", "MFU",
    "expert's dispatch", "clock in training", "where the uncertainty band comes from",
)  # fmt: skip


def names_of(formula: Formula) -> set[str]:
    """What a page may call a formula: its quantity, or the function with its variant."""
    return {formula.name, formula.function.__name__}


def stands_in(name: str, file: Path) -> bool:
    """Whether a file has a function: a formula of the catalogue, a row of its table, or a plain one."""
    page = file.relative_to(ROOT).with_suffix("").as_posix().removeprefix("amped/theory/")
    if any(formula.page == page and name in names_of(formula) for formula in FORMULAS):
        return True
    return file.suffix == ".py" and bool(re.search(rf"^def {name}\(", file.read_text("utf-8"), re.M))


def links_of(page: Path) -> list[tuple[str, Path]]:
    """The functions that a page links to, with the files."""
    return [(name, (page.parent / path).resolve()) for name, path in LINK.findall(page.read_text("utf-8"))]


def test_every_chapter_has_a_page() -> None:
    assert {page.stem for page in PAGES} == {*CHAPTERS, "index", PAPER}


def test_the_index_lists_the_chapters_in_their_order() -> None:
    listed = re.findall(r"^\| \[\d+\. [^]]+\]\((\w+)\.md\)", (THEORY / "index.md").read_text("utf-8"), re.M)
    assert listed == list(CHAPTERS)


@for_each(CHAPTERS)
def test_a_chapter_says_what_it_takes_and_hands_on_beside_a_picture(chapter: str) -> None:
    text = (THEORY / f"{chapter}.md").read_text("utf-8")
    assert 25 <= len(text.splitlines()) <= 60
    assert "**Takes**" in text
    assert "**Hands on**" in text
    assert "```text" in text
    assert all(page in text for page in around(chapter))


def around(chapter: str) -> list[str]:
    """The links to the chapters before and behind one."""
    place = CHAPTERS.index(chapter)
    return [f"({name}.md)" for name in CHAPTERS[max(place - 1, 0) : place + 2] if name != chapter]


@for_each(PAGES)
def test_a_linked_function_stands_in_the_file_it_is_linked_to(page: Path) -> None:
    linked = links_of(page)
    assert linked or page.stem == PAPER
    assert [(name, file.name) for name, file in linked if not file.is_file() or not stands_in(name, file)] == []


@for_each(page for page in PAGES if page.stem != PAPER)
def test_a_name_in_backticks_is_in_the_catalogue_or_linked(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    words = set(re.findall(r"`([a-z]\w*_\w+)`", text)) - {name for name, _ in links_of(page)}
    known = {name for formula in FORMULAS for name in names_of(formula)} | CHOICES | {KERNELS}
    assert words - known == set()


@for_each(ASKED)
def test_the_index_answers_by_name(question: str) -> None:
    rows = (THEORY / "index.md").read_text("utf-8").splitlines()
    found = [row for row in rows if question in row and row.endswith(" |")]
    assert len(found) == 1
    assert LINK.search(found[0])


def test_a_function_that_is_not_there_would_be_seen() -> None:
    totals = ROOT / "amped" / "theory" / "step" / "totals.py"
    assert stands_in("step_time", totals)
    assert not stands_in("layer_time", totals)
    assert not stands_in("no_such_time", totals)
