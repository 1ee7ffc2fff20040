"""The law of overlap (`theory/nouns/resources.py`) over thousands of drawn configs, with every switch on and off.

A better machine is never slower, more work is never faster, a switch never costs time where nothing interferes, and with
interference no more than it says.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import amped
from amped.engine.evaluate import Array
from amped.estimation.parts import STEP_PARTS
from amped.theory.nouns.parallelisms import PARALLELISMS
from tests.helpers.drawn import SWITCHES, Drawn, Values, drawn_configs, drawn_lists
from tests.helpers.layers import BOTTLENECK, COSTS

SEED, LEAST, ROUNDING = 3, 2000, 1 + 1e-9
# What hides beside the layers of the bottleneck stage counts for the whole step, though stages of unlike layers hide more or less:
# a switch may cost so much, and so much more where another stage becomes the bottleneck. With layers that are alike, nothing.
UNLIKE, JUMP = 0.001, 0.05
# Networks whose layers are alike, and those whose layers are lists of kinds: at least `LEAST` pairs of each.
every_network = pytest.mark.parametrize("networks", [drawn_configs, drawn_lists], ids=["alike", "lists of kinds"])
RATES = (
    "bf16_peak_flop_rate", "fp16_peak_flop_rate", "memory_bandwidth", "inter_accelerator_bandwidth",
    "bandwidth_per_network_card", "host_link_bandwidth", "host_memory_bandwidth",
)  # fmt: skip
BURDENS = (
    "inter_accelerator_latency", "inter_node_latency", "host_time_per_layer", "host_time_per_step", "kernel_launch_time",
    "context", "feedforward_dimension", "expert_feedforward_dimension", "vocabulary_size", "batch_size", "layers",
    "dimensionality", "overlap_slowdown_fraction",
)  # fmt: skip
# What grows with another: a network its heads and its mixtures, a batch its micro-batches.
TOGETHER = {
    "batch_size": ("number_of_microbatches_per_minibatch",), "layers": ("number_of_MoE_layers",),
    "dimensionality": ("head_dimension",),
}  # fmt: skip
NOTHING_INTERFERES = ("overlap_slowdown_fraction", "expert_exchange_processor_fraction", "host_waits_for_dispatch")


# gpt-oss-20b on Lassen, 4 stages of 4 chunks: exchanges with experts make stages with many layers faster, so that the last stage,
# which has few layers and the output head, becomes the bottleneck.
OTHER_BOTTLENECK: Values = {
    "model": "gpt-oss-20b", "system": "Lassen", "pipeline_layout": "6,7,6,5", "virtual_pipeline_stages": 4, "context": 2048,
    "context_parallel_degree": 2, "context_parallel_kind": "all_gather", "tensor_parallel_degree": 2, "data_parallel_degree": 8,
    "pipeline_parallel_degree": 4, "expert_parallel_degree": 8, "expert_tensor_parallel_degree": 1, "zero_stage": 1,
    "number_of_microbatches_per_minibatch": 4, "batch_size": 64, "sequence_parallel": True, "flash_attention": False, "dropout": 0,
    "activation_recomputation": "selective", "matrix_precision": "fp16", "overlap_tensor_communication": True,
    "overlap_context_communication": True, "overlap_slowdown_fraction": 0, "expert_exchange_processor_fraction": 0,
    "host_time_per_layer": "0.8 ms", "host_time_per_step": "10 ms", "bandwidth_per_network_card": "25 GB/s",
    "inter_accelerator_bandwidth": "20 GB/s", "inter_node_latency": "1 us", "inter_accelerator_latency": "5 us",
    "kernel_launch_time": "0 s", "tokens_to_train": "1 G", "pipelined_weight_sharding": True, "recomputation_stops_early": True,
    "tensor_chunk_overlap_fraction": 0.35, "network_cards_share_host_link": False, "software": "all fused",
}  # fmt: skip


Networks = Callable[[int], Sequence[Drawn]]


def grown(drawn: Drawn, name: str, times: float) -> Values:
    """A change of one value, and of what grows with it."""
    known = [each for each in (name, *TOGETHER.get(name, ())) if each in drawn.plan.leaves]
    most = 1.0 if name.endswith("_fraction") else np.inf
    return {each: lambda value: np.minimum(value * times, most) for each in known}


def ratios(drawn: Drawn, changes: list[Values]) -> list[tuple[Array, Array]]:
    """The step under each change as a share of the step under the first, of configs that keep all rules under both.

    Beside each, what rounding and another bottleneck may add to the share.
    """
    valid, steps, sign = drawn.steps(changes, ("step_time", "bottleneck_sign"), BOTTLENECK)
    both = [valid[0] & valid[n] for n in range(len(changes))]
    return [
        ((steps[n] / steps[0])[kept], _leeway(drawn, sign[n] != sign[0])[kept])
        for n, kept in enumerate(both[1:], start=1)
    ]


def _leeway(drawn: Drawn, moved: Array) -> Array:
    """Rounding, and of stages of unlike layers `UNLIKE`, or `JUMP` where another stage becomes the bottleneck."""
    of_lists = ROUNDING - 1 + np.where(moved, JUMP, UNLIKE)
    return of_lists if "kinds_of_layers" in drawn.scenario.sources.choices else np.full(len(moved), ROUNDING - 1)


@pytest.mark.thorough
@every_network
def test_a_better_machine_is_never_slower(networks: Networks) -> None:
    asked = dict.fromkeys(RATES, 0)
    for drawn in networks(SEED):
        names = [name for name in RATES if name in drawn.plan.leaves]
        changes = [{}, *(grown(drawn, name, times) for name in names for times in (2, 8))]
        for name, found in zip((name for name in names for _ in (2, 8)), ratios(drawn, changes), strict=True):
            share, leeway = found
            assert (share <= 1 + leeway).all(), (name, share.max())
            asked[name] += len(share) // 2
    machines = asked["bf16_peak_flop_rate"] + asked["fp16_peak_flop_rate"]  # each has one of them
    assert min(machines, asked["memory_bandwidth"], asked["inter_accelerator_bandwidth"]) > LEAST
    assert min(asked["host_link_bandwidth"], asked["host_memory_bandwidth"]) > LEAST / 4  # of those that offload


@pytest.mark.thorough
@every_network
def test_more_work_and_heavier_burdens_are_never_faster(networks: Networks) -> None:
    asked = dict.fromkeys(BURDENS, 0)
    for drawn in networks(SEED):
        names = [name for name in BURDENS if name in drawn.plan.leaves]
        for name, found in zip(names, ratios(drawn, [{}, *(grown(drawn, n, 2) for n in names)]), strict=True):
            share, leeway = found
            assert (share >= 1 - leeway).all(), (name, share.min())
            asked[name] += len(share)
    listed = ("layers",) if networks is drawn_lists else ()  # a list has as many layers as it names
    few = ("expert_feedforward_dimension", *listed)
    assert min(count for name, count in asked.items() if name not in few) > LEAST
    assert asked["expert_feedforward_dimension"] > LEAST / 8  # of mixtures


@pytest.mark.thorough
@every_network
@pytest.mark.parametrize("interferes", [False, True])
def test_a_switch_never_costs_time(interferes: bool, networks: Networks) -> None:
    """Or no more than what interferes says: hand-overs that had no computation beside them slow some when they have.

    A host that waits for dispatches makes the overlap of exchanges cost time, as `host_waits_for_dispatch` says.
    """
    asked, names = 0, ("step_time", "hidden_pipeline_communication_time", "bottleneck_sign")
    for drawn in networks(SEED):
        zero = ("host_waits_for_dispatch",) if interferes else NOTHING_INTERFERES
        none = {name: 0.0 for name in zero if name in drawn.own}
        changes = [none | {name: value} for name in SWITCHES for value in (0.0, 1.0)]
        valid, steps, handed, sign = drawn.steps(changes, names, BOTTLENECK)
        for n, name in enumerate(SWITCHES):
            off, on = 2 * n, 2 * n + 1
            says = interferes * drawn.own["overlap_slowdown_fraction"] * (handed[on] - handed[off])
            both, most = valid[off] & valid[on], 1 + _leeway(drawn, sign[on] != sign[off])
            assert (steps[on] <= steps[off] * most + np.maximum(says, 0))[both].all(), name
        asked += both.sum()
    assert asked > LEAST


@pytest.mark.thorough
@every_network
def test_parts_sum_to_the_step_and_nothing_is_negative(networks: Networks) -> None:
    hidden = tuple(f"hidden_{kind}_communication_time" for kind in (*PARALLELISMS, "offload"))
    for drawn in networks(SEED):
        valid, step, *found = drawn.steps([{}], ("step_time", *STEP_PARTS, *hidden))
        parts = sum(found[: len(STEP_PARTS)])
        assert np.allclose(parts[valid], step[valid], rtol=1e-12)
        for name, each in zip((*STEP_PARTS, *hidden), found, strict=True):
            assert (each[valid] >= -1e-12 * step[valid]).all(), name


@pytest.mark.thorough
@every_network
def test_what_is_hidden_and_what_is_waited_for_are_all_messages_of_a_layer(networks: Networks) -> None:
    """With nothing that interferes; of tensor parallelism also what columns of a grid gather, of which there is none."""
    kinds = ("tensor", "context", "expert")
    names = [f"{name}{kind}_of_layer_time" for kind in kinds for name in ("", "exposed_", "overlapped_")]
    for drawn in networks(SEED):
        none = {name: 0.0 for name in NOTHING_INTERFERES if name in drawn.own}
        valid, *found = drawn.steps([none], names, COSTS)
        for n in range(len(kinds)):
            sent, exposed, overlapped = (each[valid] for each in found[3 * n : 3 * n + 3])
            assert np.allclose(exposed + overlapped, sent, rtol=1e-9)
            assert (overlapped <= sent * ROUNDING).all()


# --- what broke the law ----------------------------------------------------------------------------------------------

OFFLOADING = {"model": "Llama 3 70B", "number_of_nodes": 4, "tensor_parallel_degree": 8, "zero_stage": 3}
RINGS = {"model": "Phi-3 small", "tensor_parallel_degree": 1, "context_parallel_degree": 8}


@pytest.mark.parametrize("mapping", [OFFLOADING, RINGS], ids=["Llama 3 70B, ZeRO 3", "Phi-3 small, rings"])
def test_faster_products_are_not_slower_beside_copies(mapping: Values) -> None:
    """They took 11.7 and 2.1 % longer: messages lost the kernels that hid them, and waiting for copies hid nothing."""
    asked = mapping | {"pipeline_parallel_degree": 1, "activation_offload": True}
    base = amped.estimate("minimal", **asked)
    faster = amped.estimate("minimal", **asked, bf16_peak_flop_rate=2 * base["matrix_peak_flop_rate"])
    assert faster["step_time"] <= base["step_time"] * ROUNDING


def test_exchanges_beside_another_micro_batch_need_one() -> None:
    """GLaM on 1,024 accelerators has one micro-batch: overlap, which slowed it by 1.6 %, now changes nothing."""
    off, on = (amped.estimate("electrical-glam-1.2T", overlap_expert_communication=switch) for switch in (False, True))
    assert on["step_time"] == off["step_time"]
    more = {"microbatch_size": 1, "batch_size": 4096}
    off, on = (
        amped.estimate("electrical-glam-1.2T", overlap_expert_communication=switch, **more) for switch in (False, True)
    )
    assert on["step_time"] < off["step_time"]
    steady = 3 / 4  # of four micro-batches, in the other one nothing runs beside
    assert on["hidden_expert_communication_time"] == pytest.approx(steady * off["exposed_expert_communication_time"])


def test_another_bottleneck_closes_no_window_of_chunks() -> None:
    steps = [
        amped.estimate({}, **OTHER_BOTTLENECK, overlap_data_communication=True, overlap_expert_communication=switch)[
            "step_time"
        ]
        for switch in (False, True)
    ]
    assert steps[1] <= steps[0]
