"""Mamba, gated linear recurrences and short convolutions on paper, in one of two layers.

A network of two layers and a width of 16; a sequence has 8 tokens, an entry two bytes.
"""

from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from tests.helpers.formulas import sectioned

NETWORK = {
    "layers": 2, "dimensionality": 16, "attention_heads": 2, "feedforward_dimension": 32, "vocabulary_size": 16, "context": 8,
    "batch_size": 2, "microbatch_size": 1, "number_of_accelerators": 1, "number_of_accelerators_per_node": 2, "dropout": 0, "positions": "rope",
    "frequency": "1 GHz", "number_of_cores": 64, "fp16_peak_flop_rate": "1 TFLOP/s", "memory_capacity": "1 GB", "memory_bandwidth": "1 TB/s",
    "activation_recomputation": "none", "norm_vectors": 1, "inter_accelerator_bandwidth": "100 GB/s", "flash_attention": True,
    "number_of_linear_attention_layers": 1, "number_of_attention_layers": 1,
}  # fmt: skip
# 32 channels with a state of 4 entries each; steps from a width of 16/16 = 1.
MAMBA = {
    "linear_attention_kind": "mamba1", "linear_value_heads": 32, "linear_value_head_dimension": 1, "linear_key_heads": 1,
    "linear_key_head_dimension": 4,
}  # fmt: skip
# Two blocks of gates, 8 wide.
RECURRENCE = {"linear_attention_kind": "gated_recurrence", "linear_value_heads": 2, "linear_value_head_dimension": 8}
CONVOLUTION = {
    "linear_attention_kind": "short_convolution", "linear_value_heads": 16, "linear_value_head_dimension": 1,
    "linear_convolution_width": 3,
}  # fmt: skip


def of(**changes: Any) -> Estimation:
    return estimated(read_scenario(sectioned(NETWORK | changes)))


def operators(e: Estimation) -> dict[tuple[str, str], Any]:
    found = e.results.records("layer_operators")
    return {(o.name, o.phase): o for o in found if o.name.startswith("linear_")}


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        # Projections 16·64 + 32·(1 + 2·4) + 1·32 + 32·16, taps 4·32; biases, steps, skips 3·32, decays 4·32.
        (MAMBA, 1024 + 288 + 32 + 512 + 128 + 96 + 128),
        # Projections 3·16·16, gates 2·2·8·8, taps 4·16; biases 2·16 and 16 of projections, 16 of taps, 2·16 of gates; decays 16.
        (RECURRENCE, 768 + 256 + 64 + 32 + 16 + 16 + 32 + 16),
        # Projections 4·16·16 and taps 3·16.
        (CONVOLUTION, 1024 + 48),
    ],
    ids=["mamba", "recurrence", "convolution"],
)
def test_parameters(kind: dict[str, Any], parameters: int) -> None:
    attention, plain = 4 * 16 * 16, {"number_of_linear_attention_layers": 0, "number_of_attention_layers": 2}
    other = of(**plain)["number_of_parameters"]
    assert of(**kind)["number_of_parameters"] == other - attention + parameters


def test_the_scan_of_mamba() -> None:
    """8·32·4 entries of states: six operations and an exponential each.

    Values, steps and outputs are 512 B each, B and C 64 B each: two thirds of 1,664 B are read. Values are kept.
    """
    found = operators(of(**MAMBA))
    forward, backward = found["linear_scan", "forward"], found["linear_scan", "input_gradient"]
    assert (forward.flops, forward.functions, forward.stash) == (6 * 1024, 1024, 512)
    assert forward.read + forward.written == pytest.approx(1664)
    assert backward.flops == 3 * forward.flops
    assert backward.read + backward.written == pytest.approx(2 * 1664)


def test_the_products_of_mamba() -> None:
    found = operators(of(**MAMBA))
    flops = {name: found[name, "forward"].flops for name, phase in found if phase == "weight_gradient"}
    assert flops == {
        "linear_projection": 2 * 8 * 16 * 64, "linear_state_projection": 2 * 8 * 32 * 9, "linear_step_projection": 2 * 8 * 32,
        "linear_attention_output": 2 * 8 * 32 * 16,
    }  # fmt: skip
    convolution = found["linear_convolution", "forward"]
    assert (convolution.read, convolution.written) == (8 * 32 * 2, 8 * 32 * 2)  # values alone


def test_gates_of_a_recurrence_are_products_of_blocks() -> None:
    found = operators(of(**RECURRENCE))
    assert found["linear_gate_blocks", "forward"].flops == 2 * 8 * 2 * (16 * 8)
    assert found["linear_scan", "forward"].flops == 8 * (8 * 16)


def test_a_short_convolution_has_two_gates_and_no_scan() -> None:
    """Both gates read two tensors of 256 B and write one."""
    found = operators(of(**CONVOLUTION))
    assert ("linear_scan", "forward") not in found
    gates = found["linear_output_gate", "forward"]
    assert (gates.read, gates.written) == (4 * 256, 2 * 256)
    assert found["linear_projection", "forward"].flops == 2 * 8 * 16 * 48


def test_a_layer_may_have_both_mixers() -> None:
    """Attention and Mamba side by side in both layers: 4·16·16 weights and 2,208 in each."""
    both = of(**MAMBA, number_of_linear_attention_layers=2, number_of_attention_layers=2)
    alone = of(number_of_linear_attention_layers=0, number_of_attention_layers=2)
    assert both["number_of_parameters"] == alone["number_of_parameters"] + 2 * 2208
    assert float(operators(both)["linear_scan", "forward"].count) == 1


def test_tensor_parallelism_splits_channels() -> None:
    whole, half = operators(of(**MAMBA)), operators(of(**MAMBA, tensor_parallel_degree=2, number_of_accelerators=2))
    for name in ("linear_projection", "linear_state_projection", "linear_step_projection", "linear_scan"):
        assert half[name, "forward"].flops == whole[name, "forward"].flops / 2, name


def test_a_network_without_attention_has_no_heads_to_split() -> None:
    alone = {"number_of_linear_attention_layers": 2, "number_of_attention_layers": 0, "attention_heads": 1}
    e = of(**MAMBA | alone, tensor_parallel_degree=2, number_of_accelerators=2)
    assert e["tensor_parallel_degree"] == 2
