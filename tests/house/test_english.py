"""Sentences that readers could not understand stay away, and the theory's docstrings can be read without each other."""

import ast
import json
import re
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

# Quotations from a review of the house: each needs another page, or a guess, to be understood.
RIDDLES = (
    "in the gap until the next round a chain stays there",
    "Activations times probabilities in the precision of these",
    "Visits as experts leave them",
    "Reductions beside gradients of weights",
    "The gathers among it",
    "Sums of norms and softmax among it",
    "The same cast to fp4",
    "The stages, of several, that can set the pace",
    "Whom a token's experts are with",
    "as a share of what would without copies",
    "`forwarded` 1 where what comes from other nodes passes inside once more",
    "in a step of one forward, one backward",
    "AMPeD's names that must have the value of another",
    "What is of software or of no kernel here",
    "as badly as those it has",
    "4 of 5 validated runs of this kind were within it",
    "what is read differently is said once",
    "written from what the pages say",
    "Exchanges beside the host",
)
FOLDERS, PAGES, KINDS = (
    ("amped", "kernels", "docs"),
    ("README.md", "CONTRIBUTING.md"),
    (".py", ".json", ".md", ".ipynb"),
)
FILES = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*")) if file.suffix in KINDS]
TEXTS = {
    file.relative_to(ROOT).as_posix(): " ".join(file.read_text("utf-8").split())
    for file in (*FILES, *(ROOT / page for page in PAGES))
}
# Words that point to a sentence in another docstring.
ELSEWHERE = re.compile(r"\bamong it\b|^The same\b|(?:^|[.;:] )[Tt]he same[,;.]")
# Nouns that begin the docstring of a formula only with an article: "The time …", "The number of layers …".
BARE = re.compile(
    r"(Time|Memory|Size|Share|Rate|Number|Bytes|Parameters|Layers|Tokens|Activations|Kernels|Price|Energy|Seconds|FLOPs)"
    r"s?\b"
)
CITATION = re.compile(r"arXiv[: ]\d{4}\.\d{4,5}")
# An abstract is no place: it promises what a section, an equation, a table or a figure shows.
PLACE = re.compile(r"\b(sections?|equations?|eqs?\.|tables?|figures?|algorithms?|appendix|appendices)(?=\W)", re.I)


def docstrings(file: Path) -> dict[str, str]:
    """The docstrings of a file, by name and line."""
    nodes = [node for node in ast.walk(ast.parse(file.read_text("utf-8")))
             if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]  # fmt: skip
    found = {f"{file.relative_to(ROOT)}:{node.body[0].lineno if node.body else 1}": ast.get_docstring(node)
             for node in nodes}  # fmt: skip
    return {place: text for place, text in found.items() if text}


THEORY = {
    place: text for file in sorted((ROOT / "amped/theory").rglob("*.py")) for place, text in docstrings(file).items()
}


def strings(value: object, are_lines: bool) -> list[str]:
    """The strings in the values of a JSON file; if lists are the lines of a text, such a list counts as one string."""
    if isinstance(value, dict):
        return [text for part in value.values() for text in strings(part, are_lines)]
    if isinstance(value, list):
        lines = [part for part in value if isinstance(part, str)]
        others = [text for part in value if not isinstance(part, str) for text in strings(part, are_lines)]
        return ([" ".join(lines)] if are_lines else lines) + others
    return [value] if isinstance(value, str) else []


# What docstrings, and the JSON files of the package and of the tables, say of sources.
SAID = {
    place: text
    for folder in ("amped", "kernels")
    for file in sorted((ROOT / folder).rglob("*.py"))
    for place, text in docstrings(file).items()
}
SAID |= {
    f"{file.relative_to(ROOT)}:{number}": text
    for folder in ("amped", "lookup_tables")
    for file in sorted((ROOT / folder).rglob("*.json"))
    for number, text in enumerate(strings(json.loads(file.read_text("utf-8")), folder == "amped"))
}


def without_a_place(text: str) -> list[str]:
    """The citations of a text that name no place in the paper, neither before nor after the paper's number."""
    found = []
    for match in CITATION.finditer(text):
        before = text[max(match.start() - 60, 0) : match.start()]
        after = re.split(r"arXiv|\n\n", text[match.end() :])[0][:160]
        if not (PLACE.search(after + " ") or re.search(rf"{PLACE.pattern}[^;]* (of|in) $", before, re.I)):
            found.append(match[0])
    return found


def test_a_riddle_that_was_solved_does_not_come_back() -> None:
    texts = {file: text.casefold() for file, text in TEXTS.items()}
    assert [(riddle, file) for riddle in RIDDLES for file, text in texts.items() if riddle.casefold() in text] == []


def test_no_docstring_of_the_theory_points_into_another_one() -> None:
    assert [f"{place}: {text}" for place, text in THEORY.items() if ELSEWHERE.search(" ".join(text.split()))] == []


def test_the_docstrings_of_the_theory_begin_with_a_sentence() -> None:
    paragraphs = {place: text.split("\n\n")[0] for place, text in THEORY.items()}
    assert [f"{place}: {text}" for place, text in paragraphs.items() if text[0].islower()] == []
    assert [f"{place}: {text}" for place, text in paragraphs.items() if not re.search(r"\.(\s|$)", text)] == []


def test_a_quantity_is_named_with_an_article() -> None:
    of_functions = {
        place: text for place, text in THEORY.items() if not place.endswith(":1")
    }  # a page's head is a title
    assert [f"{place}: {text}" for place, text in of_functions.items() if BARE.match(text)] == []


def test_citations_name_a_place_in_the_paper() -> None:
    found = {place: without_a_place(text) for place, text in SAID.items()}
    assert {place: papers for place, papers in found.items() if papers} == {}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Source: arXiv 2104.04473, section 2.2.", []),
        ("Source: section 3.1 of arXiv 1910.02054.", []),
        ("Source: arXiv 1910.02054.", ["arXiv 1910.02054"]),
        ("Source: arXiv 1910.02054, abstract.", ["arXiv 1910.02054"]),
        ("Source: arXiv 1910.02054; arXiv 2104.04473, eq. 3.", ["arXiv 1910.02054"]),
    ],
)
def test_a_citation_without_a_place_is_found(text: str, missing: list[str]) -> None:
    assert without_a_place(text) == missing


@pytest.mark.parametrize("text", ["The same cast.", "Sums among it.", "Times of a layer; the same, backward."])
def test_a_pointer_to_another_docstring_is_found(text: str) -> None:
    assert ELSEWHERE.search(text)
