"""The page of `amped app` in a real browser: sliders and their numbers, buttons, addresses, two pages, who cannot see it."""

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.helpers.app import OTHER_RUNS, Served, serving
from tests.helpers.browser import OVERFLOW, WIDTHS, Opened, browser, serious, visited
from tests.helpers.cli import printed
from tests.helpers.config import LLAMA_CONFIG

pytestmark = pytest.mark.xdist_group("browser")
FIRST = {"model": "Llama 3 8B", "system": "DGX H100", "gpus": "16"}
DRAWN = (
    {"model": "Mixtral 8x7B", "system": "DGX A100", "gpus": "16", "ep": "4"}, {**FIRST, "tp": "4", "pp": "2", "precision": "fp8"},
    {**FIRST, "seq": "32768", "recompute": "full", "activation_offload": "0.5", "overlap_data_communication": "true"},
)  # fmt: skip
HOSTILE = "<script>document.title = 'broken'</script><img src=x onerror=\"alert('broken')\">{{ 7 * 7 }}\u202e"
# The named numbers of what the page shows now; those beside a pinned state belong to two configurations.
NAMED = """[...document.querySelectorAll('#now data[data-name], #drawn data[data-name]')].map((e) => [e.dataset.name, e.value])"""
TEXTS = """[...document.querySelectorAll('[data-picture=memory] svg text')].map((each) => each.textContent)"""
# The longest time that no move of a slider may keep the page busy, in milliseconds.
BUSY = 1000
# The seconds after which a wait is given up.
PATIENCE = 30
# Moves of one slider, fifty a second; and how long it took at most until the page ran a timer that was due.
MANY_MOVES = """async ([name, moves]) => {
  const slider = document.getElementById(`slider-${name}`);
  let late = 0, due = performance.now() + 20;
  for (let move = 0; move < moves; move++) {
    slider.value = String((Number(slider.value) + 1) % (Number(slider.max) + 1));
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    await new Promise((then) => setTimeout(then, Math.max(due - performance.now(), 0)));
    late = Math.max(late, performance.now() - due);
    due = performance.now() + 20;
  }
  return [late, document.getElementById(`control-${name}`).value];
}"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(*[word for name, text in FIRST.items() for word in (f"--{name}", text)]) as found:
        yield found


def until(page: Any, holds: str) -> None:
    """Waits until an expression is true. The page's policy forbids the driver to do so by itself, which evaluates text."""
    ends = time.monotonic() + PATIENCE
    while not page.evaluate(holds):
        assert time.monotonic() < ends, holds
        time.sleep(0.02)


def settled(page: Any) -> None:
    """Waits until the page has the answer to the last move, with its pictures."""
    until(page, "document.documentElement.dataset.now === 'settled' && !window.ampedApp.isDrawing()")


def moved(page: Any, name: str, text: str) -> None:
    """Writes a number into the field beside a slider."""
    page.fill(f"#control-{name}", text)
    settled(page)


def step_time(page: Any) -> float:
    return float(json.loads(page.locator("#now data[data-name=step_time]").get_attribute("value")))


def command(page: Any) -> Any:
    """What the command that the page shows prints, without the times of other runs, which the page has in words."""
    told = json.loads(printed(*shlex.split(page.locator("#command").inner_text())[1:], "--json"))
    return {name: value for name, value in told.items() if name not in OTHER_RUNS}


def at(served: Served, state: dict[str, str]) -> str:
    return f"{served.address.partition('#')[0]}#{urlencode(state)}"


@pytest.fixture
def seen(chrome: Any, served: Served) -> Iterator[Opened]:
    """The page as it is first; at the end its console is empty, and it has asked no other host."""
    with visited(chrome, served.address) as found:
        settled(found.page)
        yield found
        assert found.told == []
        assert [url for url in found.asked if not url.startswith((served.address.partition("#")[0], "blob:"))] == []


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_every_named_number_is_that_of_json_in_each_state(seen: Opened, served: Served) -> None:
    for state in ({}, *DRAWN):
        seen.page.goto(at(served, state))
        settled(seen.page)
        told = command(seen.page)
        found = [(name, json.loads(value)) for name, value in seen.page.evaluate(NAMED)]
        assert dict(found) == told
        assert [pair for pair in found if pair[1] != told[pair[0]]] == []
        assert len({name for name, value in found if isinstance(value, float)}) >= 40


def test_numbers_memory_and_timeline_follow_a_slider(seen: Opened, served: Served) -> None:
    page = seen.page
    page.goto(at(served, {**FIRST, "vp": "1", "zero": "1"}))  # sharded weights, which are chosen, allow no second stage
    settled(page)
    before = step_time(page)
    page.focus("#slider-pp")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert page.input_value("#control-pp") == "4"
    assert step_time(page) != before
    assert step_time(page) == command(page)["step_time"]
    drawn = dict(page.evaluate("[...ampedPictures.charts.values()].map(({data}) => [data.id, data])"))
    assert len(drawn["memory"]["rows"]) == 4
    assert {"1", "2", "3"} <= {*page.evaluate(TEXTS)}
    assert {row[0] for row in drawn["timeline"]["rows"]} == {0, 1, 2, 3}
    assert "before:" in page.locator("#now").inner_text()


@pytest.mark.parametrize(
    ("control", "text", "beside"),
    [
        ("tp", "3", "--tp 3 does not divide 16 accelerators"),
        ("gbs", "0", "0 is below 1"),
        ("gpus", "0", "0 is below 1"),
    ],
)
def test_what_cannot_run_is_told_beside_its_control_and_mended(
    seen: Opened, control: str, text: str, beside: str
) -> None:
    page, before = seen.page, step_time(seen.page)
    was = page.input_value(f"#control-{control}")
    moved(page, control, text)
    assert beside in page.locator(f"#problem-{control}").inner_text()
    assert page.locator(".problem:visible").count() == 1
    assert page.locator(f"#control-{control}").get_attribute("aria-invalid") == "true"
    assert page.locator("#told").inner_text().startswith("This cannot run")
    moved(page, control, was)
    assert page.locator(".problem:visible").count() == 0
    assert step_time(page) == before


def test_the_page_lets_go_of_what_it_chose_where_a_slider_cannot_run_with_it(seen: Opened) -> None:
    """ZeRO 3 is chosen for 8B on 16, and has no pipelines; a batch of 17 is of one replica."""
    page = seen.page
    for name, text in (("pp", "4"), ("gbs", "17")):
        moved(page, name, text)
        assert page.locator(".problem:visible").count() == 0
        assert page.input_value(f"#control-{name}") == text
        assert step_time(page) == command(page)["step_time"]
    until(page, "location.hash.includes('chosen=') && location.hash.includes('gbs=17')")
    page.reload()
    settled(page)
    assert page.input_value("#control-pp") == "4"


def test_what_does_not_fit_is_told_with_the_change_that_helps(seen: Opened, served: Served) -> None:
    page = seen.page
    page.goto(at(served, {**FIRST, "tp": "1", "pp": "1", "recompute": "none", "zero": "1"}))
    settled(page)
    moved(page, "mbs", "8")
    assert page.locator(".warning").first.inner_text().startswith("NO FIT")
    assert "smallest change that makes it fit" in page.locator(".warning").first.inner_text()
    assert "lacking" in page.locator("#now").get_attribute("class")


def test_fifty_moves_a_second_keep_it_answering_and_the_last_one_wins(seen: Opened) -> None:
    late, last = seen.page.evaluate(MANY_MOVES, ["tp", 500])
    settled(seen.page)
    assert late < BUSY
    assert seen.page.input_value("#control-tp") == last
    assert step_time(seen.page) == command(seen.page)["step_time"]
    assert f"--tp {last} " in seen.page.locator("#command").inner_text() + " "


def test_two_pages_at_once_have_their_own_numbers(chrome: Any, served: Served, seen: Opened) -> None:
    with visited(chrome, at(served, DRAWN[0])) as other:
        settled(other.page)
        for place in ("2", "4"):
            seen.page.fill("#control-tp", place)
            other.page.fill("#control-mbs", place)
        for page in (seen.page, other.page):
            settled(page)
            assert step_time(page) == command(page)["step_time"]
        assert step_time(seen.page) != step_time(other.page)


# --- buttons ----------------------------------------------------------------------------------------------------------


def test_the_best_mapping_is_put_on_the_sliders(seen: Opened) -> None:
    page = seen.page
    page.click("#best")
    page.wait_for_selector("#asked section[data-id=best]")
    settled(page)
    found = json.loads(
        printed("explore", "--model", FIRST["model"], "--system", FIRST["system"], "--gpus", "16", "--json")
    )
    assert step_time(page) == pytest.approx(found["best"][0]["step_time"], rel=1e-12)
    assert page.input_value("#control-tp") == f"{found['best'][0]['tensor_parallel_degree']:g}"
    page.locator("#asked tbody button").nth(1).click()
    settled(page)
    assert step_time(page) == pytest.approx(found["best"][1]["step_time"], rel=1e-12)
    page.click("#asked .close")
    assert page.locator("#asked section").count() == 0


def test_on_a_narrow_window_the_answer_of_a_button_comes_into_sight(chrome: Any, served: Served) -> None:
    with visited(chrome, served.address, WIDTHS[1]) as found:
        settled(found.page)
        found.page.click("#why")
        found.page.wait_for_selector("#asked section")
        top = found.page.evaluate("document.getElementById('asked').getBoundingClientRect().top")
        assert 0 < top < found.page.viewport_size["height"]


def test_why_offers_changes_that_can_be_taken(seen: Opened) -> None:
    page = seen.page
    page.click("#why")
    page.wait_for_selector("#asked section[data-id=why]")
    assert "A step takes" in page.locator("#asked").inner_text()
    promised = json.loads(page.locator("#asked tbody tr data").nth(1).get_attribute("value"))
    page.locator("#asked tbody button").first.click()
    settled(page)
    assert step_time(page) == pytest.approx(promised, rel=1e-12)


def test_what_is_pinned_stands_beside_what_is_changed_and_both_are_in_the_address(seen: Opened) -> None:
    page, before = seen.page, step_time(seen.page)
    page.click("#pin")
    settled(page)
    page.select_option("#control-precision", "fp8")
    settled(page)
    beside = "[...document.querySelectorAll('#beside data[data-name=step_time]')].map((e) => JSON.parse(e.value))"
    assert page.evaluate(beside) == [before, step_time(page)]
    assert "pinned:" in page.locator("#now").inner_text()
    until(page, "location.hash.includes('precision=fp8') && location.hash.includes('pinned=')")
    page.reload()
    settled(page)
    assert page.evaluate(beside) == [before, step_time(page)]
    page.click("#pin")
    settled(page)
    assert page.locator("#beside section").count() == 0


def test_config_launch_line_and_report_leave_the_page(seen: Opened, tmp_path: Path) -> None:
    page = seen.page
    page.click("#export")
    page.click("#write")
    page.wait_for_selector("#written:visible")
    with page.expect_download() as saved:
        page.click("#save")
    saved.value.save_as(tmp_path / "config.json")
    assert json.loads(printed("estimate", tmp_path / "config.json", "--json"))["step_time"] == step_time(page)
    page.select_option("#form", "megatron")
    page.click("#write")
    until(page, "document.getElementById('written').textContent.includes('--tensor-model-parallel-size')")
    with page.expect_download() as saved:
        page.click("#report")
    assert saved.value.suggested_filename == "amped-report.html"
    assert "amped report --model" in Path(saved.value.path()).read_text("utf-8")


# --- models, addresses, other values ----------------------------------------------------------------------------------


def test_a_model_is_searched_by_keyboard_and_going_back_brings_the_one_before(seen: Opened) -> None:
    page, before = seen.page, page_title(seen.page)
    page.click("#control-model")
    page.keyboard.type("8x7 mix")
    assert page.locator("#list-model [role=option]").first.inner_text().startswith("Mixtral 8x7B")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settled(page)
    assert page_title(page).startswith("Mixtral 8x7B on 16 H100")
    page.go_back()
    settled(page)
    assert page_title(page) == before
    page.fill("#control-model", "no such model")
    page.keyboard.press("Enter")
    page.wait_for_selector("#list-model", state="hidden")
    assert page_title(page) == before or "has no row" in page.locator("#problem-model").inner_text()


def page_title(page: Any) -> str:
    return str(page.locator("#what").inner_text())


def test_a_config_is_dropped_and_a_hostile_name_in_it_is_text(seen: Opened, tmp_path: Path) -> None:
    page = seen.page
    (tmp_path / "config.json").write_text(
        json.dumps({**LLAMA_CONFIG, "_name_or_path": HOSTILE + "x" * 10_000}, indent=2), "utf-8"
    )
    page.set_input_files("#file", tmp_path / "config.json")
    page.wait_for_selector("#dropped:visible")
    settled(page)
    assert HOSTILE[:60] in page_title(page)
    assert "broken" not in page.title()
    assert page.evaluate(OVERFLOW) <= 0
    time_of_it = step_time(page)
    page.reload()
    settled(page)
    assert step_time(page) == time_of_it
    (tmp_path / "other.json").write_text("[]", "utf-8")
    page.set_input_files("#file", tmp_path / "other.json")
    page.wait_for_selector("#problem-model:visible")
    assert "is no config.json" in page.locator("#problem-model").inner_text()


def test_a_hostile_address_is_text(seen: Opened, served: Served) -> None:
    page = seen.page
    page.goto(at(served, {**FIRST, "model": HOSTILE}))
    page.reload()
    page.wait_for_selector("#problem-model:visible")
    assert "<script>" in page.locator("#problem-model").inner_text()
    page.goto(at(served, {HOSTILE: HOSTILE, "pinned": HOSTILE}))
    page.wait_for_selector("#problem-page:visible")
    assert page.title() == "amped"


def test_any_other_value_is_set_and_removed(seen: Opened) -> None:
    page, before = seen.page, step_time(seen.page)
    page.fill("#other", "overlap_data_communication=false")  # it changes no memory: the page keeps the mapping it chose
    page.keyboard.press("Enter")
    settled(page)
    assert page.locator("#chips").inner_text().startswith("overlap_data_communication=false")
    assert step_time(page) != before
    page.click("#chips button")
    settled(page)
    assert step_time(page) == before
    page.fill("#other", "nonsense")
    page.keyboard.press("Enter")
    assert "NAME=VALUE" in page.locator("#problem-other").inner_text()


def test_enter_in_the_field_of_a_control_sets_nothing_else(seen: Opened) -> None:
    page = seen.page
    page.fill("#other", "flash_attention=false")
    page.focus("#control-gpus")
    page.keyboard.press("Enter")
    settled(page)
    assert page.input_value("#other") == "flash_attention=false"
    assert page.locator("#problem-other").inner_text() == ""
    assert page.locator("#chips li").count() == 0


# --- who sees it, and where -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious_and_nothing_is_cut(chrome: Any, served: Served, width: int) -> None:
    address = at(served, {**FIRST, "precision": "fp8", "pinned": urlencode(FIRST)})
    with visited(chrome, address, width) as found:
        settled(found.page)
        assert found.page.evaluate(OVERFLOW) <= 0
        found.page.click("#export")
        moved(found.page, "tp", "3")
        for scheme in ("light", "dark"):
            found.page.emulate_media(color_scheme=scheme)
            settled(found.page)
            assert serious(found.page) == {}
            assert found.page.evaluate(OVERFLOW) <= 0
        assert found.told == []


def test_a_keyboard_reaches_the_numbers(seen: Opened) -> None:
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("document.activeElement.id") == "results"


def test_the_page_says_that_its_program_has_ended_and_another_token_is_refused(chrome: Any) -> None:
    with serving() as short, visited(chrome, short.address) as found:
        settled(found.page)
        assert short.end()[0] == 0
        found.page.fill("#control-tp", "2")
        until(found.page, "document.body.innerText.includes('has ended')")
    with serving() as short, visited(chrome, short.address.replace(short.path, "/wrong/")) as found:
        assert "put what follows # in yours behind it" in found.page.locator("body").inner_text()
