"""`amped report`: every named number is that of --json, pictures show their tables, hostile names are text."""

import hashlib
import json
import random
import re
from functools import cache
from pathlib import Path

import pytest

from amped.base.errors import AmpedError, ConfigError
from amped.base.files import shipped_text
from amped.configuring.scenario import read_scenario
from amped.drafting.asking import Asking
from amped.estimation.estimation import estimated
from amped.report.page import again, answer, searched
from amped.report.page.content import Column, Picture, Section, Table, table
from amped.report.page.numbers import HEADLINE, numbers
from amped.report.page.topics import Heading, Topic, asked_of, headings, topics
from amped.report.page.writing import as_html, shipped
from amped.tables.table_files import MODELS, SYSTEMS
from amped.tables.tables import user_tables
from tests.helpers.cli import amped, printed
from tests.helpers.pages import Page, read

pytest.importorskip("jinja2")
LLAMA = ("--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "16")
OPEN = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 16}
# Names that break pages: markup, a closed script, an expression of the template, letters that turn the direction.
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>", "{{ 7 * 7 }}",
    "<!--", "\u202eright to left\u200f", "&lt;b&gt;", "x" * 10_000,
)  # fmt: skip
# Configs whose numbers are compared: networks of all kinds, several machines, mappings and precisions.
DRAWN = (
    ("default", {}), ("minimal", {}), ("llama-3-70b", {}), ("megatron-145.6B", {}), ("mixtral-8x7b", {}),
    ("amped-style", {}), ("electrical-glam-1.2T", {}), ("optical-glam-1.2T", {}),
    ("default", {"performance_model": "amped"}), ("default", {"activation_recomputation": "none"}),
    ("default", {"activation_recomputation": "selective"}), ("default", {"pipeline_schedule": "gpipe"}),
    ("default", {"virtual_pipeline_stages": 2}), ("default", {"microbatch_size": 2}), ("default", {"zero_stage": 1}),
    ("default", {"electricity_price": "0.1 USD/kWh"}), ("default", {"context": 4096}), ("default", {"batch_size": 3072}),
    ("mixtral-8x7b", {"microbatch_size": 2}), ("llama-3-70b", {"microbatch_size": 2}),
)  # fmt: skip


@cache
def page_of(*configs: str) -> str:
    """The page of some shipped configs."""
    asked = [asked_of(Asking(config, {})) for config in configs]
    return as_html(headings(asked), topics(asked), f"amped report {' '.join(configs)}")


def section_page(section: Section, what: str = "what") -> Page:
    """A page of one section."""
    return read(as_html([Heading("A", what, what)], [Topic(section.id, section.title, [(0, section)])], what))


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "values"), DRAWN)
def test_every_number_is_that_of_json_with_all_its_digits(config: str, values: dict[str, object]) -> None:
    e = estimated(read_scenario(config, values))
    every = section_page(answer.all_numbers(e)).named
    assert {name: found for (_, name), found in every.items()} == {n: [v] for n, v in e.to_dict().items()}


@pytest.mark.thorough
def test_every_number_of_configs_that_chance_draws_is_that_of_json() -> None:
    """Eight networks on machines with mappings that amped chooses; what cannot be trained there is drawn again."""
    tables, chance, compared = user_tables(None), random.Random(20261123), 0
    while compared < 8:
        drawn = {
            "model": chance.choice(tables.names(MODELS)), "system": chance.choice(tables.names(SYSTEMS)),
            "number_of_accelerators": chance.choice((8, 16, 64, 256)), "matrix_precision": chance.choice(("bf16", "fp8")),
            "activation_recomputation": chance.choice(("none", "selective", "full")),
        }  # fmt: skip
        try:
            e = estimated(Asking(None, drawn).completed())
        except AmpedError:
            continue
        every = section_page(answer.all_numbers(e)).named
        assert len(every) >= 40
        assert {name: found for (_, name), found in every.items()} == {n: [v] for n, v in e.to_dict().items()}, drawn
        compared += 1


@pytest.mark.thorough
def test_a_whole_page_names_at_least_forty_numbers_and_each_is_that_of_json() -> None:
    found, told = read(page_of("default")).named, json.loads(printed("estimate", "default", "--json"))
    assert len({name for (_, name), values in found.items() if isinstance(values[0], float)}) >= 40
    told.pop("notices")  # words, which a page has as words
    shown = {(name, json.dumps(value)) for (_, name), values in found.items() for value in values}
    assert shown == {(name, json.dumps(value)) for name, value in told.items()}


@pytest.mark.thorough
def test_configs_side_by_side_keep_their_own_numbers() -> None:
    configs = ("default", "megatron-145.6B")
    page = read(page_of(*configs))
    for place, config in enumerate(configs):
        told = json.loads(printed("estimate", config, "--json"))
        found = {name: values for (of, name), values in page.named.items() if of == place}
        assert {n: {*map(json.dumps, values)} for n, values in found.items()} == {
            n: {json.dumps(told[n])} for n in found
        }
        assert {*HEADLINE} <= found.keys()


def test_the_words_are_those_of_the_screen() -> None:
    e = estimated(read_scenario("default"))
    told = " ".join(f"{word} {text}" for word, text in answer.answer(e).lines)
    for word in ("FITS", "TIME", "TRAINING", "WHERE", "ASSUMED"):
        assert word in told
    step, training = f"{e['step_time']:.2f}", f"{e['training_time'] / 86_400:.1f} days"
    assert all(part in printed("estimate", "default") for part in (step, training))
    assert training in told


@pytest.mark.thorough
@pytest.mark.parametrize(("config", "values"), [*DRAWN, (None, OPEN), (None, OPEN | {"tensor_parallel_degree": 4})])
def test_the_config_of_a_page_gives_the_same_numbers(
    config: str | None, values: dict[str, object], tmp_path: Path
) -> None:
    e = asked_of(Asking(config, values)).estimation
    (tmp_path / "config.json").write_text(again.again(e).blocks["config.json"], "utf-8")
    told = json.loads(printed("estimate", tmp_path / "config.json", "--json"))
    assert {name for name, n in numbers(e).items() if told[name] != n.value} == set()


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_every_picture_shows_its_table() -> None:
    page = read(page_of("default"))
    assert {data["kind"] for data in page.pictures.values()} == {"bars", "stacked", "spans", "points"}
    tables = [rows for found in page.tables.values() for rows in found]
    for place, data in page.pictures.items():
        if data["kind"] != "spans":
            assert any(all(row in rows for row in data["rows"]) for rows in tables), place
        assert f"{data['title']}. {data['sentence']}" in page.labels


def test_the_spans_of_a_timeline_add_up_to_the_work_of_each_stage() -> None:
    page = read(page_of("default"))
    (table_of_stages,) = page.tables["Passes of each stage"]
    spans = [row for row in page.pictures["picture-timeline-0"]["rows"] if row[2] is not None]
    for stage, passes, busy, *_ in table_of_stages:
        own = [end - start for of, _, _, _, start, end in spans if of == stage]
        assert len(own) == passes
        assert sum(own) == pytest.approx(busy, rel=1e-9)


def test_points_of_a_search_have_the_sharding_and_the_recomputation_that_were_given() -> None:
    given = OPEN | {"zero_stage": 0, "activation_recomputation": "full", "tensor_parallel_degree": 2}
    asked = asked_of(Asking(None, given))
    front = searched.pareto(searched.quick_search(asked.estimation, asked.asks))
    told = [text for picture in front.pictures for text in picture.table.column("mapping")]
    assert told
    assert [text for text in told if "full recomputation" not in str(text) or "ZeRO" in str(text)] == []


def test_the_columns_of_one_unit_share_their_scale() -> None:
    made = table("x", ("a||byte", "b||byte"), [(5e9, 3e6)])
    assert made.heads == ["a (GB)", "b (GB)"]
    assert [cell.told for cell in made.cells[0]] == ["5", "0.003000"]


@pytest.mark.thorough
def test_a_search_has_its_ranking_and_its_front_before_the_report_of_its_best_mapping(tmp_path: Path) -> None:
    done = amped(
        "explore",
        *LLAMA,
        "--zero",
        "1",
        "--pareto",
        "step_time,memory_per_accelerator_bytes",
        "--json",
        "--report",
        "x.html",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told, page = json.loads(done.stdout), read((tmp_path / "x.html").read_text("utf-8"))
    first, best = told["best"][0], {name: values[0] for (_, name), values in page.named.items()}
    assert {name: best[name] for name in ("step_time", "cost")} == {name: first[name] for name in ("step_time", "cost")}
    (rows,) = page.tables["The best mappings"]
    assert [row[1] for row in rows] == [row["step_time"] for row in told["best"]]
    assert all("ZeRO 1" in row[0] for row in rows)
    assert [row[:2] for row in page.pictures["picture-front-0"]["rows"]] == [
        [r["step_time"], r["memory_per_accelerator_bytes"]] for r in told["front"]
    ]
    steps = page.pictures["picture-steps-0"]["rows"]
    assert [sum(row[2:]) for row in steps] == pytest.approx([row["step_time"] for row in told["best"]])
    assert f"{told['candidates']:,} mappings were tried" in page.text


@pytest.mark.thorough
def test_a_report_of_a_sweep_ranks_all_values_and_of_a_shard_is_refused(tmp_path: Path) -> None:
    done = amped("explore", *LLAMA[:4], "--vary", "gpus=16,32", "--top", "3", "--report", "x.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read((tmp_path / "x.html").read_text("utf-8")).tables["The best mappings"][0][0][0] == 32
    assert "x.html exists" in amped("explore", *LLAMA, "--report", "x.html", folder=tmp_path).stderr
    told = amped("explore", *LLAMA, "--shard", "1/2", "--report", "y.html", folder=tmp_path)
    assert (told.returncode, "a shard has no winners" in told.stderr) == (2, True)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:12])
def test_a_hostile_name_is_text(name: str) -> None:
    rows = Table(name, (Column("a", name), Column("b", "b", "s")), [(name, 1.0)])
    picture = Picture("p", name, "bars", name, rows, {"along": "a", "values": ["b"], "kind_of": "a"})
    section = Section("answer", name, [(name, name)], pictures=[picture], tables=[rows], blocks={name: name})
    page = section_page(section, name)
    assert [hashlib.sha256(s.encode()).hexdigest() for s in page.scripts] == [
        hashlib.sha256(shipped(file).encode()).hexdigest()
        for file in ("echarts/echarts.min.js", "pictures.js", "page.js")
    ]
    assert page.fetched == []
    assert page.pictures["picture-p-0"]["rows"] == [[name, 1.0]]
    assert page.text.count(name) >= 5


@pytest.mark.thorough
def test_a_hostile_config_makes_a_page_of_text(tmp_path: Path) -> None:
    config = json.loads(shipped_text("configs", "default.json")) | {"description": "".join(HOSTILE[:-1])}
    (tmp_path / "c.json").write_text(json.dumps(config), "utf-8")
    done = amped("report", "c.json", "-o", "out.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    page = read((tmp_path / "out.html").read_text("utf-8"))
    assert len(page.scripts) == 3
    assert page.fetched == []
    assert "".join(HOSTILE[:-1])[:60] in page.text


def test_an_existing_file_too_many_configs_and_a_missing_engine_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.html").touch()
    told = amped("report", "-o", "there.html", folder=tmp_path)
    assert (told.returncode, "not overwritten" in told.stderr) == (2, True)
    told = amped("report", *["default"] * 7, folder=tmp_path)
    assert (told.returncode, "too many" in told.stderr) == (2, True)
    monkeypatch.setitem(__import__("sys").modules, "markupsafe", None)
    with pytest.raises(ConfigError, match=r"amped\[report\]"):
        as_html([], [], "")


# --- one file ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_page_is_one_small_file_that_fetches_nothing(tmp_path: Path) -> None:
    done = amped("report", *LLAMA, "-o", "llama.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "llama.html").read_text("utf-8")
    page = read(html)
    assert len(html.encode()) < 2_000_000
    assert page.fetched == []
    assert "default-src 'none'" in html
    assert not re.search(r"url\(|@import", shipped("page.css"))
    assert "amped report --model 'Llama 3 8B' --system 'DGX H100' --gpus 16 -o llama.html" in page.text


def test_the_chart_library_is_the_one_that_is_told() -> None:
    about = json.loads(shipped("echarts/ABOUT.json"))
    assert hashlib.sha256(shipped("echarts/echarts.min.js").encode()).hexdigest() == about["sha256"]
    assert "Apache License" in shipped("echarts/LICENSE")


def test_the_roofline_names_no_bound_of_no_share() -> None:
    from amped.report.page.roofline import roofline

    sections = [roofline(estimated(read_scenario(name, {}))) for name in ("default", "minimal", "llama-3-70b")]
    told = [sentence for section in sections for _, sentence in section.lines]
    assert any(" is bound by " in sentence for sentence in told)
    assert not any(" 0 % is bound by " in sentence for sentence in told)
