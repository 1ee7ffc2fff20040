"""Every row of the table of published measurements is a config without loss: each cell and each phrase is accounted for."""

import json
import re
from functools import cache

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.theory.catalogue import catalogue
from amped.validation.columns import COLUMNS, read_table
from amped.validation.measurements import MEMORY, Measurement, read_measurements
from amped.validation.notes import read_notes
from amped.validation.phrases import FACTS, MEASURED, SOFTWARE
from amped.validation.translation import CHECKED, DIRECT, OTHERWISE, PROVENANCE

# Parameters that rows have values for and amped does not have yet, and what they change.
AWAITED: dict[str, str] = {}
# What stacks do that no parameter says: it selects a row of `software_specifications`, or nothing yet.
SOFTWARE_KNOWN = {"compiled", "logs_norms", "fp8_scaling"}
# Facts that are told relative to the row; where they go.
BECOMES = {"recomputed_layers_fraction": "number_of_recomputed_layers", "windowed_layer_fraction": "number_of_windowed_layers",
           "attention_precision": "attention_peak_flop_rate"}  # fmt: skip
OF_EXPERTS = ("expert_imbalance_factor", "expert_capacity_factor", "expert_tensor_parallel_degree")


@cache
def shipped() -> dict[str, Measurement]:
    return {m.id: m for m in read_measurements()}


ROWS = [row.text("id") for row in read_table()]
every_row = pytest.mark.parametrize("name", ROWS)


@cache
def estimation_of(name: str) -> Estimation:
    return estimated(read_scenario(dict(shipped()[name].config)), Estimation)


def parameters(m: Measurement) -> dict[str, object]:
    """What the config has and what only the row has, by name."""
    sections = [s for s in m.config.values() if isinstance(s, dict)]
    return {n: entry["value"] for s in sections for n, entry in s["parameters"].items()} | dict(m.missing)


def test_the_table_has_its_rows():
    assert len(ROWS) == 72
    kinds = [m.kind for m in shipped().values()]
    assert (kinds.count("training_step"), kinds.count("layer")) == (64, 8)
    grades = [m.confidence for m in shipped().values()]
    assert {grade: grades.count(grade) for grade in set(grades)} == {"high": 23, "medium": 38, "low": 11}


def test_every_column_is_a_parameter_or_something_else_or_provenance_with_a_reason():
    assert {*DIRECT, *OTHERWISE, *PROVENANCE} == set(COLUMNS)
    assert len(DIRECT) + len(OTHERWISE) + len(PROVENANCE) == len(COLUMNS)
    assert set(DIRECT.values()) <= set(catalogue())
    assert all(PROVENANCE.values())


@every_row
def test_every_row_is_a_config(name):
    m = shipped()[name]
    assert m.reason == ""
    assert m.measured
    assert json.loads(json.dumps(m.config)) == m.config


def cell(row, column):
    """A cell as a parameter has it, read here without the code under test."""
    written = row.text(column)
    if column in ("gated_mlp", "tied_embeddings", "sequence_parallel", "flash_attention"):
        return written == "1"
    return int(written) if written.isdigit() else written


@every_row
def test_every_cell_arrives(name):
    m = shipped()[name]
    own = parameters(m)
    for column, parameter in DIRECT.items():
        if m.row.text(column):
            padded = re.search(r"pads to a multiple of 128 x TP \(= (\d+) here", m.row.text("audit"))
            expected = cell(m.row, column)
            if column == "vocab_size" and "vocabulary_size" in m.assumed:  # padded, and the row tells it
                whole = 128 * int(m.row.text("tp"))
                assert m.row.text("framework").startswith("Megatron")
                expected = -(-expected // whole) * whole
            elif column == "vocab_size" and padded:
                expected = int(padded[1])
            if column == "activation_recompute" and m.source == "torchtitan":
                whole = "every other layer checkpointed" in m.row.text("notes")
                expected = "block" if whole else "alternate_products"
            assert own[parameter] == expected, column
            assert parameter not in m.assumed or column == "vocab_size", column


@every_row
def test_every_piece_of_notes_and_audit_is_understood(name):
    assert shipped()[name].unread == ()


@every_row
def test_every_fact_of_notes_and_audit_arrives(name):
    m = shipped()[name]
    own, said = parameters(m), read_notes(m.row.text("notes"), m.row.text("audit"), catalogue()).said
    facts = {fact: value for told in said.values() for fact, value in told.items()}
    for fact, value in facts.items():
        becomes = BECOMES.get(fact, fact)
        if fact in m.software or fact in CHECKED:
            assert m.software.get(fact, m.expected.get(fact)) == value
        elif fact in ("memory_is", "memory_of", "row_kind", "forward_time", "backward_time", "step_time"):
            found = {"memory_is": m.memory_is, "memory_of": m.memory_of, "row_kind": m.kind, **m.measured, **m.parts}
            assert found[fact] == pytest.approx(value) if isinstance(value, float) else found[fact] == value
        elif fact in OF_EXPERTS and not m.row.text("num_experts"):
            assert fact not in own  # nothing to be balanced in a dense network
        elif becomes != fact or value == "tp":
            assert becomes in own or becomes in catalogue()
        else:
            assert own[fact] == value, fact


def test_what_amped_has_no_parameter_for_is_listed_with_what_it_changes():
    missing = {name for m in shipped().values() for name in m.missing}
    assert missing <= set(AWAITED)
    assert {name for m in shipped().values() for name in m.software} == SOFTWARE_KNOWN
    assert not missing & set(catalogue())


def test_phrases_set_parameters_that_exist_or_are_awaited():
    relative = {*BECOMES, *AWAITED, *CHECKED}
    text = "1 1 1"
    for phrase in FACTS:
        values = phrase.sets if not callable(phrase.sets) else phrase.sets(re.fullmatch(r"(1) (1) (1)", text))
        assert set(values) <= set(catalogue()) | relative
    assert all(phrase.sets for phrase in (*FACTS, *SOFTWARE, *MEASURED))


@every_row
def test_every_row_is_estimated(name):
    m, e = shipped()[name], estimation_of(name)
    assert all(m.predicted(e, quantity) > 0 for quantity in (*m.measured, *m.parts))


@every_row
def test_what_follows_from_the_config_is_what_the_row_says(name):
    m, e = shipped()[name], estimation_of(name)
    counted = {name: value for name, value in m.expected.items() if name == "number_of_parameters"}
    assert {name: e[name] for name in counted} == counted
    accumulated = re.search(r"grad_accum=(\d+)|grad accum (\d+)", m.row.text("notes"))
    if accumulated:
        assert e["number_of_microbatches_per_minibatch"] == int(accumulated[1] or accumulated[2])
    assert e["number_of_accelerators"] == float(m.row.text("gpus"))


def test_the_parameters_of_fifteen_networks_are_counted_by_their_sources():
    assert len([m for m in shipped().values() if "number_of_parameters" in m.expected]) == 15


@every_row
def test_bandwidths_are_those_in_words(name):
    m, e = shipped()[name], estimation_of(name)
    for column, quantity in (("intra_node_network", "inter_accelerator_bandwidth"),
                             ("inter_node_network", "inter_node_bandwidth_per_accelerator")):  # fmt: skip
        words = re.search(r"([\d.]+) GB/s/GPU", m.row.text(column))
        if words:
            assert e[quantity] == pytest.approx(float(words[1]) * 1e9)


@every_row
def test_a_config_through_a_file_gives_the_same(name, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(shipped()[name].config), "utf-8")
    if name in ("01-0006", "04d-0005", "08-0062"):
        assert estimated(read_scenario(path), Estimation)["step_time"] == estimation_of(name)["step_time"]


# --- a few rows read by hand ------------------------------------------------------------------------------------------

BY_HAND = {
    "01-0001": {"overlap_data_communication": True, "gradient_precision": 16, "dropout": 0.1, "flash_attention": False,
                "inter_node_bandwidth": 200e9, "overlap_tensor_communication": False},
    "01-0006": {"overlap_data_communication": False, "virtual_pipeline_stages": 3},
    "02-0014": {"vocabulary_size": 0, "optimizer": "none", "activation_recomputation": "selective",
                "overlap_tensor_communication": True, "layers": 1},
    "03-0023": {"number_of_microbatches_per_minibatch": 3, "gradient_precision": 32, "zero_stage": 3, "dropout": 0,
                "position_table": 2048, "gradient_clipping": True},
    "04a-0011": {"context_parallel_degree": 2, "data_parallel_degree": 4, "matrix_precision": "fp8"},
    "04c-0007": {"head_dimension": 128, "activation_recomputation": "full", "expert_parallel_degree": 8,
                 "gradient_clipping": False, "number_of_experts": 128, "experts_per_token": 8},
    "04c-0008": {"head_dimension": 64, "attention_sinks": True, "attention_window": 128, "number_of_windowed_layers": 12},
    "04d-0003": {"expert_tensor_parallel_degree": 4, "microbatch_size": 1, "expert_capacity_factor": 1},
    "04d-0005": {"expert_tensor_parallel_degree": 1, "tensor_parallel_degree": 2, "number_of_MoE_layers": 56},
    "05-0002": {"overlap_data_communication": True, "zero_stage": 1, "tied_embeddings": False},
    "07a-0008": {"vocabulary_size": 50688, "inter_node_bandwidth": 100e9},
    "07f-0001": {"activation_recomputation": "block", "number_of_recomputed_layers": 16, "sharding_degree": 64},
    "07f-0011": {"activation_recomputation": "alternate_products", "matrix_precision": "fp8"},
    "07i-0001": {"collective_algorithm": "ring", "position_table": 8192, "dropout": 0.1, "cross_entropy_kernels": 6},
    "07i-0005": {"scale_up_domain_size": 72, "number_of_accelerators_per_node": 4},
    "08-0001": {"causal": False, "norm_position": "post", "dropout": 0.1, "mlp_bias": True, "gradient_precision": 16},
    "08-0062": {"number_of_attention_layers": 0, "gated_mlp": False, "expert_feedforward_dimension": 14336,
                "norms_per_layer": 0, "gradient_communication_time": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_rows_read_by_hand(name):
    own = parameters(shipped()[name])
    assert {parameter: own[parameter] for parameter in BY_HAND[name]} == BY_HAND[name]


def test_memory_is_that_of_the_stage_that_was_logged():
    m, e = shipped()["07i-0001"], estimation_of("07i-0001")
    assert (m.memory_is, m.memory_of) == ("allocated", "last stage")
    assert m.predicted(e, MEMORY) <= e[MEMORY]
    assert shipped()["07f-0009"].memory_is == "reserved"


def test_nothing_depends_on_the_name_of_a_network_or_of_a_row(tmp_path):
    table = tmp_path / "renamed.csv"
    text = (line for line in _renamed())
    table.write_text("\n".join(text), "utf-8")
    renamed = read_measurements(table)
    for m, other in zip(shipped().values(), renamed, strict=True):
        assert parameters(m) == parameters(other)


def _renamed():
    import csv
    import io

    rows = read_table()
    names = list(COLUMNS)
    for cells in [names, *([f"row {i}" if c == "id" else "x" if c == "model_name" else row.text(c) for c in names]
                           for i, row in enumerate(rows))]:  # fmt: skip
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(cells)
        yield line.getvalue()
