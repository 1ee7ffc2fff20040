"""Recomputation of all that is not kept by name (JAX's policies, as MaxText has them): time, bytes and flops on paper."""

import numpy as np
import pytest

import amped
from tests.helpers.layers import computed, repeats

RUN = {"tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "virtual_pipeline_stages": 1, "zero_stage": 3,
       "sequence_parallel": False}  # fmt: skip
PRODUCTS = ("query_key_value", "attention_core", "attention_output", "feedforward_up", "feedforward_down")


def llama(mode="kept_products", keep=(), **more):
    kept = {f"kept_{name}": True for name in keep}
    return amped.estimate("llama-3-70b", model="Llama 3 8B", activation_recomputation=mode, **RUN, **kept, **more)


def forward_times(e):
    forward = [d for d in e.results.records("layer_durations") if d.phase == "forward"]
    return {d.name: float(np.sum(d.time * d.count)) for d in forward}, forward


@pytest.mark.parametrize("keep", [(), ("query_key_value",), PRODUCTS[:3], PRODUCTS])
def test_what_is_not_kept_runs_again_but_for_the_down_projection(keep):
    """No backward pass needs the output of the down projection."""
    e = llama(keep=keep)
    time, forward = forward_times(e)
    streams = sum(time[d.name] for d in forward if d.kind in ("normalization", "element_wise"))
    core = 0 if "attention_core" in keep else repeats(e).attention_core
    again = sum(time[name] for name in ("query_key_value", "attention_output", "feedforward_up") if name not in keep)
    assert computed(e).recomputation == pytest.approx(again + core + streams)


def test_the_share_is_that_of_the_widths():
    """Widths of Llama 3 8B: queries 4096, keys and values 1024 each, output 4096, and 14336 three times: 53248."""
    assert llama()["recomputed_product_fraction"] == pytest.approx((53248 - 14336) / 53248)
    assert llama(keep=("feedforward_up",))["recomputed_product_fraction"] == pytest.approx((6144 + 4096) / 53248)
    assert llama(keep=PRODUCTS)["recomputed_product_fraction"] == 0


def test_kept_are_the_input_and_the_outputs_that_are_named():
    """Entries of a token: input, output and down 4096 each, queries 4096, keys and values 1024 each, up twice 14336."""
    tokens = 8192
    assert llama(microbatch_size=1)["kept_activation_bytes_per_layer"] == tokens * 2 * 4096
    projected = llama(keep=("query_key_value",), microbatch_size=1)["kept_activation_bytes_per_layer"]
    assert projected == tokens * 2 * (4096 + 4096 + 2 * 1024)
    every = llama(keep=PRODUCTS, microbatch_size=1)["kept_activation_bytes_per_layer"]
    assert every == tokens * (2 * (3 * 4096 + 4096 + 2 * 1024 + 4096 + 2 * 14336) + 4 * 32)


def test_keeping_more_takes_more_memory_and_less_time():
    runs = [llama(keep=PRODUCTS[:number]) for number in range(len(PRODUCTS))]
    times, bytes_ = [e["step_time"] for e in runs], [e["activation_bytes"] for e in runs]
    assert times == sorted(times, reverse=True)
    assert bytes_ == sorted(bytes_)
    assert llama("none")["step_time"] < times[-1]
    assert llama("full", recomputation_stops_early=True)["step_time"] == pytest.approx(times[0], rel=1e-3)


def test_the_switches_say_nothing_elsewhere():
    assert llama("full", ("query_key_value",))["step_time"] == llama("full")["step_time"]
