"""What is not fused moves the bytes that PyTorch's own operators move: each is run, and its tensors are counted."""

import pytest

import amped
from tests.helpers.layers import whole_bytes
from tests.helpers.traffic import both_passes

BIASED = {"expert_bias": True, "expert_bias_addition": "separate", "tensor_parallel_degree": 1}
WEIGHTED = {"expert_weighting": "separate", "tensor_parallel_degree": 1, "activation_recomputation": "none"}
DOWN_BIAS = ("expert_down_bias", "expert_down_bias_product", "expert_down_bias_sum")
CLAMPED = {"clamped_activation": True, "activation_clamping": "separate", "tensor_parallel_degree": 1,
           "activation_recomputation": "none"}  # fmt: skip
SCALED = {"scaled_rotation": True, "scaled_rotation_kernels": "separate", "positions": "rope"}
FLEX = {"attention_kernel": "flex", "attention_sinks": True, "activation_recomputation": "none"}


def modeled(e, *names):
    """Bytes read and written in all calls of some operators, forward and backward."""
    found = [o for o in e.results.records("layer_operators") if o.name in names]
    passes = [[o for o in found if o.phase == phase] for phase in ("forward", "input_gradient")]
    return [[sum(float(getattr(o, side) * o.count) for o in each) for side in ("read", "written")] for each in passes]


def leaf(*shape, like="bfloat16"):
    import torch

    return torch.rand(*shape, dtype=getattr(torch, like), requires_grad=True)


class TestBiasesOfExperts:
    rows, width, experts = 2048, 192, 4

    def parts(self, tensor):
        return tensor.split([self.rows // self.experts] * self.experts)

    def scaled_to_the_layer(self, e, name, moved):
        """The model's bytes of a layer, for as many rows and columns as were run."""
        o = next(o for o in e.results.records("layer_operators") if o.name == name)
        share = self.rows * self.width / float(o.m * o.n)
        return [[share * bytes_ for bytes_ in each] for each in moved]

    def test_the_first_is_added_and_joined(self):
        torch = pytest.importorskip("torch", reason="counts what PyTorch's operators move")
        rows, bias = leaf(self.rows, self.width), leaf(self.experts, self.width)
        ran = both_passes(lambda r, b: torch.cat([t + c for t, c in zip(self.parts(r), b, strict=True)]), rows, bias)
        e = amped.estimate("mixtral-8x7b", **BIASED)
        expected = self.scaled_to_the_layer(e, "expert_up_bias", modeled(e, "expert_up_bias", "expert_up_bias_sum"))
        assert ran == [pytest.approx(each, rel=0.02) for each in expected]

    def test_the_second_is_weighted_in_full_precision(self):
        torch = pytest.importorskip("torch", reason="counts what PyTorch's operators move")

        def added(r, b, p):
            each = zip(self.parts(r), b, self.parts(p), strict=True)
            return torch.cat([t + c * q for t, c, q in each]).to(r.dtype)

        inputs = leaf(self.rows, self.width), leaf(self.experts, self.width), leaf(self.rows, 1, like="float32")
        ran = both_passes(added, *inputs)
        e = amped.estimate("mixtral-8x7b", **BIASED)
        expected = self.scaled_to_the_layer(e, "expert_down_bias", modeled(e, *DOWN_BIAS))
        assert ran == [pytest.approx(each, rel=0.02) for each in expected]

    def test_they_cost_what_their_traffic_does_and_nothing_without_biases(self):
        plain = amped.estimate("mixtral-8x7b", tensor_parallel_degree=1)
        fused = amped.estimate("mixtral-8x7b", **BIASED | {"expert_bias_addition": "fused"})
        apart = amped.estimate("mixtral-8x7b", **BIASED)
        unbiased = amped.estimate("mixtral-8x7b", **BIASED | {"expert_bias": False})
        assert unbiased["step_time"] == plain["step_time"]
        assert plain["step_time"] < fused["step_time"] < apart["step_time"]
        assert fused["compute_forward_time"] == plain["compute_forward_time"]  # the product adds them

    def test_products_may_add_the_first_and_other_kernels_the_second(self):
        runs = [
            amped.estimate("mixtral-8x7b", **BIASED | {"expert_bias_addition": how})
            for how in ("separate_output", "separate", "fused")
        ]
        down = [modeled(e, *DOWN_BIAS) for e in runs[:2]]
        assert down[0] == down[1]
        up = [o.phase for o in runs[0].results.records("layer_operators") if o.name == "expert_up_bias"]
        assert up == ["input_gradient"]  # the sums of its gradient
        steps = [e["step_time"] for e in runs]
        assert steps[2] < steps[0] < steps[1]

    def test_traffic_that_is_counted_is_not_multiplied_too(self):
        one, two = (amped.estimate("mixtral-8x7b", **BIASED, streaming_traffic_factor=f) for f in (1, 2))
        times = [{d.name: float(d.time) for d in e.results.records("layer_durations")} for e in (one, two)]
        assert times[0]["expert_down_bias"] == times[1]["expert_down_bias"]
        assert times[0]["expert_activation"] < times[1]["expert_activation"]


class TestProbabilitiesOfExperts:
    def test_they_multiply_in_full_precision_and_the_result_is_cast(self):
        pytest.importorskip("torch", reason="counts what PyTorch's operators move")
        rows, width = 512, 768
        ran = both_passes(lambda h, p: (h * p).to(h.dtype), leaf(rows, width), leaf(rows, 1, like="float32"))
        e = amped.estimate("mixtral-8x7b", **WEIGHTED)
        o = next(o for o in e.results.records("layer_operators") if o.name == "expert_weighting")
        share = rows * width / float(o.m * o.n)
        expected = [
            [share * bytes_ for bytes_ in each] for each in modeled(e, "expert_weighting", "expert_weighting_product")
        ]
        assert ran == [pytest.approx(each, rel=0.02) for each in expected]

    def test_what_they_multiply_is_kept_once_more_and_what_they_work_on_is_wide(self):
        fused, apart = (
            amped.estimate("mixtral-8x7b", **WEIGHTED | {"expert_weighting": how}) for how in ("fused", "separate")
        )
        entries = float(apart["dispatched_tokens"] * apart["expert_feedforward_dimension"])
        kept = whole_bytes(apart) - whole_bytes(fused)
        assert kept == pytest.approx(entries * 2)
        assert apart["expert_weighting_bytes"] == pytest.approx(entries * (2 + 3 * 4))
        assert fused["expert_weighting_bytes"] == 0
        assert apart["compute_forward_time"] > fused["compute_forward_time"]

    def test_a_dispatch_that_reorders_as_it_sends_needs_half_the_buffers(self):
        asked = {"tensor_parallel_degree": 1}
        plain, deduplicated = (
            amped.estimate("mixtral-8x7b", **asked, deduplicated_dispatch=d)["expert_working_bytes"]
            for d in (False, True)
        )
        assert plain == 2 * deduplicated > 0
        assert amped.estimate("llama-3-70b")["expert_working_bytes"] == 0


class TestClampedInputsOfExperts:
    def test_each_half_is_limited_and_both_are_joined(self):
        torch = pytest.importorskip("torch", reason="counts what PyTorch's operators move")

        def clamped(x):
            gate, up = x.chunk(2, -1)
            return torch.cat((gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)), -1)

        ran = both_passes(clamped, leaf(512, 768))
        e = amped.estimate("mixtral-8x7b", **CLAMPED)
        o = next(o for o in e.results.records("layer_operators") if o.name == "expert_clamp")
        share = 512 * 768 / float(o.m * o.n)
        expected = [[share * bytes_ for bytes_ in each] for each in modeled(e, "expert_clamp", "expert_clamp_halves")]
        assert ran == [pytest.approx(each, rel=0.02) for each in expected]

    def test_one_kernel_compares_and_moves_nothing_more(self):
        fused, apart, plain = (
            amped.estimate("mixtral-8x7b", **CLAMPED | given)
            for given in ({"activation_clamping": "fused"}, {}, {"clamped_activation": False})
        )
        assert plain["step_time"] <= fused["step_time"] < apart["step_time"]
        assert modeled(plain, "expert_clamp") == [[0, 0], [0, 0]]
        entries = float(apart["dispatched_tokens"] * apart["expert_feedforward_dimension"])
        assert whole_bytes(apart) - whole_bytes(fused) == pytest.approx(2 * entries * 2)  # gate and up, kept twice
        # computed again with the activation function, they are kept once
        again = [amped.estimate("mixtral-8x7b", **CLAMPED | {"activation_clamping": how}, activation_function_recomputation=True)
                 for how in ("fused", "separate")]  # fmt: skip
        assert whole_bytes(again[0]) == whole_bytes(again[1])


class TestScaledRotation:
    def test_parts_of_a_rotation_move_what_pytorch_moves(self):
        torch = pytest.importorskip("torch", reason="counts what PyTorch's operators move")
        angles = leaf(256, 1, 1, 64).detach()

        def rotated(x):
            half, other = torch.chunk(x, 2, dim=-1)
            turned = (x * angles.cos()) + torch.cat((-other, half), dim=-1) * angles.sin()
            return torch.cat((turned, x[..., 64:]), dim=-1)

        ran = both_passes(rotated, leaf(256, 4, 32, 64))
        e = amped.estimate("default", **SCALED)
        o = next(o for o in e.results.records("layer_operators") if o.name == "rotary_positions")
        share = 256 * 4 * 32 * 64 / float(o.m * o.n)
        names = ("rotary_positions", "rotation_sign", "rotation_product", "rotation_sum")
        expected = [[share * bytes_ for bytes_ in each] for each in modeled(e, *names)]
        assert ran == [pytest.approx(each, rel=0.02) for each in expected]

    def test_addresses_take_longer_than_the_traffic_of_a_fast_memory(self):
        """An entry of two products and of half a sign costs an address each, in each pass."""
        fast, slow = (amped.estimate("default", **SCALED, flops_per_address=f) for f in (0, 1e6))
        o = next(o for o in fast.results.records("layer_operators") if o.name == "rotary_positions")
        addresses = 2 * 2.5 * float(o.m * o.n) * 1e6 / slow["vector_flop_rate"]
        times = [sum(float(d.time * d.count) for d in e.results.records("layer_durations")) for e in (fast, slow)]
        assert times[1] - times[0] == pytest.approx(addresses, rel=0.01)


class TestSinks:
    def test_the_output_is_scaled_in_full_precision(self):
        torch = pytest.importorskip("torch", reason="counts what PyTorch's operators move")
        output, sums = leaf(2, 4, 256, 64), leaf(2, 4, 256, like="float32")
        ran = both_passes(lambda o, s: (o * torch.sigmoid(s).unsqueeze(-1)).to(o.dtype), output, sums)
        e = amped.estimate("default", **FLEX, flash_attention=True)
        o = next(o for o in e.results.records("layer_operators") if o.name == "sink_scaling")
        share = output.numel() / float(o.m * o.n)
        expected = [[share * bytes_ for bytes_ in each] for each in modeled(e, "sink_scaling")]
        assert ran == [pytest.approx(each, rel=0.06) for each in expected]  # the sums of rows are not counted

    def test_only_a_compiled_attention_does_it_by_itself_and_keeps_its_output_twice(self):
        without, flex = (
            amped.estimate("default", **FLEX | {"attention_sinks": s}, flash_attention=True) for s in (0, 1)
        )
        newest = [amped.estimate("default", flash_attention=True, attention_sinks=s, activation_recomputation="none")
                  for s in (0, 1)]  # fmt: skip
        assert newest[0]["compute_forward_time"] == newest[1]["compute_forward_time"]
        assert flex["compute_forward_time"] > without["compute_forward_time"]
        kept = whole_bytes(flex) - whole_bytes(without)
        assert kept == pytest.approx(flex["query_bytes"])


def test_a_compiled_attention_is_slower_than_one_written_by_hand():
    flash, flex = (amped.estimate("default", flash_attention=True, attention_kernel=k) for k in ("flash_2", "flex"))
    ratio = flex["fused_forward_flop_rate"] / flash["fused_forward_flop_rate"]
    assert ratio == pytest.approx(flex["flex_attention_fraction"]) == 0.86


def test_norms_of_queries_and_keys_pass_over_them_and_keep_their_inputs():
    plain, normed = (amped.estimate("llama-3-70b", query_key_norm=q) for q in (0, 1))
    o = next(
        o for o in normed.results.records("layer_operators") if o.name == "query_key_norm" and o.phase == "forward"
    )
    assert float(o.bytes) == pytest.approx(2 * (normed["query_bytes"] + normed["key_bytes"]))
    kept = whole_bytes(normed) - whole_bytes(plain)
    assert kept == pytest.approx(normed["query_bytes"] + normed["key_bytes"])


def test_every_operator_of_a_layer_has_its_place_in_the_graph():
    from amped.estimation.breakdown import forward_pass

    e = amped.estimate("mixtral-8x7b", **BIASED | FLEX | {"flash_attention": True, "query_key_norm": True})
    names = {o.name for o in e.results.records("layer_operators") if float(o.count) and o.phase == "forward"}
    waits = {name: before for name, before in forward_pass(e).items() if before}
    assert {"query_key_norm", "sink_scaling", "expert_up_bias", "expert_down_bias"} <= names <= waits.keys()


def test_a_causal_mask_of_its_own_passes_over_all_scores_as_masked_fill_does():
    torch = pytest.importorskip("torch", reason="counts what PyTorch's operators move")
    unfused = {"flash_attention": False, "causal": True, "activation_recomputation": "none"}
    without, e = (amped.estimate("default", **unfused, separate_causal_mask=s) for s in (False, True))
    (scores, _) = e.results.records("attention_gemms")
    entries = float(scores.m * scores.n * scores.batch)
    mask = torch.ones(64, 64, dtype=torch.bool).triu(1)
    one = [
        [moved / (8 * 64 * 64) for moved in each]
        for each in both_passes(lambda s: s.masked_fill(mask, -1e9), leaf(8, 64, 64))
    ]
    # the mask itself, a byte for each pair of tokens, is shared by all heads: 1/8 byte an entry here
    assert one == [pytest.approx([2 + 1 / 8, 2], rel=0.01)] * 2
    assert modeled(e, "causal_mask") == [pytest.approx([2 * entries, 2 * entries])] * 2
    assert e["compute_forward_time"] > without["compute_forward_time"]
    assert whole_bytes(e) == whole_bytes(without)
    bidirectional = {**unfused, "causal": False}
    times = {s: amped.estimate("default", **bidirectional, separate_causal_mask=s)["step_time"] for s in (False, True)}
    assert times[True] == times[False]


class TestFusedAttentionByRelease:
    """Keys of 192 and values of 128: trained by cuDNN 9.5 on Hopper, and by 9.11 on Blackwell."""

    def estimate(self, system, **values):
        settings = {"flash_attention": True, "attention_kind": "multi_latent", "head_dimension": 192, "rotary_head_dimension": 64,
                    "value_head_dimension": 128, "query_latent_dimension": 1536, "key_value_latent_dimension": 512}  # fmt: skip
        return amped.estimate("mixtral-8x7b", system=system, **settings | values)

    @pytest.mark.parametrize(
        ("system", "last_without", "first_with"), [("DGX H100", 90400, 90500), ("DGX B200", 91002, 91100)]
    )
    def test_it_comes_with_a_version_of_the_library(self, system, last_without, first_with):
        exists = [self.estimate(system, cudnn_version=v)["fused_attention_exists"] for v in (last_without, first_with)]
        assert exists == [0, 1]
        assert self.estimate(system)["fused_attention_exists"] == 1  # the newest version by default

    def test_heads_of_128_always_have_one(self):
        assert amped.estimate("mixtral-8x7b", system="DGX B200", cudnn_version=90700)["fused_attention_exists"] == 1

    def test_without_it_all_is_as_if_nobody_had_asked_for_it_and_this_is_told(self):
        missing = self.estimate("DGX B200", cudnn_version=90800)
        unfused = self.estimate("DGX B200", flash_attention=False)
        assert missing["step_time"] == unfused["step_time"] > self.estimate("DGX B200")["step_time"]
        assert "cuDNN 9.8 has no fused attention for keys of 192" in missing.to_dict()["missing_kernels"]
        assert any("cuDNN 9.8" in notice for notice in missing.notices)
        assert not unfused.to_dict()["missing_kernels"]


class TestSoftmaxInFullPrecision:
    def test_it_moves_28_bytes_of_a_score_forward_and_32_backward_and_keeps_6(self):
        """Forward: conversions of 6 and 6, a mask and a softmax of 8. Backward: 6 and 6, a mask of 8 and a softmax of 12."""
        settings = {"flash_attention": False, "activation_recomputation": "none", "dropout": 0}
        narrow, wide = (
            amped.estimate("default", softmax_kernels=kernels, **settings) for kernels in ("fused", "separate")
        )
        names = ("scores_conversion", "causal_mask", "softmax", "probabilities_conversion")
        moved = {}
        for key, e in (("narrow", narrow), ("wide", wide)):
            operators = [o for o in e.results.records("layer_operators") if o.name in names]
            scores = next(float(o.m * o.n) for o in operators if o.name == "softmax")
            for phase in ("forward", "input_gradient"):
                moved[key, phase] = sum(float(o.bytes * o.count) for o in operators if o.phase == phase) / scores
            moved[key, "kept"] = sum(float(o.stash * o.count) for o in operators) / scores
        per_layer = float(wide["unfused_attentions_per_layer"])
        assert (moved["narrow", "forward"], moved["wide", "forward"]) == (4 * per_layer, 28 * per_layer)
        assert (moved["narrow", "input_gradient"], moved["wide", "input_gradient"]) == (6 * per_layer, 32 * per_layer)
        assert (moved["narrow", "kept"], moved["wide", "kept"]) == (2 * per_layer, 6 * per_layer)


def test_pytorch_takes_the_newest_attention_of_hopper_since_a_version_of_cudnn():
    taken = {
        (system, version): amped.estimate(
            "default", system=system, flash_attention=True, attention_kernel="sdpa", cudnn_version=version
        )["attention_kernel_fraction"]
        for system in ("DGX A100", "DGX H100")
        for version in (91500, 91501)
    }
    flash_2 = amped.estimate("default", system="DGX H100", flash_attention=True, attention_kernel="flash_2")
    assert taken["DGX A100", 91500] == taken["DGX A100", 91501] == taken["DGX H100", 91501] == 1
    assert taken["DGX H100", 91500] == flash_2["attention_kernel_fraction"] < 1
