"""Laws of kinds of layers: where one kind meets another, and what more experts cost."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import amped
from amped.engine.evaluate import Array
from amped.theory.nouns.records import Duration
from tests.helpers.drawn import LINEAR_KINDS, Drawn, Values, drawn_configs, drawn_lists
from tests.helpers.formulas import page

SEED, LEAST = 7, 2000
CONTEXT = 4096
# What a layer sends to experts, in bytes and in calls, and what a step sends of gradients and weights.
SENT = page(
    """
@quantity("byte")
def bytes_to_experts(expert_collectives):
    'The bytes that a layer sends to experts and back. Source: a test.'
    return sum((c.volume * c.count for c in expert_collectives), 0.0)

@quantity("count")
def calls_to_experts(expert_collectives):
    'The collectives of experts in a layer. Source: a test.'
    return sum((c.count for c in expert_collectives), 0.0)

@quantity("byte")
def bytes_of_replicas(gradient_collectives, weight_collectives):
    'The bytes of gradients and weights that replicas send in a step. Source: a test.'
    return sum((c.volume * c.count for c in (*gradient_collectives, *weight_collectives)), 0.0)
"""
)
MESSAGES = ("bytes_to_experts", "calls_to_experts", "bytes_of_replicas")


def networks() -> tuple[Drawn, ...]:
    """Networks whose layers are alike, and networks whose layers are lists of kinds."""
    return drawn_configs(SEED) + drawn_lists(SEED)


@pytest.mark.thorough
def test_a_window_as_long_as_the_context_is_full_attention() -> None:
    asked, names = 0, ("step_time", "memory_per_accelerator_bytes", "model_flops_per_accelerator")
    for drawn in drawn_lists(SEED):
        if "number_of_windowed_layers" not in drawn.plan.leaves:
            continue  # an indexer chooses the keys
        full = {"attention_window": 0, "number_of_windowed_layers": 0}
        windows = [full, {"attention_window": CONTEXT}, {"attention_window": 2 * CONTEXT}]
        valid, *found = drawn.steps(windows, names)
        for each in found:
            assert np.allclose(each[1:], each[0], rtol=1e-12, atol=0, equal_nan=True)
        asked += valid[1:].sum()
    assert asked > LEAST


def doubled(value: Array) -> Array:
    """Twice as much."""
    return 2 * value


def halved(value: Array) -> Array:
    """Half as much."""
    return value / 2


@pytest.mark.thorough
def test_more_experts_at_equal_active_parameters_never_cost_fewer_messages() -> None:
    """Twice as many experts, of which a token goes to as many; or experts half as wide, of which it goes to twice as many."""
    more: Values = {"number_of_experts": doubled}
    finer: Values = more | {"experts_per_token": doubled, "expert_feedforward_dimension": halved}
    asked = 0
    for drawn in networks():
        if "number_of_experts" not in drawn.plan.leaves:
            continue
        # Shared experts are as wide as the others, so that there are twice as many of them, too.
        shared = {"number_of_shared_experts": doubled} if "number_of_shared_experts" in drawn.plan.leaves else {}
        valid, *messages = drawn.steps([{}, more, finer | shared], MESSAGES, SENT)
        for name, sent in zip(MESSAGES, messages, strict=True):
            for change in (1, 2):
                both = valid[0] & valid[change]
                assert (sent[change] >= sent[0] * (1 - 1e-9))[both].all(), (name, change)
        asked += (valid[0] & valid[1]).sum() + (valid[0] & valid[2]).sum()
    assert asked > LEAST


# --- chosen keys -----------------------------------------------------------------------------------------------------

DENSE: Values = {
    "model": "DeepSeek V3", "system": "DGX H100", "number_of_accelerators": 512, "tensor_parallel_degree": 1,
    "pipeline_parallel_degree": 8, "expert_parallel_degree": 64, "batch_size": 1024, "context": CONTEXT,
    "activation_recomputation": "none", "flash_attention": True,
}  # fmt: skip
OF_INDEXER = ("index_", "key_choice")


def layer_times(e: amped.Estimate, name: str) -> Iterator[tuple[tuple[str, str], float]]:
    """The seconds of each kernel of a layer without those of an indexer, by name and pass."""
    found: tuple[Duration, ...] = e.results.records(name)
    return (((d.name, d.phase), float(d.time * d.count)) for d in found if not d.name.startswith(OF_INDEXER))


@pytest.mark.thorough
@pytest.mark.parametrize("absorbed", [False, True])
@pytest.mark.parametrize("keys", [CONTEXT, 2 * CONTEXT])
def test_a_selection_of_all_keys_is_dense_attention_and_its_indexer(keys: int, absorbed: bool) -> None:
    given = DENSE | {"absorbed_latent_attention": absorbed}
    dense = amped.estimate("minimal", **given)
    chosen = amped.estimate("minimal", **given, indexer_heads=64, indexed_keys=keys)
    assert dict(layer_times(chosen, "layer_durations")) == pytest.approx(dict(layer_times(dense, "layer_durations")))
    assert chosen["step_time"] > dense["step_time"]
    fewer = amped.estimate("minimal", **given, indexer_heads=64, indexed_keys=CONTEXT // 4)
    assert fewer["step_time"] <= chosen["step_time"]


# --- linear attention ------------------------------------------------------------------------------------------------

LINEAR: Values = {
    "model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 8, "tensor_parallel_degree": 1, "batch_size": 8,
    "microbatch_size": 1, "layers": 32, "number_of_linear_attention_layers": 32, "number_of_attention_layers": 0, "linear_key_heads": 32,
    "linear_value_heads": 32, "linear_key_head_dimension": 128, "linear_value_head_dimension": 128,
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LINEAR_KINDS)
def test_the_time_of_a_linear_layer_is_linear_in_the_context(kind: str) -> None:
    """Twice the tokens add twice the seconds that the first tokens added; attention adds four times as many."""
    taps: dict[str, Any] = {"linear_convolution_width": 0} if kind == "lightning_attention" else {}
    seconds = []
    for context in (2**16, 2**17, 2**18):
        e = amped.estimate("minimal", **LINEAR, **taps, linear_attention_kind=kind, context=context)
        found = e.results.records("layer_durations")
        seconds.append(float(sum(d.time * d.count for d in found if d.name.startswith("linear_"))))
    first, second = np.diff(seconds)
    assert second == pytest.approx(2 * first, rel=1e-2)


# --- copies to the host ----------------------------------------------------------------------------------------------


def test_wider_dense_layers_leave_the_copies_of_mixtures_as_they_are() -> None:
    """Each kind has the bytes of its own weights: those of a mixture became fewer as the dense layers became wider."""
    given: Values = {
        "model": "DeepSeek V3", "system": "DGX H100", "number_of_accelerators": 512, "tensor_parallel_degree": 1,
        "pipeline_parallel_degree": 8, "pipeline_layout": "8*5,7*3", "expert_parallel_degree": 64, "batch_size": 1024, "weight_offload": 1, "zero_stage": 0,
    }  # fmt: skip
    narrow, wide = (
        amped.estimate("minimal", **given, feedforward_dimension=width).results.records("offloaded_layers")
        for width in (2048, 18432)
    )
    assert [kind.name for kind in narrow] == ["dense", "mixture"]
    assert wide[1].weights == narrow[1].weights
    more = 3 * 7168 * (18432 - 2048) * 2  # three matrices in 16 bits
    assert wide[0].weights - narrow[0].weights == pytest.approx(more)
