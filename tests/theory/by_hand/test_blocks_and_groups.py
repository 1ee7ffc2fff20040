"""Blocks of attention over the cores, groups of a product, and what the host launches, worked by hand."""

import pytest

import amped
from tests.helpers.layers import computed
from tests.helpers.round_machine import ONE_PRODUCT_A_SECOND, trained

LAYER = {"layers": 1, "dimensionality": 8, "attention_heads": 2, "vocabulary_size": 32, "context": 4, "batch_size": 1,
         "microbatch_size": 1, "causal": False, "flash_attention": True, "attention_head_ramp": 0}  # fmt: skip
MIXTURE = LAYER | {"number_of_experts": 4, "experts_per_token": 2, "number_of_MoE_layers": 1}


def kernels(*worlds: dict[str, object], **given: object) -> dict[tuple[str, str], float]:
    """Seconds of each operator of a layer by name and pass."""
    told = trained(*worlds, ONE_PRODUCT_A_SECOND, given)
    return {(d.name, d.phase): d.time for d in told.results.records("layer_durations")}


def test_all_cores_wait_for_about_a_block_of_attention() -> None:
    """2 heads of 4 queries are 8 rows; while 6 cores wait for a block of 4 rows they could do 24: 3 times the work.

    Backward blocks are half as large: 1.5 times the work.
    """
    alone, waiting = (kernels(LAYER, attention_tile_rows=rows, number_of_cores=6) for rows in (0, 4))
    forward, backward = (("fused_attention", phase) for phase in ("forward", "input_gradient"))
    assert waiting[forward] == pytest.approx(alone[forward] * (1 + 3))
    assert waiting[backward] == pytest.approx(alone[backward] * (1 + 1.5))


def test_more_heads_fill_the_cores() -> None:
    shares = []
    for heads in (8, 16, 128):
        one = {"attention_heads": heads, "dimensionality": heads * 128, "context": 4096, "number_of_cores": 148}
        times = [kernels(LAYER | one, attention_tile_rows=rows)["fused_attention", "forward"] for rows in (0, 256)]
        shares.append(times[0] / times[1])
    assert shares == pytest.approx([1 / (1 + 256 * 148 / (heads * 4096)) for heads in (8, 16, 128)])


def test_each_expert_takes_a_time_of_its_own_beside_its_product() -> None:
    plain, beside = (kernels(MIXTURE, grouped_gemm_overhead_time=time) for time in (0, 10))
    for name in ("experts_up", "experts_down"):
        for phase in ("forward", "input_gradient", "weight_gradient"):
            assert beside[name, phase] == pytest.approx(plain[name, phase] + 4 * 10)  # four experts
    assert beside["query_key_value", "forward"] == plain["query_key_value", "forward"]


def test_weight_gradients_of_experts_have_a_rate_of_their_own() -> None:
    plain, slow = (kernels(MIXTURE, grouped_weight_gradient_fraction=share) for share in (1, 0.5))
    assert slow["experts_up", "weight_gradient"] == pytest.approx(2 * plain["experts_up", "weight_gradient"])
    assert slow["experts_up", "input_gradient"] == plain["experts_up", "input_gradient"]
    assert slow["query_key_value", "weight_gradient"] == plain["query_key_value", "weight_gradient"]


def forward(scope: str, *worlds: dict[str, object], **given: object) -> float:
    return float(computed(trained(*worlds, given, cuda_graph_scope=scope)).forward)


def test_a_graph_leaves_the_host_nothing_to_launch() -> None:
    """The machine computes in no time, so that a layer takes what its launches do, a second each."""
    launches = {"kernel_launch_time": 1}
    whole = forward("none", MIXTURE, launches)
    experts = forward("router", MIXTURE, launches)
    assert whole > experts > 0
    assert experts == 5  # visits sorted there and back, two products, an activation
    # The norm before the experts, the router, and its choice are in a graph.
    assert forward("router_alone", MIXTURE, launches) == whole - 3
    assert forward("layer", MIXTURE, launches) == forward("step", MIXTURE, launches) < 1e-9


def test_the_host_takes_its_time_for_each_local_expert() -> None:
    eager = {"host_time_per_layer": 3, "host_time_per_expert": 2}
    assert forward("none", MIXTURE, eager) == 3 + 4 * 2
    assert forward("none", MIXTURE, eager, data_parallel_degree=2, batch_size=2, expert_parallel_degree=2) == 3 + 2 * 2
    assert forward("router", MIXTURE, eager) == 4 * 2
    # Of eleven kernels beside the experts the host handles eight: three of attention, its norm, two residuals, two permutations.
    assert forward("router_alone", MIXTURE, eager) == pytest.approx(4 * 2 + 3 * 8 / 11)
    assert forward("step", MIXTURE, eager) < 1e-9
    assert forward("none", LAYER, eager) == 3


def test_a_host_that_waits_for_dispatches_does_not_run_ahead_of_overlapped_micro_batches() -> None:
    """Two micro-batches, of which one has another beside it: half of the shorter time is hidden, and half added."""
    slow = {"host_time_per_layer": 3, "kernel_launch_time": 0, "batch_size": 2, "microbatch_size": 1}
    kernels = forward("step", MIXTURE, slow)
    waits = {"host_waits_for_dispatch": True, "overlap_expert_communication": True}
    assert forward("none", MIXTURE, slow) == 3
    assert forward("none", MIXTURE, slow, **waits) == pytest.approx(3 + kernels / 2, rel=1e-12)
    assert forward("none", MIXTURE, slow, host_waits_for_dispatch=True) == 3
    assert forward("none", LAYER, slow, **waits) == 3
    assert forward("step", MIXTURE, slow, **waits) == kernels


def test_a_run_of_a_mixture_is_faster_with_graphs_where_the_host_is_slow() -> None:
    run = {"model": "Mixtral 8x7B", "system": "DGX H100", "number_of_accelerators": 64, "expert_parallel_degree": 8,
           "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "host_time_per_expert": "30 ms",
           "context": 2048, "batch_size": 64, "microbatch_size": 1}  # fmt: skip
    times = [amped.estimate("default", **run, cuda_graph_scope=scope)["step_time"] for scope in ("none", "step")]
    assert times[1] < times[0]
