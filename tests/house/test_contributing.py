"""CONTRIBUTING draws the house as it stands: its paths, its rooms and floors, its chapters, the tables that recipes name."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from amped.theory.language.catalogue import CHAPTERS
from tests.helpers.culprits import for_each
from tests.helpers.places import ROOT
from tests.house.test_floors import DATA_ROOMS, FLOORS

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
# The recipes that most people need, and all others.
RECIPES = "".join(
    page.read_text("utf-8").split("\n## A newcomer adds …\n")[1].split("\n## ")[0]
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "recipes.md")
)
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", ROOT / "benchmarks" / "README.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
# Where paths may begin: at the top, in the package, in its theory.
STARTS = (ROOT, ROOT / "amped", ROOT / "amped" / "theory")
BLOCK = re.compile(r"^```.*?^```", re.M | re.S)
TOP = {path.name for path in ROOT.iterdir()} | {path.name for path in (ROOT / "amped").iterdir()}


def quoted(text: str) -> Iterator[str]:
    """What stands in backticks within a line, outside blocks of code."""
    yield from re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))


def is_path(word: str) -> bool:
    """Whether a word in backticks looks like a file or a folder of the repository."""
    if not re.fullmatch(r"[\w./-]+", word):
        return False
    return word.endswith((".py", "/")) or ("/" in word and word.removeprefix("./").split("/")[0] in TOP)


def exists(path: str, page: Path) -> bool:
    """Whether a path leads somewhere, from one of its starts or from the folder of its page."""
    return any((start / path).exists() for start in (*STARTS, page.parent))


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, as cells."""
    below = CONTRIBUTING.split(f"\n## {heading}\n")[1]
    lines = re.findall(r"^\|.*\|$", below.split("\n## ")[0], re.M)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def rooms_of(cell: str) -> list[str]:
    """The rooms that a cell names: `cli/` is cli, `library.py` is library."""
    return [word.removesuffix("/").removesuffix(".py") for word in quoted(cell) if word.endswith(("/", ".py"))]


@for_each(PAGES)
def test_the_paths_in_backticks_exist(page: Path) -> None:
    named = [word for word in quoted(page.read_text("utf-8")) if is_path(word)]
    assert [word for word in named if not exists(word, page)] == []


@for_each(PAGES)
def test_the_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http|#)([^)#\s]+)", BLOCK.sub("", page.read_text("utf-8")))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("word", ["amped/formulas/", "tests/test_floors.py", "theory/laws.py", "placement.py"])
def test_a_path_that_is_not_there_would_be_seen(word: str) -> None:
    assert is_path(word)
    assert not exists(word, ROOT / "CONTRIBUTING.md")


@pytest.mark.parametrize("word", ["byte/s", "amped explain step_time", "np.where", "my_runs.csv", "name__variant"])
def test_what_is_no_path_of_the_repository_is_left_alone(word: str) -> None:
    assert not is_path(word)


def test_the_table_of_the_house_has_each_room_on_its_floor() -> None:
    drawn = {room: int(floor.split(",")[0]) for floor, rooms, _ in table("The house") for room in rooms_of(rooms)}
    assert drawn == FLOORS


def test_the_table_of_the_house_goes_down_floor_by_floor() -> None:
    floors = [int(floor.split(",")[0]) for floor, *_ in table("The house")]
    assert floors == sorted(floors, reverse=True)


def test_the_rooms_of_data_are_named() -> None:
    assert {f"{room}/" for room in DATA_ROOMS} <= set(quoted(CONTRIBUTING))


def test_the_table_of_the_theory_has_each_chapter_in_its_order() -> None:
    assert [rooms_of(chapter)[0] for chapter, *_ in table("The theory")] == list(CHAPTERS)


def test_the_tables_that_recipes_name_are_in_the_files_they_name() -> None:
    named = re.findall(r"`([A-Za-z_]\w+)`(?: there)? (?:of|in)\s+`([\w/]+\.py)`", BLOCK.sub("", RECIPES))
    assert len(named) > 15
    missing = [(name, path) for name, path in named if not any(defines(start / path, name) for start in STARTS)]
    assert missing == []


def defines(path: Path, name: str) -> bool:
    """Whether a file assigns or defines a name, or a variant of it."""
    if not path.exists():
        return False
    return bool(re.search(rf"^(?:def |class )?{name}(?:__\w+)?\b *[:=(]", path.read_text("utf-8"), re.M))
