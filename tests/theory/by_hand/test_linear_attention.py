"""Linear attention on paper: a gated delta net in one of two layers, on one accelerator or two.

A network of two layers and a width of 16. The gated delta net has 2 heads of keys and 4 of values, all 8 wide, so that
queries and keys are 16 wide and values 32; its convolution spans 4 tokens and a chunk has 4. A sequence has 8 tokens.

Projection: 2·16 + 2·32 + 2·4 = 104 columns; output 32 rows. Parameters: 16·104 + 32·16 = 2,176 of projections,
4·(2·16 + 32) = 256 of the convolution, 4 + 4 + 8 = 16 of decays, biases and the norm: 2,448.
"""

from typing import Any

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from tests.helpers.formulas import sectioned

NETWORK = {
    "layers": 2, "dimensionality": 16, "attention_heads": 2, "feedforward_dimension": 32, "vocabulary_size": 16, "context": 8,
    "batch_size": 2, "microbatch_size": 1, "number_of_accelerators": 1, "number_of_accelerators_per_node": 2, "dropout": 0, "positions": "rope",
    "frequency": "1 GHz", "number_of_cores": 64, "fp16_peak_flop_rate": "1 TFLOP/s", "memory_capacity": "1 GB", "memory_bandwidth": "1 TB/s",
    "activation_recomputation": "none", "norm_vectors": 1, "inter_accelerator_bandwidth": "100 GB/s", "flash_attention": True,
}  # fmt: skip
LINEAR = {
    "linear_attention_kind": "gated_delta_net", "number_of_linear_attention_layers": 1, "number_of_attention_layers": 1,
    "linear_key_heads": 2, "linear_value_heads": 4, "linear_key_head_dimension": 8, "linear_value_head_dimension": 8,
    "linear_chunk_tokens": 4,
}  # fmt: skip
DELTA = 2448


def of(**changes: Any) -> Estimation:
    return estimated(read_scenario(sectioned(NETWORK | LINEAR | changes)))


def operators(e: Estimation) -> dict[tuple[str, str], Any]:
    """The operators of linear attention, by name and pass."""
    found = e.results.records("layer_operators")
    return {(o.name, o.phase): o for o in found if o.name.startswith("linear_")}


def test_parameters_of_a_gated_delta_net() -> None:
    attention = 4 * 16 * 16
    plain = of(linear_attention_kind="none", number_of_linear_attention_layers=0, number_of_attention_layers=2)
    assert of()["number_of_parameters"] == plain["number_of_parameters"] - attention + DELTA


def test_parameters_of_the_other_kinds() -> None:
    """Kimi delta attention has 2·16 + 2·32 + 4 columns with its output, gates of the rank 8, and 16 biases of decays.

    Mamba-2 has one step for each head, biases of the convolution, a skip of each head, and a norm as wide as the values.
    Lightning attention has neither a convolution nor steps.
    """
    both = 2 * 16 + 32
    kimi = 16 * (2 * 16 + 2 * 32 + 4) + 8 * (2 * 16 + 16 + 32) + 4 * both + 4 + 16 + 8
    mamba = 16 * (2 * 16 + 3 * 32 + 4) + 4 * both + both + 3 * 4 + 32
    lightning = 16 * (2 * 16 + 3 * 32) + 32
    for kind, parameters in (("kimi_delta_attention", kimi), ("mamba2", mamba), ("lightning_attention", lightning)):
        found = of(linear_attention_kind=kind, linear_convolution_width=0 if kind == "lightning_attention" else 4)
        assert found["number_of_parameters"] - of()["number_of_parameters"] == parameters - DELTA, kind


def test_products_and_bytes_of_the_scan() -> None:
    """For a token and head: 4·(6·8 + 4·8) + 6·8·8 + 4²/3 operations forward.

    Backward there are twice as many, and corrected keys and values (4·2·16) and states (4·64) again. It keeps queries,
    keys and values (64 entries of a token), and 4 scores for each of 4 heads.
    """
    found, tokens = operators(of()), 8
    forward = tokens * 4 * (4 * (6 * 8 + 4 * 8) + 6 * 8 * 8 + 4**2 / 3)
    scan = found["linear_scan", "forward"]
    assert scan.flops == pytest.approx(forward)
    assert found["linear_scan", "input_gradient"].flops == pytest.approx(2 * forward + tokens * 4 * (128 + 256))
    assert scan.stash == tokens * (64 + 4 * 4) * 2
    assert float(scan.count) == 1 / 2


def test_projections_and_the_convolution() -> None:
    found = operators(of())
    assert found["linear_projection", "forward"].flops == 2 * 8 * 104 * 16
    assert found["linear_attention_output", "weight_gradient"].flops == 2 * 8 * 32 * 16
    convolution = found["linear_convolution", "forward"]
    assert (convolution.read, convolution.written, convolution.stash) == (8 * 64 * 2,) * 3
    assert found["linear_gated_norm", "forward"].stash == 8 * 2 * 32 * 2
    assert ("linear_head_norm", "forward") in found
    assert ("linear_head_norm", "forward") not in operators(of(linear_attention_kind="mamba2"))


def test_tensor_parallelism_splits_heads() -> None:
    whole, half = operators(of()), operators(of(tensor_parallel_degree=2, number_of_accelerators=2))
    assert whole.keys() == half.keys()
    for key in (("linear_scan", "forward"), ("linear_projection", "forward"), ("linear_convolution", "input_gradient")):
        assert half[key].flops == pytest.approx(whole[key].flops / 2), key


def test_ranks_of_tokens_exchange_tokens_for_heads() -> None:
    """Queries, keys, values and gates (16 + 16 + 32 + 32 entries of each of 4 tokens), and then values, in two bytes."""
    e = of(context_parallel_degree=2, number_of_accelerators=2)
    sent = {c.name: c for c in e.results.records("context_collectives") if c.name.startswith("linear_")}
    assert {name: (c.kind, float(c.volume)) for name, c in sent.items()} == {
        "linear_heads": ("all_to_all", 4 * 96 * 2), "linear_outputs": ("all_to_all", 4 * 32 * 2),
    }  # fmt: skip
    assert operators(e)["linear_scan", "forward"].flops == operators(of())["linear_scan", "forward"].flops / 2


def test_model_flops_count_the_scan_once_in_each_pass() -> None:
    scan = operators(of())["linear_scan", "forward"]
    pure = of(number_of_linear_attention_layers=1, linear_chunk_tokens=8)
    longer = operators(pure)["linear_scan", "forward"]
    grown = pure["model_flops_per_accelerator"] - of()["model_flops_per_accelerator"]
    assert grown == pytest.approx(2 * 3 * (longer.flops - scan.flops))  # two micro-batches


def test_the_time_of_linear_attention_is_linear_in_the_context() -> None:
    """Eight times the tokens take eight times as long, as soon as cores and memory are busy."""
    long, longer = (operators_time(context) for context in (2**17, 2**20))
    assert longer == pytest.approx(8 * long, rel=0.02)


def operators_time(context: int) -> float:
    e = of(context=context)
    durations = e.results.records("layer_durations")
    return float(sum(d.time * d.count for d in durations if d.name.startswith("linear_")))


def test_accelerators_of_few_large_cores_are_refused() -> None:
    with pytest.raises(AmpedError, match="law of linear attention is that of many small cores"):
        of(cores_sharing_tiles=2)
