"""Multi-token prediction: a layer, a projection and the head once more, behind the last layer."""

from math import fsum

import pytest

import amped
from tests.helpers.layers import with_waits
from tests.helpers.stages import bottleneck, of_stage

LLAMA = {"pipeline_parallel_degree": 4, "virtual_pipeline_stages": 1}


def trained(modules, config="llama-3-70b", **overrides):
    return amped.estimate(config, **LLAMA | overrides, multi_token_prediction_layers=modules)


def test_deepseek_v3_has_the_module_that_it_published():
    """11.5 billion parameters of its own, beside a shared embedding and head of 0.9 billion each (model card)."""
    deepseek = {"model": "DeepSeek V3", "tensor_parallel_degree": 1, "expert_parallel_degree": 8, "batch_size": 2048,
                "expert_tensor_parallel_degree": 1, "number_of_first_stage_layers": 16, "number_of_last_stage_layers": 15}  # fmt: skip
    one, none = (trained(n, "mixtral-8x7b", **deepseek) for n in (1, 0))
    own = one["number_of_parameters"] - none["number_of_parameters"]
    assert own == pytest.approx(11.5e9, rel=0.01)
    attention = 7168 * 1536 + 1536 * (1 + 128 * 192) + 7168 * 576 + 512 * (1 + 128 * 256) + 128 * 128 * 7168
    experts = 257 * 3 * 7168 * 2048 + 7168 * 256
    assert own == pytest.approx(attention + experts + 2 * 7168**2 + 5 * 7168, rel=1e-5)
    assert one["active_parameters"] - none["active_parameters"] < own / 10
    assert of_stage(one, "last", "state_bytes") > of_stage(none, "last", "state_bytes")


def test_a_module_is_a_layer_a_projection_and_a_head():
    one, none = trained(1), trained(0)
    d = one["dimensionality"]
    own = one["number_of_parameters"] - none["number_of_parameters"]
    assert own == pytest.approx(none["non_expert_layer_parameters"] / none["layers"] + 2 * d * d + 3 * d, rel=1e-12)
    more = one["output_head_multiply_accumulates"] - none["output_head_multiply_accumulates"]
    tokens = one["microbatch_tokens"] * one["number_of_microbatches_per_minibatch"] / 4  # spread over the stages
    assert more == pytest.approx(tokens * (d * one["vocabulary_size"] + 2 * d * d) / 8, rel=1e-12)
    assert one["layer_passes"] - none["layer_passes"] == one["number_of_microbatches_per_minibatch"] / 4


def test_the_last_stage_does_all_of_it():
    one, none = trained(1), trained(0)
    layers = with_waits(one).whole + fsum(
        d.time * d.count
        for d in one.results.records("output_head_durations")
        if d.name == "multi_token_prediction_projection"
    )
    heads = none["output_head_time"] - none["vocabulary_parallel_communication_time"]
    norms = 2 * fsum(d.time for d in none.results.records("output_head_durations") if d.name == "final_norm")
    assert one["output_head_time"] - none["output_head_time"] == pytest.approx(layers + heads + norms, rel=1e-9)
    assert bottleneck(one) == "last"
    assert one["step_time"] > none["step_time"]
    assert of_stage(one, "last", "activation_bytes") > of_stage(none, "last", "activation_bytes")
    assert of_stage(one, "first", "activation_bytes") == of_stage(none, "first", "activation_bytes")


def test_the_step_is_still_the_sum_of_its_parts_and_the_schedule_runs_it():
    from amped.configuring.scenario import read_scenario
    from amped.estimation.estimation import estimated
    from amped.estimation.execution import executed_step

    e = estimated(read_scenario("llama-3-70b", LLAMA | {"multi_token_prediction_layers": 2}))
    assert fsum(e.breakdown.values()) == pytest.approx(e["step_time"], rel=1e-12)
    assert abs(executed_step(e).deviation) < 0.03


def test_layers_taken_from_the_last_stage_make_room():
    """What a layout is for: the last stage has the head and the modules, so it gets fewer layers."""
    even, uneven = trained(2), trained(2, pipeline_layout="21*2,20,18")
    assert uneven["step_time"] < even["step_time"]


def test_a_head_computes_the_logits_of_predicted_tokens_only() -> None:
    """Masked tokens (arXiv 1810.04805): a quarter of the rows of the product, of the loss, and of what both keep."""
    whole = amped.estimate("minimal")
    masked = amped.estimate("minimal", predicted_tokens_per_sequence=whole["context"] / 4)
    heads = [
        {(o.name, o.phase): (float(o.flops), float(o.stash)) for o in e.results.records("output_head_operators")}
        for e in (whole, masked)
    ]
    for name in ("output_head", "cross_entropy"):
        (flops, kept), (fewer_flops, fewer_kept) = (head[name, "forward"] for head in heads)
        assert (fewer_flops, fewer_kept) == (flops / 4, kept / 4)
    assert masked["model_flops_per_accelerator"] < whole["model_flops_per_accelerator"]
    assert masked["step_time"] < whole["step_time"]
