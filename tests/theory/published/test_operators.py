"""The operator model against published measurements: steps and layers of Megatron-LM, largest batches of BERT."""

import json
from functools import cache

import pytest

import amped
from amped.calibration.step_table import shipped_numbers
from amped.tables.table_files import ACCELERATORS, KERNELS, MODELS, shipped
from amped.theory.language.quantity import ACCELERATOR, NETWORK, SYSTEM
from tests.helpers.formulas import sectioned
from tests.helpers.layers import messages, with_waits
from tests.helpers.places import DATA

ROWS = json.loads((DATA / "published_steps.json").read_text("utf-8"))
BASE = sectioned({"tokens_to_train": "300 G"}, {SYSTEM: "Selene", ACCELERATOR: "A100 SXM 80GB"})
# Both ways to describe the software: what amped assumes unless told, and Megatron-LM's biases as they are.
SOFTWARE = {
    "defaults": {},
    "biases": {"query_key_value_bias": True, "attention_output_bias": True, "mlp_bias": True},
}
# What a published number is worth: where an input with a large effect is assumed, a wider margin.
WITHIN = {"high": 0.13, "medium": 0.10, "low": 0.20}
# Rows of kernel_efficiencies that are no part one can buy: the constants of a paper, and what stands in for the unknown.
NOT_HARDWARE = {"TPE constants", "default"}


def row_id(row):
    return f"{row['source']} {row['name']}".replace(",", "").replace(" ", "-")


STEPS = [pytest.param(row, id=row_id(row)) for row in ROWS if "step_time" in row["measured"] and "left_out" not in row]
LAYERS = [pytest.param(row, id=row_id(row)) for row in ROWS if "layer_time" in row["measured"]]


def estimated(row, software="defaults", **overrides):
    return amped.estimate(BASE, **row["config"], **SOFTWARE[software], **overrides)


@cache
def layer_passes(number, software):
    """Forward, and the rest of a layer's time: a forward pass waits for its own tensor-parallel communication."""
    e = estimated(ROWS[number], software, optimizer="none")
    forward = e["compute_forward_time"] + messages(e, "tensor").forward.time
    return {"forward_time": forward, "backward_time": with_waits(e).whole - forward, "layer_time": with_waits(e).whole}


@pytest.mark.parametrize("software", SOFTWARE)
@pytest.mark.parametrize("row", STEPS)
def test_published_step_times(row, software):
    measured, within = row["measured"]["step_time"], WITHIN[row["confidence"]]
    assert estimated(row, software)["step_time"] == pytest.approx(measured, rel=within)


@pytest.mark.parametrize("software", SOFTWARE)
@pytest.mark.parametrize("part", ["forward_time", "backward_time", "layer_time"])
@pytest.mark.parametrize("row", LAYERS)
def test_published_times_of_one_layer_and_its_passes(row, part, software):
    within = WITHIN[row["confidence"]]
    assert layer_passes(ROWS.index(row), software)[part] == pytest.approx(row["measured"][part], rel=within)


@pytest.mark.parametrize("row", [row for row in STEPS if row.values[0]["confidence"] != "low"])
def test_what_was_trained_fits_in_memory(row):
    assert estimated(row)["fits_in_memory"] == 1


def test_of_the_accelerator_only_the_clock_was_fitted_to_steps_of_these_sources():
    """Kernels gave all other coefficients of the A100, or steps of other sources; no row has a stack's factors."""
    sources = {row["source"] for row in ROWS}
    fitted = [each for each in shipped_numbers() if each.row in ("Ampere", "A100 SXM 80GB")]
    assert {each.column for each in fitted if sources & set(each.sources)} == {"training_clock_fraction"}
    assert not [row["name"] for row in ROWS if "software" in row["config"]]


def test_rows_left_out_say_why():
    left_out = [row for row in ROWS if "left_out" in row]
    assert {(row["confidence"], row["config"]["zero_stage"]) for row in left_out} == {("low", 3)}
    assert len(ROWS) == len(STEPS) + len(LAYERS) + len(left_out)
    assert all("not printed" in row["left_out"] for row in left_out)


def test_the_model_is_not_biased_toward_fast_or_slow():
    """The mean deviation of the rows of confidence is below what two measurements of one run differ by (6.5 %)."""
    rows = [row.values[0] for row in STEPS if row.values[0]["confidence"] != "low"]
    off = [estimated(row)["step_time"] / row["measured"]["step_time"] - 1 for row in rows]
    assert abs(sum(off) / len(off)) < 0.065


# --- largest batches ---------------------------------------------------------------------------------------------------

TEMPO = ("in_place_activation", "in_place_norm", "dropout_recomputation")
# Largest batch of fine-tuning BERT large on SQuAD, without and with the three policies. Source: the README of Tempo.
BATCHES = [("RTX 2080 Ti", "fp32", 4, 6), ("RTX 2080 Ti", "fp16", 8, 11), ("V100 SXM2 16GB", "fp32", 8, 13),
           ("V100 SXM2 16GB", "fp16", 16, 22)]  # fmt: skip
# Tempo's run_squad.py: fp16 is apex O2 (weights and gradients of 16 bit, a full-precision copy), fp32 has no copy; the
# head gives two numbers a token; masks are bytes.
SQUAD = {"context": 384, "batch_size": 64, "microbatch_size": 1, "number_of_accelerators": 1,
         "flash_attention": False, "output_head_activation_bytes": 0, "logits_gradient_bytes": 0, "dropout": 0.1,
         "packed_mask_precision": "1 B"}  # fmt: skip
BYTES_AND_COPIES = {"fp32": ("4 B", 2), "fp16": ("2 B", 3)}


@pytest.mark.parametrize(("accelerator", "matrix_precision", "plain", "saving"), BATCHES)
def test_published_batches_of_tempo(accelerator, matrix_precision, plain, saving):
    size, states = BYTES_AND_COPIES[matrix_precision]
    sizes = dict.fromkeys(("weight_precision", "activation_precision", "gradient_precision"), size)
    rows = {NETWORK: "BERT large", SYSTEM: "Selene", ACCELERATOR: accelerator}
    run = {**SQUAD, **sizes, "optimizer_states_per_parameter": states, "matrix_precision": matrix_precision}
    for policies, printed in (((), plain), (TEMPO, saving)):
        e = amped.estimate(sectioned(run | dict.fromkeys(policies, True), rows))
        assert e["largest_microbatch_size"] == pytest.approx(printed, abs=1)


# --- no coefficient is chosen by the name of a network -----------------------------------------------------------------


def names_of(row_name, row):
    return {row_name, *row.get("aliases", ())}


def test_rows_of_coefficients_are_named_after_hardware():
    accelerators = shipped(ACCELERATORS)
    architectures = {str(row.get("architecture", "")) for row in accelerators.values()}
    generations = architectures | {word for architecture in architectures for word in architecture.split()}
    hardware = generations | {name for key, row in accelerators.items() for name in names_of(key, row)}
    strangers = {key for key, row in shipped(KERNELS).items() if not names_of(key, row) & hardware}
    assert strangers == NOT_HARDWARE


def test_no_row_of_coefficients_is_named_after_a_network():
    networks = {name.casefold() for key, row in shipped(MODELS).items() for name in names_of(key, row)}
    for key, row in shipped(KERNELS).items():
        assert not {name.casefold() for name in names_of(key, row)} & networks


@pytest.mark.parametrize("model", ["Megatron 18.4B", "BERT large", "Mixtral 8x7B"])
def test_coefficients_are_the_same_for_a_table_row_and_for_numbers_by_hand(model):
    by_hand = estimated(ROWS[0]).results.records("kernel_rates")
    mapping = {"number_of_accelerators": 8, "batch_size": 64, "microbatch_size": 1, "matrix_precision": "fp16"}
    named = amped.estimate(BASE, model=model, tensor_parallel_degree=1, **mapping)
    assert named.results.records("kernel_rates") == by_hand
