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


# The host takes 3 s for the operators of a layer, and 2 s for each launch after the first one of an operator.
EAGER = {"host_time_per_layer": 3, "host_time_per_launch": 2}
ONE_BY_ONE = EAGER | {"expert_launches": "each"}
FP8 = {"matrix_precision": "fp8", "bf16_peak_flop_rate": 1e30, "fp8_peak_flop_rate": 1e30}


def test_the_host_launches_the_products_of_experts_together_or_one_by_one() -> None:
    assert forward("none", MIXTURE, EAGER) == 3
    assert forward("none", MIXTURE, ONE_BY_ONE) == 3 + 2 * 3 * 2  # two products, three experts after the first
    halves = {"data_parallel_degree": 2, "batch_size": 2, "expert_parallel_degree": 2}
    assert forward("none", MIXTURE, ONE_BY_ONE, **halves) == 3 + 2 * 1 * 2
    assert forward("none", LAYER, ONE_BY_ONE) == 3


def test_a_graph_takes_its_kernels_off_the_host() -> None:
    """Of sixteen operators a graph up to the router leaves the five of the experts, and one of the router thirteen."""
    assert forward("router", MIXTURE, ONE_BY_ONE) == pytest.approx(3 * 5 / 16 + 12)
    assert forward("router_alone", MIXTURE, ONE_BY_ONE) == pytest.approx(3 * 13 / 16 + 12)
    assert forward("step", MIXTURE, ONE_BY_ONE) < 1e-9


def test_backward_the_host_launches_two_products_for_each_expert() -> None:
    passes = computed(trained(MIXTURE, ONE_BY_ONE))
    assert (passes.input_gradient, passes.weight_gradient) == (1.5 + 12, 1.5 + 12)


def test_casts_of_experts_are_launched_one_by_one_too() -> None:
    """Two casts of two kernels for each of four experts: 2 * (2 * 4 - 1) further launches, beside those of products."""
    fp8 = ONE_BY_ONE | FP8
    assert forward("none", MIXTURE, fp8) == 3 + 2 * (2 * 3) + 2 * (2 * 7)
    assert forward("none", MIXTURE, fp8, kernels_per_cast=1) == 3 + 2 * (2 * 3) + 2 * (2 * 3)


def test_between_casts_of_experts_the_accelerator_idles() -> None:
    """Seven gaps of a second more than one cast has, for each of two casts."""
    fp8 = FP8 | {"kernel_overhead_time": 1}
    together, each = (forward("none", MIXTURE, fp8, expert_launches=way) for way in ("together", "each"))
    assert each == pytest.approx(together + 2 * 7)


def test_a_host_that_waits_for_a_dispatch_launches_the_experts_after_all_other_kernels() -> None:
    """Kernels take a second each: seven of attention, of norms and of residuals, two of the router, two of permutations,
    and five of the experts. The host takes 0.5 s for each further launch, and needs 0.5 * 6 = 3 s for the experts, which
    their kernels hide, or 1.5 * 6 = 9 s, which they do not."""
    slow = {"kernel_overhead_time": 1, "expert_launches": "each"}
    kernels = forward("step", MIXTURE, slow)
    waits = slow | {"host_waits_for_dispatch": True}
    assert forward("none", MIXTURE, waits, host_time_per_launch=0.5) == kernels
    assert forward("none", MIXTURE, waits, host_time_per_launch=1.5) == pytest.approx(kernels - 5 + 9)
    assert forward("none", MIXTURE, slow, host_time_per_launch=1.5) == kernels
    padded = {"expert_capacity_factor": 1}
    assert forward("none", MIXTURE, waits, padded, host_time_per_launch=1.5) == kernels
    backward = computed(trained(MIXTURE, waits, {"host_time_per_launch": 1.5}))
    assert (
        backward.input_gradient == computed(trained(MIXTURE, slow)).input_gradient
    )  # a backward pass waits for nothing


def test_a_wait_for_the_host_is_told() -> None:
    told = trained(MIXTURE, ONE_BY_ONE)
    assert told["host_wait_time"] == pytest.approx(3 + 12 + 3 + 24, rel=1e-9)
    assert trained(MIXTURE, ONE_BY_ONE, {"cuda_graph_scope": "step"})["host_wait_time"] < 1e-9


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
    run = {"model": "Mixtral 8x7B", "system": "DGX H100", "number_of_accelerators": 64, "expert_parallel_degree": 2,
           "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "host_time_per_launch": "10 ms", "expert_launches": "each",
           "context": 2048, "batch_size": 64, "microbatch_size": 1}  # fmt: skip
    times = [amped.estimate("default", **run, cuda_graph_scope=scope)["step_time"] for scope in ("none", "step")]
    assert times[1] < times[0]
