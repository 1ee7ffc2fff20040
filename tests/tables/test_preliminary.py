"""A row whose figures are not final says so, with its date, wherever an answer rests on it."""

import json

import pytest

import amped
from amped.base.errors import TableError
from tests.helpers.cli import printed, refused

SYSTEM = {"extends": "DGX H100", "sources": ["an announcement"], "preliminary": "2026-03-16"}
TOLD = "the figures of 'Coming' are preliminary, as of 2026-03-16"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"system_specifications": {"Coming": SYSTEM}}))
    return str(path)


@pytest.mark.parametrize("date", [True, "soon", "2026", "2026-13-01", ""])
def test_a_preliminary_row_without_a_date_is_refused(tmp_path, date):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"system_specifications": {"Coming": SYSTEM | {"preliminary": date}}}))
    with pytest.raises(TableError, match="row 'Coming', column 'preliminary'"):
        amped.estimate(model="Llama 3 8B", system="DGX H100", gpus=8, lookup_tables=path)
    exit_code, told = refused("check-tables", path)
    assert exit_code == 2
    assert "is not a date" in told


ASKED = {
    "estimate": ("estimate", "--system", "Coming", "--gpus", "8"),
    "compare": ("compare", "Coming", "DGX H100", "--gpus", "8"),
    "explore": ("explore", "--vary", "system=Coming,DGX H100", "--gpus", "8"),
    "explore, ranked": ("explore", "--vary", "system=Coming,DGX H100", "--gpus", "8", "--top", "2"),
    "recommend": ("recommend", "--system", "Coming", "--deadline", "2000 days"),
    "tune": ("tune", "--system", "Coming", "--gpus", "8", "--method", "lora"),
    "why": ("why", "--system", "Coming", "--gpus", "8"),
    "support": ("support", "--system", "Coming", "--gpus", "8"),
    "whatif": ("whatif", "--system", "Coming", "--gpus", "8", "--set", "dropout=0.1"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ASKED)
def test_each_answer_tells_it_with_the_date(table, verb):
    shown = printed(*ASKED[verb], "--model", "GPT-2 small", "--lookup-tables", table)
    assert TOLD in " ".join(shown.split())


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ASKED)
def test_each_answer_for_machines_has_a_notice(table, verb):
    written = printed(*ASKED[verb], "--model", "GPT-2 small", "--lookup-tables", table, "--json")
    assert TOLD in written


@pytest.mark.thorough
def test_a_config_that_is_written_tells_it_too(table):
    asked = ("--model", "GPT-2 small", "--system", "Coming", "--gpus", "8", "--lookup-tables", table)
    assert TOLD in json.loads(printed("init", *asked))["description"]


@pytest.mark.thorough
def test_the_page_with_sliders_tells_it(table):
    from amped.web.answers import Desk

    state = {"model": "GPT-2 small", "system": "Coming", "gpus": "8"}
    assert TOLD in json.dumps(Desk(table).estimate({"state": state}))


def test_a_row_that_extends_a_preliminary_one_is_preliminary_until_it_says_otherwise(tmp_path):
    final = {"extends": "Coming", "sources": ["my own"], "preliminary": None}
    rows = {"Coming": SYSTEM, "Mine": {"extends": "Coming", "sources": ["my own"]}, "Final": final}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"system_specifications": rows}))
    notices = {
        name: " ".join(amped.estimate(model="Llama 3 8B", system=name, gpus=8, lookup_tables=path).notices)
        for name in rows
    }
    assert "'Mine' are preliminary, as of 2026-03-16" in notices["Mine"]
    assert "preliminary" not in notices["Final"]
