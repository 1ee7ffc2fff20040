"""The site: every page of docs/ has its place in the navigation, and a link that leads nowhere is refused."""

import runpy
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.places import ROOT

DOCS = ROOT / "docs"
BUILD = runpy.run_path(str(DOCS / "build.py"))
MADE = [*BUILD["MADE"], *BUILD["OUTSIDE"].values()]


def places(nav: list[Any]) -> Iterator[str]:
    """The pages of a navigation, from its first to its last."""
    for entry in nav:
        for place in entry.values():
            yield from [place] if isinstance(place, str) else places(place)


def test_every_page_has_its_place_in_the_navigation() -> None:
    project = tomllib.loads((DOCS / "zensical.toml").read_text("utf-8"))["project"]
    pages = [*DOCS.rglob("*.md"), *DOCS.glob("*.ipynb")]
    assert sorted(places(project["nav"])) == sorted([*MADE, *map(BUILD["place_of"], pages)])


def test_links_lead_to_pages_of_the_site_and_code_is_left_alone() -> None:
    text = "[a](../tutorial.md#1) [b](../../amped/theory/step/cost.py) [c](https://a.b)\n\n```text\n[d](e.md)\n```\n"
    linked: set[Any] = set()
    changed = BUILD["on_the_site"](text, DOCS / "theory" / "index.md", linked)
    assert changed == text.replace("../../amped/theory/step/cost.py", "../source/amped/theory/step/cost.py.md")
    assert linked == {DOCS / "tutorial.md", ROOT / "amped" / "theory" / "step" / "cost.py"}


def test_a_link_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"docs/memory\.md: there is no nothing\.py"):
        BUILD["on_the_site"]("[a](nothing.py)", DOCS / "memory.md", set())


def test_a_list_behind_a_line_of_text_stays_a_list() -> None:
    changed = BUILD["on_the_site"]("**a room**\n- one;\n  more\n- two\n", DOCS / "memory.md", set())
    assert changed == "**a room**\n\n- one;\n  more\n- two\n"
