"""`amped init`: what it drafts estimates without an edit, and says all where it is asked to."""

import json

import pytest

from tests.helpers.cli import printed, refused
from tests.helpers.config import LLAMA_CONFIG

PAIRS = [
    ("GPT-2 XL", "DGX-1 V100", 2), ("GPT-3 175B", "DGX H100", 16), ("Llama 3 8B", "DGX A100", 4),
    ("Llama 3 70B", "DGX H200", 16), ("Llama 3.1 405B", "DGX H100", 64), ("Mixtral 8x7B", "DGX B200", 8),
    ("BERT large", "PCIe Gen4 box", 1), ("Qwen3 32B", "MI300X platform (8x with NDR/RoCE 400)", 8),
    ("ViT-22B", "TPU v4 pod", 64), ("T5 3B", "Perlmutter", 16),
]  # fmt: skip


@pytest.fixture
def amped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return printed


@pytest.mark.thorough
@pytest.mark.parametrize("full", [False, True], ids=["minimal", "full"])
@pytest.mark.parametrize(("model", "system", "nodes"), PAIRS)
def test_a_config_of_init_estimates_without_an_edit(amped, tmp_path, model, system, nodes, full):
    amped(
        "init", "--model", model, "--system", system, "--nodes", nodes, "-o", "my.json", *(["--full"] if full else [])
    )
    results = json.loads(amped("estimate", "--config", "my.json", "--json"))
    assert results["fits_in_memory"] is True
    assert results["number_of_nodes"] == nodes
    written = json.loads((tmp_path / "my.json").read_text())
    parameters = [
        p for section in written.values() if isinstance(section, dict) for p in section["parameters"].values()
    ]
    assert sum("description" in p for p in parameters) >= (90 if full else 6)


def test_a_full_config_says_the_same_as_the_minimal_one(amped):
    pair = ("--model", "Llama 3 8B", "--system", "DGX H100", "--nodes", 2)
    amped("init", *pair, "-o", "minimal.json")
    amped("init", *pair, "--full", "-o", "full.json")
    one, other = (json.loads(amped("estimate", "-c", f"{name}.json", "--json")) for name in ("minimal", "full"))
    assert one.pop("defaults_leaned_on")
    assert other.pop("defaults_leaned_on") == ""  # all of them are written out
    assert one == other


UNKNOWN = {**LLAMA_CONFIG, "a_kind_of_2030": "in every layer"}


def test_a_part_without_a_bound_is_refused_by_init_and_recommend_unless_anyway(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(UNKNOWN), "utf-8")
    model = ("--model", str(tmp_path / "config.json"))
    for asked in (("init", *model, "--gpus", 64), ("recommend", *model, "--deadline", "30 days")):
        code, said = refused(*asked)
        assert (code, "a_kind_of_2030" in said, "amped knows no bound" in said, "--anyway" in said) == (
            2,
            True,
            True,
            True,
        )


@pytest.mark.thorough
def test_init_and_recommend_take_a_part_without_a_bound_anyway(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(UNKNOWN), "utf-8")
    model = ("--model", str(tmp_path / "config.json"), "--anyway")
    (entry,) = json.loads(printed("init", *model, "--gpus", 64))["not_modeled"]
    assert "a_kind_of_2030" in entry["what"]
    found = json.loads(printed("recommend", *model, "--deadline", "3000 days", "--json"))
    assert found
    assert "--anyway" in printed("recommend", *model, "--deadline", "3000 days")
