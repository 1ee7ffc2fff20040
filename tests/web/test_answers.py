"""What the page says is what options say: the same numbers, the same words, and no search while a slider moves."""

import gc
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from amped.base.errors import AmpedError
from amped.drafting import splits
from amped.report import screen
from amped.web import controls
from amped.web.answers import Desk
from amped.web.state import asking, state_of
from tests.helpers.app import OTHER_RUNS
from tests.helpers.cli import printed, refused
from tests.helpers.config import LLAMA_CONFIG

LLAMA = {"model": "Llama 3 8B", "system": "DGX H100", "gpus": "16"}
# States of several networks, machines and mappings, and one of a file.
DRAWN: tuple[dict[str, str], ...] = (
    LLAMA, {**LLAMA, "tp": "4", "pp": "2", "precision": "fp8", "gbs": "256"}, {"model": "Mixtral 8x7B", "gpus": "16", "ep": "4"},
    {**LLAMA, "optimizer_offload": "0.5", "recompute": "full", "cp": "2"}, {"model": "ViT-L/16", "system": "DGX A100", "gpus": "8"},
    {**LLAMA, "seq": "32768", "zero": "2", "precision": "mxfp8", "overlap_data_communication": "true"},
)  # fmt: skip
WRONG: tuple[dict[str, str], ...] = (
    {**LLAMA, "tp": "3"}, {**LLAMA, "precision": "fp7"}, {**LLAMA, "pp": "64"}, {**LLAMA, "model": "no such model"},
    {**LLAMA, "gbs": "minus one"}, {**LLAMA, "system": "no such system"}, {**LLAMA, "zero": "7"}, {**LLAMA, "nonsense": "1"},
)  # fmt: skip


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk()


def told(answer: Any) -> dict[str, Any]:
    """All results on a page by name."""
    every = next(each for each in answer["sections"] if each["id"] == "numbers")
    return {row[2][2]: json.loads(row[2][1]) for row in every["tables"][0]["rows"]}


def of_command(answer: Any) -> dict[str, Any]:
    """All results of the command that a page shows, by name, without what the page has in words."""
    every = json.loads(printed(*shlex.split(answer["command"])[1:], "--json"))
    return {name: value for name, value in every.items() if name not in OTHER_RUNS}


@pytest.mark.thorough
@pytest.mark.parametrize("state", DRAWN, ids=str)
def test_the_numbers_are_those_of_the_command_that_the_page_shows(desk: Desk, state: dict[str, str]) -> None:
    answer = desk.estimate({"state": state})
    assert told(answer) == of_command(answer)
    again = desk.estimate({"state": answer["state"]})
    assert told(again) == told(answer)


def test_a_config_that_is_dropped_is_a_model(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"network": json.dumps(LLAMA_CONFIG), "gpus": "16"}
    answer = desk.estimate({"state": state})
    (tmp_path / "config.json").write_text(state["network"], "utf-8")
    monkeypatch.chdir(tmp_path)
    assert told(answer) == of_command(answer)
    assert desk.network({"text": state["network"]})["name"] in answer["what"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"model_type": "llama"}', "[" * 100_000, '"x"'])
def test_a_file_that_is_no_config_is_told(desk: Desk, text: str) -> None:
    with pytest.raises(AmpedError, match=r"config\.json"):
        desk.network({"text": text})


@pytest.mark.parametrize("state", WRONG, ids=lambda state: str(state)[60:])
def test_what_is_wrong_is_said_as_the_command_line_says_it(desk: Desk, state: dict[str, str]) -> None:
    with pytest.raises(AmpedError) as found:
        desk.estimate({"state": state})
    words = [word for name, text in state.items() for word in _option(name, text)]
    code, said = refused("estimate", *words)
    assert (code, said.strip()) == (2, f"amped: {found.value}")


def _option(name: str, text: str) -> tuple[str, str]:
    if name in controls.ROWS or (name in ("gpus", "tp", "pp") and text.isdigit()):
        return f"--{name}", text
    canonical = {control.name: control.canonical for control in controls.CONTROLS}
    return "--set", f"{canonical.get(name, name)}={text}"


def test_what_is_wrong_names_its_controls() -> None:
    assert controls.concerned("--tp 8 x --pp 8 = 64 does not divide: take --gpus 128") == ["tp", "pp", "gpus"]
    assert controls.concerned("--set zero_stage: 7 is above 3") == ["zero"]
    assert controls.concerned("table transformer_network_parameters has no row 'x'") == ["model"]
    assert controls.concerned("nothing of all this") == []


@pytest.mark.thorough
def test_a_slider_that_moves_searches_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    state = desk.estimate({"state": {**LLAMA, "pp": "2"}})["state"]
    tried: list[int] = []
    fastest = splits.fastest_in_chunks

    def counted(*given: Any) -> Any:
        found = fastest(*given)
        tried.append(found.candidates)
        return found

    monkeypatch.setattr(splits, "fastest_in_chunks", counted)
    moves = {"tp": "4", "pp": "4", "cp": "2", "mbs": "2", "gpus": "32", "gbs": "64", "precision": "fp8", "recompute": "full",
             "zero": "0", "vp": "2", "seq": "4096", "activation_offload": "0.5"}  # fmt: skip
    for name, text in moves.items():
        desk.estimate({"state": state | {name: text}})
    assert tried in ([], [1])  # only where a mapping breaks a rule
    assert state["vp"] == desk.estimate({"state": LLAMA})["state"]["vp"] == "1"  # else chunks would be searched


@pytest.mark.thorough
def test_the_page_lets_go_of_what_it_chose_where_it_cannot_run_or_does_not_fit(desk: Desk) -> None:
    """ZeRO 3 is chosen for 8B on 16, and has no pipelines; what the user said is never let go."""
    first = desk.estimate({"state": LLAMA})
    assert {"pp", "zero", "recompute"} <= {*first["chosen"]} <= {*controls.SEARCHED}
    moved = {**first["state"], "pp": "16"}
    answer = desk.estimate({"state": moved, "chosen": [name for name in first["chosen"] if name != "pp"]})
    assert (answer["state"]["pp"], "pp" in answer["chosen"]) == ("16", False)
    assert told(answer) == told(desk.estimate({"state": {**LLAMA, "pp": "16"}}))
    with pytest.raises(AmpedError, match="--tp 3"):
        desk.estimate({"state": {**first["state"], "tp": "3"}, "chosen": [n for n in first["chosen"] if n != "tp"]})
    full = {**first["state"], "tp": "1", "mbs": "8", "recompute": "none", "zero": "0"}
    chosen = [name for name in first["chosen"] if name != "mbs"]
    assert not desk.estimate({"state": full})["fits"]
    assert desk.estimate({"state": full, "chosen": chosen})["fits"]


@pytest.mark.thorough
def test_the_headroom_of_memory_is_a_control(desk: Desk) -> None:
    assert desk.estimate({"state": LLAMA})["shown"]["headroom"].endswith(" %")
    answer = desk.estimate({"state": {**LLAMA, "headroom": "20 GB"}})
    assert "--headroom '20 GB'" in answer["command"]
    assert told(answer) == of_command(answer)


@pytest.mark.thorough
def test_what_would_make_it_fit_is_looked_for_when_nothing_moves(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {**LLAMA, "tp": "1", "mbs": "8", "recompute": "none"}
    with monkeypatch.context() as patch:
        patch.setattr(screen, "smallest_change", None)
        moving = desk.estimate({"state": state})
        assert "timeline" in str(desk.after({"state": state})["sections"])
    assert moving["fits"] is False
    (line,) = [
        text for word, text in desk.after({"state": state, "settled": True})["sections"][1]["lines"] if word == "NO FIT"
    ]
    assert "; smallest change that makes it fit: --set " in line
    assert line in " ".join(printed("estimate", *shlex.split(moving["command"])[2:]).split())


@pytest.mark.thorough
def test_the_best_mapping_is_that_of_explore(desk: Desk) -> None:
    found = desk.best({"state": {**LLAMA, "tp": "8", "recompute": "full"}})
    best = json.loads(
        printed("explore", "--model", LLAMA["model"], "--system", LLAMA["system"], "--gpus", "16", "--json")
    )
    assert [round(s, 9) for s in _times(desk, found)] == [round(row["step_time"], 9) for row in best["best"][:5]]
    assert "batch_size" not in found["states"][0]


def _times(desk: Desk, found: Any) -> list[float]:
    return [told(desk.estimate({"state": state}))["step_time"] for state in found["states"]]


def test_a_change_of_why_leads_to_the_time_that_it_promises(desk: Desk) -> None:
    found = desk.why({"state": {**LLAMA, "recompute": "full"}})
    rows = found["sections"][0]["tables"][0]["rows"]
    assert len(rows) == len(found["states"]) > 0
    promised = [json.loads(row[1][1]) for row in rows]
    assert _times(desk, found) == pytest.approx(promised, rel=1e-12)


def test_what_is_pinned_stands_beside(desk: Desk) -> None:
    answer = desk.estimate({"state": LLAMA | {"precision": "fp8"}, "pinned": LLAMA})
    named = {(cell[3], cell[2]): json.loads(cell[1]) for table in answer["beside"]["tables"] for row in table["rows"] for cell in row if cell[2]}  # fmt: skip
    assert named[1, "step_time"] == told(answer)["step_time"] < named[0, "step_time"]
    assert "a step takes" in answer["beside"]["lines"][0][1]
    assert "fp7" in str(desk.estimate({"state": LLAMA, "pinned": LLAMA | {"precision": "fp7"}})["beside"]["lines"])


def test_the_config_that_leaves_the_page_gives_its_numbers(desk: Desk, tmp_path: Path) -> None:
    state = {**LLAMA, "tp": "2", "pp": "2"}
    found = desk.export({"state": state, "form": "config"})
    (tmp_path / "config.json").write_text(found["text"], "utf-8")
    exported = json.loads(printed("estimate", tmp_path / "config.json", "--json"))
    own = told(desk.estimate({"state": state}))
    assert {name for name, value in own.items() if exported[name] != value} == set()
    assert "--tensor-model-parallel-size 2" in desk.export({"state": state, "form": "megatron"})["text"]
    with pytest.raises(AmpedError, match="no format"):
        desk.export({"state": state, "form": "../../x"})


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw", [None, [], "x", {"gpus": 8}, {"gpus": None}, {f"n{i}": "1" for i in range(101)}, {"a": "x" * 100_001}]
)
def test_a_state_of_another_form_is_refused(raw: object) -> None:
    with pytest.raises(AmpedError):
        state_of(raw)


@pytest.mark.parametrize(
    "name", ["./secret.json", "../secret.json", "secret.json", "/etc/hostname", "~/secret.json", "."]
)
def test_the_page_names_no_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG), "utf-8")
    (tmp_path / "secret.json").write_text('{"password": "known"}', "utf-8")
    with pytest.raises(AmpedError, match="has no row") as found:
        asking({"model": name})
    assert "known" not in str(found.value)


@pytest.mark.parametrize(
    "name", ["measured_kernel_table", "measured-kernel-table", "formulas", "config", "lookup_tables"]
)
def test_the_page_names_no_table_and_no_formulas(desk: Desk, name: str, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("raise SystemExit", "utf-8")
    with pytest.raises(AmpedError):
        desk.estimate({"state": {**LLAMA, name: str(tmp_path / "f.py")}})


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "\u202eright to left\u200f", "x" * 10_000], ids=lambda n: n[:9]
)
def test_a_hostile_name_in_a_table_is_a_name(name: str, tmp_path: Path) -> None:
    rows = {name: {"extends": "Llama 3 8B", "sources": ["a test"]}}
    (tmp_path / "mine.json").write_text(json.dumps({"transformer_network_parameters": rows}), "utf-8")
    desk = Desk(tmp_path)
    assert name in [each for each, _ in desk.choices({})["rows"]["model"]]
    if len(name) > 200:  # such a name is listed, and no table is searched for it
        with pytest.raises(AmpedError, match="has no row"):
            desk.estimate({"state": {**LLAMA, "model": name}})
        return
    answer = desk.estimate({"state": {**LLAMA, "model": name}})
    assert answer["rows"]["model"] == name
    assert answer["what"].startswith(name)


@pytest.mark.thorough
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="needs /proc, which says how much memory a process has"
)
def test_200_moves_of_a_slider_keep_no_memory() -> None:
    desk = Desk()
    held = desk.estimate({"state": {**LLAMA, "tp": "4", "pp": "2"}})["state"]
    moves = [{**held, "seq": str(128 * n), "mbs": str(size)} for n in range(1, 76) for size in (1, 2, 4, 8)]
    sizes = []
    for number, state in enumerate(moves, 1):
        desk.estimate({"state": state})
        if number in (len(moves) - 200, len(moves)):
            gc.collect()
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    assert sizes[1] - sizes[0] < 5e6, sizes
