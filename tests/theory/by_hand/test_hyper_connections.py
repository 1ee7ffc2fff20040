"""Hyper-connections with four residual streams, on paper.

A network of two layers with a width of 8, two heads of 4 and 16 hidden units; a sequence of 4 tokens on one accelerator
with 10 cores of 1 MHz and 1 MB/s of memory; entries of 2 bytes. A stream of all tokens has 4·8·2 = 64 bytes.

A connection: 4·(2 + 4) = 24 weights of a token from 4·8 entries, their 24 biases and 3 scales: 24·33 + 3 = 795 parameters,
twice in a layer. Behind the last layer: 4 weights from 32 entries, 4 biases and a scale: 133.
Before a block: the streams are read twice and its input written, 9·64 = 576 bytes; after it the streams are read and
written, and its output read: 576. Backward 4·4 + 1 = 17 and 3·4 + 2 = 14 of them.
"""

from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.theory.roofline.mixers import ITERATION_CYCLES
from tests.helpers.formulas import sectioned

NETWORK = {
    "layers": 2, "dimensionality": 8, "attention_heads": 2, "feedforward_dimension": 16, "vocabulary_size": 16, "context": 4,
    "batch_size": 1, "number_of_accelerators": 1, "number_of_accelerators_per_node": 1, "dropout": 0, "positions": "rope",
    "fp16_peak_flop_rate": "1 TFLOP/s", "memory_capacity": "1 GB", "memory_bandwidth": "1 MB/s", "activation_recomputation": "none",
    "flash_attention": True, "number_of_cores": 100, "frequency": "1 MHz", "memory_bandwidth_efficiency": 1,
    "functional_units_per_core": 1, "mac_per_cycle_per_unit": 1,
}  # fmt: skip
STREAMS = {"residual_streams": 4}
STREAM = 4 * 8 * 2
CONNECTIONS = ("attention_connection", "attention_residual", "feedforward_connection", "feedforward_residual")


def of(**changes: Any) -> Estimation:
    return estimated(read_scenario(sectioned(NETWORK | changes)))


def operators(e: Estimation) -> dict[tuple[str, str], Any]:
    return {(o.name, o.phase): o for o in e.results.records("layer_operators") if o.kind == "stream_mixing"}


def test_two_connections_of_each_layer_and_the_sum_behind_the_last_have_3313_parameters() -> None:
    assert of(**STREAMS)["number_of_parameters"] - of()["number_of_parameters"] == 2 * 2 * 795 + 133


def test_bytes_of_the_kernels_around_a_block() -> None:
    found = operators(of(**STREAMS))
    assert tuple(name for name, phase in found if phase == "forward") == CONNECTIONS
    forward, backward = ({name: float(o.bytes) for (name, phase), o in found.items() if phase == of} for of in ("forward", "input_gradient"))  # fmt: skip
    assert set(forward.values()) == {9 * STREAM}
    assert tuple(backward[name] for name in CONNECTIONS) == (17 * STREAM, 14 * STREAM, 17 * STREAM, 14 * STREAM)


def test_a_layer_keeps_its_streams_twice_and_the_outputs_of_its_blocks() -> None:
    assert of(**STREAMS)["layer_activation_bytes"] - of()["layer_activation_bytes"] == 2 * (4 + 1) * STREAM


def test_the_input_of_a_recomputed_layer_is_all_streams() -> None:
    full = {"activation_recomputation": "full"}
    assert of(**full)["kept_activation_bytes_per_layer"] == STREAM
    assert of(**full, **STREAMS)["kept_activation_bytes_per_layer"] == 4 * STREAM


def test_twenty_iterations_take_390_cycles_of_a_token() -> None:
    """Beside 576 bytes at 1 MB/s: 4 tokens · 390 cycles, on 100 cores of 1 MHz."""
    e = of(**STREAMS)
    (time,) = (d.time for d in e.results.records("layer_durations") if d.name == "attention_connection" and d.phase == "forward")  # fmt: skip
    (without,) = (d.time for d in e.results.records("layer_durations") if d.name == "attention_residual" and d.phase == "forward")  # fmt: skip
    assert float(time - without) == pytest.approx(4 * 20 * ITERATION_CYCLES / (100 * 1e6), rel=1e-6)


def test_a_stage_sends_all_streams() -> None:
    machine = {
        "number_of_accelerators": 2,
        "number_of_accelerators_per_node": 2,
        "pipeline_parallel_degree": 2,
        "batch_size": 2,
    }
    plain, streams = (of(**machine, **more).results.records("pipeline_collectives")[0].volume for more in ({}, STREAMS))
    assert float(streams) == 4 * float(plain) == 4 * STREAM


def test_the_utilization_counts_the_product_that_gives_the_weights() -> None:
    """Three passes of two products of 4 tokens · 24 weights · 32 entries in each of two layers."""
    more = of(**STREAMS)["model_flops_per_accelerator"] - of()["model_flops_per_accelerator"]
    assert more == 3 * 2 * (2 * 2 * 4 * 24 * 32)
