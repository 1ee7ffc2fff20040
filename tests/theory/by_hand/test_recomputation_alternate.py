"""Recomputation of alternate products (torchtitan's selective checkpointing by operator), and layers without attention."""

import numpy as np
import pytest

import amped
from tests.helpers.layers import computed, repeats

RUN = {"tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "virtual_pipeline_stages": 1, "zero_stage": 3,
       "sequence_parallel": False}  # fmt: skip


def llama(mode, **more):
    return amped.estimate("llama-3-70b", model="Llama 3 8B", activation_recomputation=mode, **RUN, **more)


def test_the_share_is_keys_output_and_gate():
    """Widths of Llama 3 8B: queries 4096, keys and values 1024 each, output 4096, and 14336 three times."""
    assert llama("alternate_products")["recomputed_product_fraction"] == pytest.approx((1024 + 4096 + 14336) / 53248)


def test_time_is_that_of_every_second_product_and_of_all_that_streams():
    """Keys are 1024 of 6144 columns of the projection, a gate is half of the product that has it too."""
    e = llama("alternate_products")
    forward = [d for d in e.results.records("layer_durations") if d.phase == "forward"]
    time = {d.name: float(np.sum(d.time * d.count)) for d in forward}
    streams = sum(time[d.name] for d in forward if d.kind in ("normalization", "element_wise"))
    products = time["query_key_value"] * 1024 / 6144 + time["attention_output"] + time["feedforward_up"] / 2
    assert computed(e).recomputation == pytest.approx(products + streams)


def test_more_work_is_never_faster_in_a_mixture():
    """The gates of experts are half of their product, whatever the width of a dense network beside them."""
    mode = {"activation_recomputation": "alternate_products"}
    runs = [amped.estimate("mixtral-8x7b", **mode, feedforward_dimension=width) for width in (2048, 14336, 28672)]
    times = [e["step_time"] for e in runs]
    assert times == sorted(times)
    wide = amped.estimate("mixtral-8x7b", **mode, expert_feedforward_dimension=28672)
    assert wide["recomputation_time"] > runs[0]["recomputation_time"]


def test_it_lies_between_nothing_and_everything():
    none, some, full = (llama(mode) for mode in ("none", "alternate_products", "full"))
    assert none["recomputation_time"] == 0 < some["recomputation_time"] < full["recomputation_time"]
    assert full["activation_bytes"] < some["activation_bytes"] < none["activation_bytes"]
    assert none["hardware_flops_per_accelerator"] < some["hardware_flops_per_accelerator"]
    assert some["hardware_flops_per_accelerator"] < full["hardware_flops_per_accelerator"]


def test_kept_are_the_input_and_the_outputs_of_queries_values_attention_up_and_down():
    """Entries of a token: 4096 in and from down, queries and attention 4096, values 1024, up 14336; statistics of 32 heads."""
    e = llama("alternate_products", microbatch_size=1)
    assert e["kept_activation_bytes_per_layer"] == 8192 * (2 * (4 * 4096 + 1024 + 14336) + 4 * 32)


def test_the_closed_form_repeats_as_much():
    none, some = (llama(mode, performance_model="amped") for mode in ("none", "alternate_products"))
    weights = some["layer_multiply_accumulates"] - some["attention_multiply_accumulates"]
    again = 19456 / 53248 * weights * some["multiply_accumulate_time"] * some["multiply_accumulate_bit_slices"]
    assert some["recomputation_time"] == pytest.approx(again)
    assert some["step_time"] == pytest.approx(none["step_time"] + again)


def test_a_layer_without_attention_has_neither_its_time_nor_its_parameters():
    whole = amped.estimate("mixtral-8x7b")
    alone = amped.estimate("mixtral-8x7b", number_of_attention_layers=0)
    assert alone["attentions_per_layer"] == 0
    gone = whole["number_of_parameters"] - alone["number_of_parameters"]
    assert gone == whole["layers"] * whole["attention_parameters"]
    assert repeats(alone).attention_core == 0
    assert alone["step_time"] < whole["step_time"]
    with pytest.raises(amped.AmpedError, match="at most as many layers with attention as layers"):
        amped.estimate("mixtral-8x7b", number_of_attention_layers=33)


def test_gradients_that_are_not_clipped_are_not_passed_over():
    clipped, free = (amped.estimate(gradient_clipping=on) for on in (True, False))
    assert free["optimizer_time"] < clipped["optimizer_time"]
    assert free["step_time"] == pytest.approx(clipped["step_time"] - clipped["optimizer_time"] + free["optimizer_time"])
