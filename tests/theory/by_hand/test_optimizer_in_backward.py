"""The optimizer step in the backward pass, worked out by hand: which gradients live, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

import amped
from amped.interop.recognition import read_file

D, LAYERS, WORDS = 256, 4, 1000
SMALL: dict[str, Any] = {
    "dimensionality": D, "layers": LAYERS, "attention_heads": 4, "head_dimension": 64, "feedforward_dimension": 4 * D,
    "vocabulary_size": WORDS, "context": 128, "microbatch_size": 1, "batch_size": 8, "tensor_parallel_degree": 1,
    "pipeline_parallel_degree": 1, "number_of_accelerators": 8, "zero_stage": 3, "activation_recomputation": "none",
    "gated_mlp": False, "tied_embeddings": False, "gradient_precision": 32,
}  # fmt: skip
ALONE = {"number_of_accelerators": 1, "batch_size": 1, "zero_stage": 0}
EARLY = {"optimizer_placement": "in_backward"}


def estimate(**overrides: Any) -> amped.Estimate:
    return amped.estimate("default", **SMALL | overrides)


def test_one_replica_keeps_the_gradient_of_the_largest_weight() -> None:
    """The up projection has 4·d² parameters, a little more than the 1000·d of the embedding."""
    assert estimate(**ALONE, **EARLY)["gradient_bytes"] == 4 * D * D * 4
    assert estimate(**ALONE, **EARLY, vocabulary_size=2000)["gradient_bytes"] == 2000 * D * 4


def test_replicas_that_shard_weights_keep_the_gradients_of_a_layer() -> None:
    """A layer has 12·d² + 13·d parameters, and each of eight replicas has an eighth of them."""
    assert estimate(**EARLY)["gradient_bytes"] == (12 * D * D + 13 * D) / 8 * 4


def test_adapters_alone_have_gradients_where_weights_are_frozen() -> None:
    e = estimate(**ALONE, **EARLY, adapters="lora", adapter_rank=8)
    assert e["gradient_bytes"] == 8 * 4 * D * 4


def test_states_and_updates_stay_and_nothing_is_reset_or_clipped() -> None:
    late, early = estimate(gradient_clipping=False), estimate(**EARLY)
    assert early["optimizer_state_bytes"] == late["optimizer_state_bytes"]
    calls = {o.name: float(o.count) for o in early.results.records("optimizer_operators")}
    assert [calls[f"gradient_{name}"] for name in ("norm", "clip", "reset")] == [0, 0, 0]
    assert calls["optimizer_update"] == 1
    assert early["memory_per_accelerator_bytes"] < late["memory_per_accelerator_bytes"]
    assert early["step_time"] <= late["step_time"]
    assert early["exposed_data_communication_time"] == late["exposed_data_communication_time"]


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"batch_size": 16}, "number_of_microbatches_per_minibatch"),
        ({"gradient_clipping": True}, "gradient_clipping"),
        ({"pipeline_parallel_degree": 2}, "pipeline_parallel_degree"),
        ({"zero_stage": 1}, "zero_stage"),
    ],
)
def test_what_frameworks_refuse_is_refused(overrides: dict[str, Any], name: str) -> None:
    with pytest.raises(amped.AmpedError, match=name):
        estimate(**EARLY, **overrides)


def test_torchtune_says_it_with_a_key(tmp_path: Path) -> None:
    path = tmp_path / "tune.yaml"
    path.write_text(
        "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\n"
        "tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 2048}\n"
        "batch_size: 2\ngradient_accumulation_steps: 1\noptimizer_in_bwd: true\ndtype: bf16\n"
        "optimizer: {_component_: torch.optim.AdamW, fused: true}\n",
        "utf-8",
    )
    assert read_file(path).values["optimizer_placement"] == "in_backward"
