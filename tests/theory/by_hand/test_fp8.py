"""Products in fp8 and fp4: smaller operands, higher rates, and casts that give some of it back."""

import pytest

import amped
from amped.theory.roofline.kernels import kernel_time
from tests.helpers.layers import repeats, whole_bytes

LAYER = {"model": "Llama 3 8B", "system": "DGX H100", "number_of_accelerators": 8, "tensor_parallel_degree": 1,
         "pipeline_parallel_degree": 1, "batch_size": 8, "microbatch_size": 1, "flash_attention": True, "dropout": 0,
         "activation_recomputation": "none"}  # fmt: skip


def trained(precision, **values):
    return amped.estimate(**LAYER | {"matrix_precision": precision} | values)


def casts_of(**values):
    """The bytes that the casts of the up projection read and write, forward and backward, and its m, n and k."""
    estimate = trained("fp8", **values)
    product = operators(estimate, "contraction")["feedforward_up", "forward"]
    casts = [operators(estimate, "element_wise")["feedforward_up_casts", p] for p in ("forward", "input_gradient")]
    return [(float(c.read), float(c.written)) for c in casts], *(float(x) for x in (product.m, product.n, product.k))


def test_one_layout_of_a_tensor_is_enough_where_units_read_both_directions():
    """B200 has compute capability 10.0. A block is a part of a row, so that its two directions have two casts."""
    b200 = {"system": "DGX B200"}
    for values, layouts in ((b200, 1), (b200 | {"fp8_scaling": "blocks"}, 2), ({}, 2)):
        casts, m, n, k = casts_of(**values)
        assert casts == [(2 * (m * k + k * n), layouts * (m * k + k * n)), (2 * m * n, layouts * m * n)]
    for accelerator, layouts in (("RTX 5090", 2), ("H200 SXM", 2), ("GB300", 1), ("MI300X", 2)):
        assert trained("fp8", accelerator=accelerator)["fp8_operand_layouts"] == layouts


def test_a_scale_of_its_own_needs_the_largest_entry_first():
    """Norms and activation functions find that of inputs; weights and gradients are read twice."""
    casts, m, n, k = casts_of(fp8_scaling="current")
    assert casts == [(2 * m * k + 4 * k * n, 2 * (m * k + k * n)), (4 * m * n, 2 * m * n)]


def wide_ends(first, last):
    layers = {"number_of_first_wide_layers": first, "number_of_last_wide_layers": last}
    return {"end_layer_format": "activations"} | layers


def operators(estimate, kind):
    return {(o.name, o.phase): o for o in estimate.results.records("layer_operators") if o.kind == kind}


def test_a_product_in_fp8_reads_half_and_writes_as_much():
    wide, narrow = (operators(trained(p), "contraction") for p in ("bf16", "fp8"))
    assert wide.keys() == narrow.keys()
    for key, product in wide.items():
        accumulated = product.k * 0 if key[1] != "weight_gradient" else product.written
        assert narrow[key].written == product.written
        assert (narrow[key].read - accumulated) * 2 == product.read - accumulated
        assert narrow[key].flops == product.flops


def test_every_product_with_a_weight_has_its_casts_and_attention_has_none():
    """Inputs and weights forward, gradients backward: two bytes read, one written in each of two layouts."""
    products = operators(trained("fp8"), "contraction")
    casts = {k: o for k, o in operators(trained("fp8"), "element_wise").items() if k[0].endswith("_casts")}
    assert {name for name, _ in casts} == {f"{name}_casts" for name, _ in products}
    for name, phase in products:
        product, cast = products[name, "forward"], casts.get((f"{name}_casts", phase))
        if cast is not None:
            cells = product.m * product.k + product.k * product.n if phase == "forward" else product.m * product.n
            assert (cast.read, cast.written) == (2 * cells, 2 * cells)
    assert not [o for o in trained("bf16").results.records("layer_operators") if o.name.endswith("_casts")]


def test_a_stack_may_cast_weights_in_the_first_of_its_micro_batches_only():
    """With 4 micro-batches a quarter of the bytes of a weight's cast is counted in each of them."""
    every, once = (trained("fp8", batch_size=32, weights_cast_once_per_step=on) for on in (False, True))
    assert every["number_of_microbatches_per_minibatch"] == 4
    product = operators(every, "contraction")["feedforward_up", "forward"]
    casts = [operators(e, "element_wise")["feedforward_up_casts", "forward"] for e in (every, once)]
    inputs, weights = product.m * product.k, product.k * product.n
    assert casts[0].read == 2 * (inputs + weights)
    assert casts[1].read == 2 * (inputs + weights / 4)
    assert once["step_time"] < every["step_time"]


def test_no_multiplication_hides_the_gradient_that_a_product_in_fp8_adds_to():
    """An entry of an fp32 gradient is read and written: 8 bytes. Of these, 16 bits hide half of the writing, and more."""
    settings = {
        "gradient_precision": 32,
        "exposed_store_fraction": 0.5,
        "exposed_operand_fraction": 0,
        "energy_of_operand_byte": 0,
    }
    wide, narrow = (trained(p, **settings) for p in ("bf16", "fp8"))
    times = {}
    for name, estimate in (("bf16", wide), ("fp8", narrow)):
        product = operators(estimate, "contraction")["feedforward_up", "weight_gradient"]
        (rates,) = estimate.results.records("kernel_rates")
        without = product.having(added_to=0 * product.written)
        times[name] = kernel_time(product, rates) - kernel_time(without, rates)
        assert product.added_to == (product.written if name == "fp8" else 0)
    (streams,) = narrow.results.records("stream_rates")
    entries = product.m * product.n
    assert times["bf16"] == 0
    assert times["fp8"] == pytest.approx(1.5 * 4 * entries / streams.bandwidth, rel=1e-9)


def test_a_gradient_that_a_separate_kernel_adds_up_is_not_counted_twice():
    product = operators(trained("fp8", weight_gradient_accumulation="separate"), "contraction")
    assert not any(o.added_to for o in product.values())
    forward = operators(trained("fp8"), "contraction")
    assert {phase for (_, phase), o in forward.items() if o.added_to} == {"weight_gradient"}


def test_fp8_is_faster_but_not_twice_as_fast():
    wide, narrow = trained("bf16"), trained("fp8")
    for part in ("compute_forward_time", "compute_backward_time", "weight_update_time"):
        assert narrow[part] < wide[part] < 2 * narrow[part]


def test_attention_stays_in_sixteen_bits():
    times = [
        {d.phase: d.time for d in trained(p).results.records("layer_durations") if d.name == "fused_attention"}
        for p in ("bf16", "fp8")
    ]
    assert times[0] == times[1]


def test_inputs_are_kept_in_fp8():
    wide, narrow = trained("bf16"), trained("fp8")
    products = operators(wide, "contraction")
    saved = sum(o.stash * o.count for o in products.values()) / 2
    assert whole_bytes(wide) - whole_bytes(narrow) == pytest.approx(saved)


def test_scales_of_blocks_slow_products_down_where_units_have_none():
    tensors, blocks = trained("fp8"), trained("fp8", fp8_scaling="blocks")
    ratio = blocks["sustained_matrix_flop_rate"] / tensors["sustained_matrix_flop_rate"]
    assert ratio == pytest.approx(blocks["blockwise_fp8_fraction"]) == 0.939
    wide = [trained("bf16", fp8_scaling=s)["step_time"] for s in ("tensors", "blocks")]
    assert wide[0] == wide[1]


class TestWideLayers:
    """The first and the last layers of a training in fp8 may stay in 16 bits."""

    def test_a_network_of_wide_layers_trains_as_in_sixteen_bits(self):
        wide, ends = trained("bf16"), trained("fp8", **wide_ends(16, 16))
        for part in ("step_time", "compute_backward_time", "layer_activation_bytes"):
            assert ends[part] == wide[part], part

    def test_so_does_a_mixture(self):
        mixtral = {"model": "Mixtral 8x7B", "expert_parallel_degree": 8, "sequence_parallel": False}
        wide, ends = (trained(p, **mixtral, **wide_ends(16, 16)) for p in ("bf16", "fp8"))
        assert ends["step_time"] == wide["step_time"] > trained("fp8", **mixtral)["step_time"]

    def test_two_of_32_layers_take_as_long_as_in_sixteen_bits(self):
        wide, narrow, ends = trained("bf16"), trained("fp8"), trained("fp8", **wide_ends(1, 1))
        for part in ("compute_forward_time", "layer_activation_bytes", "layer_time"):
            assert ends[part] == pytest.approx((30 * narrow[part] + 2 * wide[part]) / 32), part

    def test_no_layer_is_wide_unless_asked_for(self):
        narrow = trained("fp8")
        for values in ({"number_of_first_wide_layers": 4}, wide_ends(0, 0)):
            assert trained("fp8", **values)["step_time"] == narrow["step_time"]

    def test_there_are_no_more_wide_layers_than_layers(self):
        assert trained("fp8", **wide_ends(30, 30))["step_time"] == trained("bf16")["step_time"]

    def test_nothing_is_cast_in_a_wide_layer(self):
        streamed = operators(trained("fp8", **wide_ends(1, 1)), "element_wise")
        assert {float(o.count) for (name, _), o in streamed.items() if name.endswith("_casts")} == {30 / 32}


BLACKWELL = {"system": "GB200 NVL72", "number_of_accelerators": 72, "batch_size": 72}


class TestFp4:
    def test_products_are_as_fast_as_the_peak_says_and_read_nine_sixteenths_of_a_byte(self):
        eight, four = (trained(p, **BLACKWELL) for p in ("fp8", "fp4"))
        rates = [e["sustained_matrix_flop_rate"] for e in (eight, four)]
        sustained = four["fp4_gemm_sustained_fraction"] / eight["fp8_gemm_sustained_fraction"]
        peaks = four["fp4_peak_flop_rate"] / eight["fp8_peak_flop_rate"]
        assert rates[1] / rates[0] == pytest.approx(peaks * sustained)
        assert four["matrix_operand_precision"] == 0.5625
        assert repeats(eight).attention_core == repeats(four).attention_core  # attention stays in 16 bit
        assert four["step_time"] < eight["step_time"] < trained("bf16", **BLACKWELL)["step_time"]

    def test_casts_read_twice_and_write_less(self):
        in_blocks = BLACKWELL | {"fp8_scaling": "blocks"}
        eight, four = (operators(trained(p, **in_blocks), "element_wise") for p in ("fp8", "fp4"))
        casts = [key for key in eight if key[0].endswith("_casts")]
        assert casts
        for key in casts:
            assert four[key].read == 2 * eight[key].read
            assert four[key].written == pytest.approx(0.5625 * eight[key].written)

    def test_an_accelerator_without_it_is_told(self):
        with pytest.raises(amped.AmpedError, match="fp4_peak_flop_rate"):
            trained("fp4")
