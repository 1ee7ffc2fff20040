"""The closed-form model against what was printed: rates, bytes and products of published papers."""

import json

import pytest

import amped
from amped.theory.language.quantity import ACCELERATOR, SYSTEM
from tests.helpers.formulas import sectioned
from tests.helpers.places import DATA


def closed_form(config="default", **overrides):
    return amped.estimate(config, performance_model="amped", **overrides)


# arXiv 2104.04473 (Narayanan et al., SC 2021), Table 1: measured steps of Megatron-LM on Selene, but for the three to which
# `matrix_efficiency` was fitted.
FITTED = {"GPT-18.4B on 256", "GPT-76.1B on 1024", "GPT-310.1B on 1920"}
SELENE = sectioned({"tokens_to_train": "300 G"}, {SYSTEM: "Selene", ACCELERATOR: "A100 SXM 80GB"})
ROWS = json.loads((DATA / "published_steps.json").read_text("utf-8"))
TABLE_1 = {row["name"]: row for row in ROWS if row["source"] == "Narayanan2021" and row["confidence"] != "low"}


def error_of(name):
    row = TABLE_1[name]
    return closed_form(SELENE, **row["config"])["step_time"] / row["measured"]["step_time"] - 1


@pytest.mark.parametrize(
    "name", ["GPT-7.5B on 128", "GPT-39.1B on 512", "GPT-145.6B on 1536", "GPT-529.6B on 2520", "GPT-1008B on 3072"]
)
def test_published_steps_that_nothing_was_fitted_to(name):
    """Within 8 %, of which two are within 1 %."""
    assert abs(error_of(name)) < 0.08


@pytest.mark.parametrize(("name", "too_fast"), [("GPT-1.7B on 32", 0.21), ("GPT-3.6B on 64", 0.15)])
def test_small_networks_are_predicted_too_fast(name, too_fast):
    """Their narrow products do not reach the efficiency of large ones, of which the closed form knows nothing."""
    assert error_of(name) == pytest.approx(-too_fast, abs=0.01)


def test_every_row_of_the_table_is_fitted_to_or_held_out():
    assert FITTED.issubset(TABLE_1)
    assert len(TABLE_1) - len(FITTED) == 5 + 2


@pytest.mark.parametrize(("recomputation", "factor", "head"), [("full", 96, 16), ("none", 72, 12)])
@pytest.mark.parametrize("model", ["GPT-3 175B", "Megatron 18.4B", "Megatron 310.1B"])
def test_flops_of_a_step_are_equation_3_of_narayanan(model, recomputation, factor, head):
    """96·B·s·L·h²·(1 + s/6h + V/16Lh) with full recomputation, 72·(... V/12Lh) without. Source: arXiv 2104.04473."""
    e = closed_form(model=model, activation_recomputation=recomputation)
    names = ("batch_size", "context", "layers", "dimensionality", "vocabulary_size")
    batch, s, layers, h, v = (e[name] for name in names)
    printed = factor * batch * s * layers * h**2 * (1 + s / (6 * h) + v / (head * layers * h))
    flops = e["hardware_flops_per_accelerator"] * e["number_of_accelerators"]
    assert flops == pytest.approx(printed, rel=1e-12, abs=0)
    assert e["hardware_flop_rate_per_accelerator"] == pytest.approx(
        printed / e["step_time"] / e["number_of_accelerators"], rel=1e-12, abs=0
    )


# The networks of arXiv 2205.05198 (Korthikanti et al.), Table 3 that fit its shapes: s, h, a and the micro-batch b.
KORTHIKANTI = [pytest.param("Megatron 22B", 2048, 6144, 64, 4, id="22B"),
               pytest.param("GPT-3 175B", 2048, 12288, 96, 1, id="175B"),
               pytest.param("MT-NLG 530B", 2048, 20480, 128, 1, id="530B")]  # fmt: skip


def one_stage(model, b, t, **overrides):
    return closed_form(
        model=model, tensor_parallel_degree=t, pipeline_parallel_degree=1, data_parallel_degree=1,
        number_of_accelerators=t, batch_size=b, microbatch_size=b, dropout=0.1, flash_attention=False, **overrides,
    )  # fmt: skip


def one_layer(model, b, t, recomputation, sequence_parallel):
    e = one_stage(model, b, t, activation_recomputation=recomputation, sequence_parallel=sequence_parallel)
    ends = e["embedding_activation_bytes"] + e["output_head_activation_bytes"]
    assert e["activation_bytes"] == e["kept_activation_bytes_per_layer"] * e["layers"] + ends
    return (e["activation_bytes"] - ends) / e["layers"]


# Table 2 of the paper and section 5: s·b·h·(whole + split/t) + scores·a·s²·b/t bytes a layer.
TABLE_2 = {
    "34_and_5as_h": {"t": 1, "recompute": "none", "sequence": False, "whole": 34, "split": 0, "scores": 5},
    "tensor": {"t": 8, "recompute": "none", "sequence": False, "whole": 10, "split": 24, "scores": 5},
    "tensor_and_sequence": {"t": 8, "recompute": "none", "sequence": True, "whole": 0, "split": 34, "scores": 5},
    "selective": {"t": 8, "recompute": "selective", "sequence": False, "whole": 10, "split": 24, "scores": 0},
    "selective_sequence": {"t": 8, "recompute": "selective", "sequence": True, "whole": 0, "split": 34, "scores": 0},
    "full": {"t": 8, "recompute": "full", "sequence": False, "whole": 2, "split": 0, "scores": 0},
}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in TABLE_2.items()])
@pytest.mark.parametrize(("model", "s", "h", "a", "b"), KORTHIKANTI)
def test_activations_of_one_layer_are_to_the_byte_those_of_korthikanti(model, s, h, a, b, row):
    printed = s * b * h * row["whole"] + (s * b * h * row["split"] + row["scores"] * a * s * s * b) // row["t"]
    assert one_layer(model, b, row["t"], row["recompute"], row["sequence"]) == printed


@pytest.mark.parametrize(("model", "s", "h", "a", "b"), KORTHIKANTI)
def test_activations_of_the_ends_are_to_the_byte_those_of_korthikanti(model, s, h, a, b):
    """s·b·h/t for the embedding's dropout, and 4·s·b·h/t·(1 + v/h) at the head. Source: arXiv 2205.05198, section 4.3."""
    e = one_stage(model, b, 8, sequence_parallel=True)
    assert e["embedding_activation_bytes"] == s * b * h // 8
    assert e["output_head_activation_bytes"] == (4 * s * b * h + 4 * s * b * int(e["vocabulary_size"])) // 8


def states(**overrides):
    e = closed_form(model="Megatron 7.5B", pipeline_parallel_degree=1, batch_size=64, **overrides)
    return (e["weight_bytes"] + e["gradient_bytes"] + e["optimizer_state_bytes"]) / e["number_of_parameters"]


def test_mixed_precision_adam_takes_18_bytes_a_parameter():
    """2 of weights, 4 of gradients, 12 of Adam. Source: arXiv 2205.05198, Figure 1 (45.6 GiB for 22B on 8)."""
    assert states(tensor_parallel_degree=1, number_of_accelerators=1) == 18
    assert states(tensor_parallel_degree=8, number_of_accelerators=64) == 18 / 8


@pytest.mark.parametrize(("stage", "kept", "shared"), [(0, 18, 0), (1, 6, 12), (2, 2, 16), (3, 0, 18)])
def test_zero_shares_out_optimizer_then_gradients_then_weights(stage, kept, shared):
    """arXiv 1910.02054, Figure 1, with gradients of 4 bytes."""
    assert states(tensor_parallel_degree=1, number_of_accelerators=64, zero_stage=stage) == kept + shared / 64


def test_latent_attention_has_the_products_of_its_paper():
    """DeepSeek V3, a token in a layer, by hand. Source: arXiv 2405.04434, eq. 9 to 19, and DeepSeek V3's config."""
    e = closed_form(
        "minimal", model="DeepSeek V3", batch_size=64, tensor_parallel_degree=1, microbatch_size=1,
        number_of_accelerators=64,
    )  # fmt: skip
    by_hand = {
        "query_down": 7168 * 1536,
        "query_up": 1536 * 128 * 192,  # 128 heads of 128 + 64
        "key_value_down": 7168 * (512 + 64),
        "key_value_up": 512 * 128 * (128 + 128),
        "attention_output": 128 * 128 * 7168,
    }
    tokens = e["microbatch_tokens"]
    products = {gemm.name: gemm.multiply_accumulates / tokens for gemm in e.results.records("projection_gemms")}
    assert {name: macs for name, macs in products.items() if macs} == by_hand
    core = {gemm.name: gemm.multiply_accumulates / tokens for gemm in e.results.records("attention_gemms")}
    assert core == {"attention_scores": 4096 * 128 * 192, "attention_values": 4096 * 128 * 128}
    # Its weights are those matrices and the norms of the two latent vectors.
    assert e["attention_matrix_parameters"] == sum(by_hand.values()) + 1536 + 512
