"""The products of a forward pass, counted by PyTorch while a small network of each published kind runs on the CPU."""

from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.interop.huggingface import read
from tests.helpers.formulas import sectioned
from tests.helpers.interop import default_of
from tests.helpers.published_networks import NULLS, Config, made_class, published, small

BATCH, TOKENS = 2, 64  # a whole chunk of linear attention
# Kinds of kernels that are products. The scores of an indexer are timed as a fused attention.
PRODUCTS = ("contraction", "batched_contraction", "grouped_contraction", "fused_attention", "chunked_scan")
# transformers has no class of Ling's, and no head of Mistral 4's.
WITHOUT_A_CLASS = ("bailing_moe_v2", "mistral4")
NETWORKS = [row for row, config in published().items() if config["model_type"] not in WITHOUT_A_CLASS]
# Classes of transformers, cut down from their defaults, with kinds that no published network above has.
CLASSES = (
    "beam", "axk2", "bailing_hybrid", "bitnet", "diffllama", "doge", "modernbert-decoder", "zaya", "gemma3n_text", "jamba", "mamba",
    "falcon_mamba", "mamba2", "falcon_h1", "recurrent_gemma", "lfm3", "gemma4_text", "gemma4_unified_text",
)  # fmt: skip
# A convolution within heads is a product; all others have a kernel of their own.
CONVOLVED = ("zaya",)


def counted(config: Config) -> int:
    """The FLOPs of the products in a forward pass, as PyTorch counts them. All scores are computed, and masked."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    model = made_class(config).eval()
    model.set_attn_implementation("eager")
    model.set_experts_implementation("eager")  # PyTorch does not count grouped products
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randint(0, config["vocab_size"], (BATCH, TOKENS)), use_cache=False)
    every = counter.get_flop_counts()["Global"]
    left_out = "convolution" if config["model_type"] not in CONVOLVED else "nothing"
    return int(sum(flops for kernel, flops in every.items() if left_out not in str(kernel)))


def predicted(config: Config) -> float:
    """The FLOPs of all products in a forward pass of one micro-batch, as amped counts them."""
    found = read({key: value for key, value in config.items() if value is not None}, "config.json")
    assert found.report.unsupported == []
    run = {
        "context": TOKENS, "batch_size": BATCH, "microbatch_size": BATCH, "number_of_accelerators": 1, "memory_capacity": "80 GB",
        "number_of_accelerators_per_node": 1, "number_of_cores": 100, "frequency": "1 GHz", "memory_bandwidth": "1 TB/s", "fp16_peak_flop_rate": "100 TFLOP/s", "expert_load_factor": 1,
        "flash_attention": False, "dropout": 0, "activation_recomputation": "none", "multi_token_prediction_layers": 0,
    }  # fmt: skip
    if "indexer_heads" in found.values:
        run |= {"causal": False, "indexer_loss": "none", "absorbed_latent_attention": False, "flash_attention": True}
    results = estimated(read_scenario(sectioned(found.values | run))).results
    operators = results.records("layer_operators")
    layer = sum(o.flops * o.count for o in operators if o.phase == "forward" and o.kind in PRODUCTS)
    head = 2 * sum(gemm.multiply_accumulates for gemm in results.records("output_head_gemms"))
    return float(layer * found.values["layers"] + head - uncounted(found.values) + counted_besides(found.values))


def uncounted(values: dict[str, Any]) -> float:
    """The FLOPs of products with the inverse of a triangle and of this inverse: PyTorch solves instead, and counts no solution."""
    if values.get("linear_attention_kind") not in ("gated_delta_net", "kimi_delta_attention"):
        return 0.0
    widths = values["linear_key_head_dimension"] + values["linear_value_head_dimension"]
    calls = BATCH * TOKENS * values["linear_value_heads"] * values["number_of_linear_attention_layers"]
    return float(calls * (2 * 64 * widths + 64**2 / 3))


def counted_besides(values: dict[str, Any]) -> float:
    """The FLOPs that transformers computes as products, and amped does not.

    They are scores that it computes once for each half of the values (DiffLlama), and the reading of a state by C (Mamba).
    """
    heads = values["attention_heads"] * values["head_dimension"]
    scores = TOKENS * heads * values["layers"] * values.get("differential_attention", 0)
    states = 0
    if values.get("linear_attention_kind") == "mamba1":
        channels = values["number_of_linear_attention_layers"] * values["linear_value_heads"]
        states = channels * values["linear_key_head_dimension"]
    return float(2 * BATCH * TOKENS * (scores + states))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", CLASSES)
def test_products_of_a_class_are_those_that_pytorch_counts(kind: str) -> None:
    pytest.importorskip("torch", reason="needs the extra torch")
    pytest.importorskip("transformers", reason="needs transformers 5.23.0")
    config = small(default_of(kind))
    assert predicted(config) == pytest.approx(counted(config), rel=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("row", NETWORKS)
def test_products_of_a_forward_pass_are_those_that_pytorch_counts(row: str) -> None:
    pytest.importorskip("torch", reason="needs the extra torch")
    pytest.importorskip("transformers", reason="needs transformers 5.23.0")
    config = small(published()[row]) | NULLS.get(row, {})
    assert predicted(config) == pytest.approx(counted(config), rel=0.01)
