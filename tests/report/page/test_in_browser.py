"""A report in a real browser, from disk and without a network: numbers, pictures, keyboard, paper, and who cannot see it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amped.base.files import shipped_text
from tests.helpers.browser import OVERFLOW, WIDTHS, browser, opened, serious
from tests.helpers.cli import amped, printed

pytestmark = pytest.mark.xdist_group("browser")
CONFIGS = ("default", "minimal")
HOSTILE = "<script>document.title = 'broken'</script><img src=x onerror=\"alert('broken')\"></script>{{ 7 * 7 }}\u202e"
NAMED = """[...document.querySelectorAll('data[data-name]')]
           .map((e) => [Number(e.dataset.config), e.dataset.name, e.value])"""
# Names of bars that do not stand beside their bar; labels break into lines, so that blanks do not count.
UNNAMED = """[...ampedPictures.charts].filter(([, {data}]) => data.kind === 'bars').flatMap(([element, {data}]) =>
  data.rows.map((row) => String(row[data.columns.findIndex((c) => c.name === data.along)]))
    .filter((name) => !element.textContent.replace(/\\s/g, '').includes(name.replace(/\\s/g, ''))))"""
# For each picture: its kind, how many shapes or whether pixels are drawn, and the sum of the values that are drawn.
DRAWN = """[...ampedPictures.charts].map(([element, {chart, data}]) => ({
  kind: data.kind, id: data.id, rows: data.rows.length,
  points: chart.getOption().series.reduce((sum, s) => sum + s.data.filter((d) => d && d.row).length, 0),
  shapes: element.querySelectorAll('svg path').length,
  pixels: [...element.querySelectorAll('canvas')].some((c) => c.width > 0),
  height: element.clientHeight,
}))"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two configs."""
    folder = tmp_path_factory.mktemp("report")
    done = amped("report", *CONFIGS, "-o", "page.html", folder=folder)
    assert done.returncode == 0, done.stderr
    return Path(folder / "page.html")


def test_the_numbers_that_a_browser_reads_are_those_of_json(chrome: Any, file: Path) -> None:
    with opened(chrome, file) as seen:
        found = seen.page.evaluate(NAMED)
        assert seen.told == []
        assert seen.asked == [file.as_uri()]
    for place, config in enumerate(CONFIGS):
        told = json.loads(printed("estimate", config, "--json"))
        told.pop("notices", None)
        own = [(name, json.loads(value)) for of, name, value in found if of == place]
        assert dict(own) == told
        assert [pair for pair in own if pair[1] != told[pair[0]]] == []
        assert len({name for name, value in own if isinstance(value, float)}) >= 40


def test_every_picture_is_drawn_with_all_its_rows(chrome: Any, file: Path) -> None:
    with opened(chrome, file) as seen:
        drawn = seen.page.evaluate(DRAWN)
        figures = seen.page.locator("figure").count()
    assert len(drawn) == figures > 10
    for each in drawn:
        rows = each["rows"] if each["kind"] != "stacked" else each["points"]
        assert each["points"] == rows > 0, each
        assert each["shapes"] > each["rows"] or each["pixels"], each
        assert each["height"] > 100, each


@pytest.mark.parametrize(("width", "scheme"), [*zip(WIDTHS, ("light", "dark"), strict=True)])
def test_nothing_is_cut_and_axe_finds_nothing_serious(chrome: Any, file: Path, width: int, scheme: str) -> None:
    with opened(chrome, file, width, scheme) as seen:
        assert seen.page.evaluate(OVERFLOW) <= 0
        assert seen.page.evaluate(UNNAMED) == []
        assert serious(seen.page) == {}


def test_a_keyboard_reaches_the_content_and_opens_tables(chrome: Any, file: Path) -> None:
    with opened(chrome, file) as seen:
        page = seen.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        summary = page.locator("summary").first
        summary.focus()
        assert not page.evaluate("document.querySelector('figure details').open")
        page.keyboard.press("Enter")
        assert page.evaluate("document.querySelector('figure details').open")


def test_paper_is_white_and_has_the_tables(chrome: Any, file: Path, tmp_path: Path) -> None:
    with opened(chrome, file, scheme="dark") as seen:
        seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert seen.page.evaluate("[...document.querySelectorAll('figure details')].every((e) => e.open)")
        assert seen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        seen.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert not seen.page.evaluate("[...document.querySelectorAll('figure details')].some((e) => e.open)")
        assert seen.page.pdf()[:5] == b"%PDF-"
        assert seen.told == []


def test_a_page_may_not_ask_a_host_and_runs_no_other_script(chrome: Any, file: Path, tmp_path: Path) -> None:
    html = file.read_text("utf-8")
    (tmp_path / "changed.html").write_text(html.replace("</main>", "<script>document.title = 'broken'</script></main>"))
    with opened(chrome, tmp_path / "changed.html") as seen:
        assert seen.page.title() != "broken"
        assert any("Content Security Policy" in told for told in seen.told)
        assert seen.page.evaluate("fetch('https://example.org').then(() => 'asked', () => 'refused')") == "refused"


def test_a_hostile_name_stays_text(chrome: Any, tmp_path: Path) -> None:
    config = json.loads(shipped_text("configs", "default.json")) | {"description": HOSTILE}
    (tmp_path / "c.json").write_text(json.dumps(config), "utf-8")
    done = amped("report", "c.json", "-o", "page.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with opened(chrome, tmp_path / "page.html", 390) as seen:
        assert HOSTILE[:60] in seen.page.locator("h1").inner_text()
        assert "broken" not in seen.page.title() or "document.title" in seen.page.title()
        assert (seen.told, seen.asked) == ([], [(tmp_path / "page.html").as_uri()])
        assert seen.page.evaluate(OVERFLOW) <= 0
