"""The table of published measurements: every row is read by the reader, and modeled, or says which fact is missing."""

import ast
import json
from collections import Counter
from functools import cache

import pytest

from amped.cli.listing import listing
from amped.theory.language.catalogue import catalogue
from amped.validation.facts import ESSENTIAL, FACTS
from amped.validation.measurements import MEMORY, read_measurements
from amped.validation.table import read_table
from tests.helpers.places import ROOT
from tests.helpers.validation import shipped, table


@cache
def rows():
    return {row.texts["id"]: row for row in read_table(None, catalogue())}


def test_the_table_has_its_rows():
    assert len(rows()) == 866
    assert Counter(row.texts["kind"] for row in rows().values()) == {"training_step": 850, "layer": 16}
    assert Counter(row.texts["confidence"] for row in rows().values()) == {"high": 286, "medium": 432, "low": 148}
    assert sum(row.texts.get("fitted") == "true" for row in rows().values()) == 72


def test_every_column_is_filled_and_has_a_meaning(capsys):
    listing("measurement-columns", as_json=True)
    columns = {line["column"]: line for line in json.loads(capsys.readouterr().out)}
    assert [name for name, line in columns.items() if not line["meaning"] or line["rows"] == "0"] == []
    cells = [line["rows"] for name, line in columns.items() if name in ("id", "inter_node_link", "dispatcher")]
    assert cells == ["866", "263", "43"]


def test_the_table_is_listed_as_it_is_written(capsys):
    listing("measurements", as_csv=True)
    assert capsys.readouterr().out == (ROOT / "lookup_tables" / "published_measurements.csv").read_text("utf-8")


def test_every_row_says_where_it_is_from():
    assert [i for i, row in rows().items() if not row.texts.get("source") or not row.texts.get("source_ref")] == []


def test_a_row_that_is_not_modeled_names_the_fact():
    missed = {r.measurement.id: r for r in shipped() if r.missed}
    for r in missed.values():
        facts = r.measurement.row.facts
        assert set(ESSENTIAL) & set(facts), r.reason
    assert len(missed) == 4


def test_no_value_of_a_row_is_left_unread():
    assert [r.measurement.id for r in shipped() if "no formula of its plan reads it" in r.reason] == []


def test_repeats_of_a_configuration_share_a_group_and_its_config():
    by_group = {}
    for m in {r.measurement.id: r.measurement for r in shipped()}.values():
        by_group.setdefault(m.group, []).append(m)
    repeated = [members for members in by_group.values() if len(members) > 1]
    assert (len(by_group), len(repeated)) == (758, 58)
    for members in repeated:
        assert {tuple(sorted(m.row.settings.items(), key=str)) for m in members} == {
            tuple(sorted(members[0].row.settings.items(), key=str))
        }


@pytest.mark.thorough
def test_nothing_depends_on_the_name_of_a_network_or_of_a_row(tmp_path):
    own = {"id": "a", "network": "GPT-3", "layers": 8, "dimensionality": 1024, "attention_heads": 16, "context": 1024,
           "vocabulary_size": 50000, "system": "DGX A100", "number_of_accelerators": 8, "batch_size": 8,
           "measured_step_time": 1}  # fmt: skip
    named, renamed = (read_measurements(table(tmp_path, own | {"id": i, "network": n}))[0] for i, n in ("ax", "by"))
    assert named.settings == renamed.settings


@pytest.mark.parametrize("name", sorted((ROOT / "amped" / "validation").glob("*.py")), ids=lambda path: path.name)
def test_no_regular_expression_reads_a_table(name):
    nodes = list(ast.walk(ast.parse(name.read_text("utf-8"))))
    whole = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    assert "re" not in whole | {n.module for n in nodes if isinstance(n, ast.ImportFrom)}


def test_every_fact_says_what_it_is():
    assert set(ESSENTIAL) <= set(FACTS)
    assert {name for row in rows().values() for name in row.facts} <= set(FACTS)


# --- a few rows read by hand ------------------------------------------------------------------------------------------

BY_HAND = {
    "01-0001": {"gradient_precision": 16, "dropout": 0.1, "flash_attention": False, "inter_node_bandwidth": "200 GB/s"},
    "01-0006": {"overlap_data_communication": False, "virtual_pipeline_stages": 3},
    "02-0014": {"vocabulary_size": 0, "optimizer": "none", "activation_recomputation": "selective", "layers": 1},
    "03-0023": {"number_of_microbatches_per_minibatch": 3, "gradient_precision": 32, "zero_stage": 3},
    "04c-0008": {"head_dimension": 64, "attention_sinks": True, "attention_window": 128, "number_of_windowed_layers": 12},
    "07f-0001": {"activation_recomputation": "block", "number_of_recomputed_layers": 16, "sharding_degree": 64},
    "07i-0001": {"collective_algorithm": "ring", "position_table": 8192, "cross_entropy_kernels": 6},
    # Read anew, each with the sentence of its source in its notes.
    "04d-0094": {"activation_recomputation": "none", "norm_recomputation": True},
    "06-0013": {"expert_capacity_factor": 1, "value_head_dimension": 128, "overlap_data_communication": False},
    "07c-0069": {"positions": "alibi", "embedding_norm": True, "overlap_data_communication": False},
    "07h-0022": {"optimizer_state_precision": 16, "optimizer_states_per_parameter": 2},
    "v8-0211": {"pipeline_layout": "3,3,2,3,2,3,2,3,2,3,2,3,2,3,3,2,3,2,3,2,3,2,3,2,3,2,3,2,3,3,2,1"},
    "04b-0047": {"cuda_graph_scope": "router_alone"},
    "mb-26.04-gb300-qwen3_30b_a3b-fp8mx-8x512": {"cuda_graph_scope": "router_alone"},
    "mb-26.04-b200-qwen3_30b_a3b-fp8mx-8x512": {"cuda_graph_scope": "router"},
    "mb-26.06-gb300-kimi_k2-fp8mx-256x4096": {"optimizer": None},
    # Repaired, each as its notes say.
    "v9-0230": {"pipeline_schedule": "zero_bubble_h1"},
    "04c-0007": {"head_dimension": 128, "activation_recomputation": "full", "gradient_clipping": False, "fp8_scaling": None},
    "mb-25.09-gb200-deepseek_v3-fp8mx-256x2048": {"pipeline_parallel_degree": 4, "expert_parallel_degree": 64},
    "07d-0001": {"dropout": 0, "inter_node_link": "RoCE 400G"},
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_rows_read_by_hand(name):
    own = rows()[name].settings
    assert {parameter: own.get(parameter) for parameter in BY_HAND[name]} == BY_HAND[name]


def test_memory_is_that_of_the_stage_that_was_logged():
    assert rows()["07i-0001"].texts["memory_rank"] == "last"
    assert (rows()["07f-0009"].texts["memory_reading"], rows()["07c-0069"].texts["memory_reading"]) == (
        "reserved",
        "device",
    )
    assert any(r.quantity == MEMORY for r in shipped())
