"""Properties of tensor parallelism on a grid: what must hold whatever the numbers are."""

import pytest

import amped

GPT = {"tensor_parallel_degree": 16, "pipeline_parallel_degree": 4, "zero_stage": 0, "sequence_parallel": True,
       "activation_recomputation": "none", "flash_attention": True, "dropout": 0}  # fmt: skip


def on_grid(strategy, columns, **others):
    return amped.estimate(
        "default", **GPT, tensor_parallel_strategy=strategy, tensor_parallel_columns=columns, **others
    )


def test_one_column_of_tokens_is_one_dimension():
    one, grid = amped.estimate("default", **GPT), on_grid("2d_context", 1)
    assert grid["step_time"] == one["step_time"]
    assert grid["memory_per_accelerator_bytes"] == one["memory_per_accelerator_bytes"]


def test_columns_of_tokens_are_context_parallelism_that_gathers():
    """The same split by another name: rows are the tensor degree, columns the context degree."""
    split = GPT | {"tensor_parallel_degree": 4, "context_parallel_degree": 4, "context_parallel_kind": "all_gather"}
    context, grid = amped.estimate("default", **split), on_grid("2d_context", 4)
    both = ("exposed_tensor_communication_time", "exposed_context_communication_time")
    assert sum(grid[n] for n in both) == pytest.approx(sum(context[n] for n in both), rel=1e-9)
    assert grid["weight_bytes"] == context["weight_bytes"]
    assert grid["activation_bytes"] == context["activation_bytes"]


def test_a_grid_of_weights_holds_less_than_rows_of_them():
    summa, context = on_grid("2d_summa", 4), on_grid("2d_context", 4)
    assert summa["weight_bytes"] == pytest.approx(context["weight_bytes"] / 4)
    assert summa["activation_bytes"] == pytest.approx(context["activation_bytes"], rel=0.05)


def test_nothing_is_lost_on_a_grid():
    """The same flops and the same weights whatever the shape of the grid."""
    whole = amped.estimate("default", **GPT)
    for columns in (1, 2, 4, 8):
        grid = on_grid("2d_summa", columns)
        assert grid["model_flops_per_accelerator"] == pytest.approx(whole["model_flops_per_accelerator"], rel=1e-12)
        assert grid["weight_bytes"] == pytest.approx(whole["weight_bytes"], rel=1e-12)


def test_more_panels_wait_for_less_until_their_latencies_count():
    fast = {"inter_accelerator_latency": 0, "inter_node_latency": 0, "collective_overhead_time": 0, "chain_step_overhead_time": 0,
            "inter_accelerator_ramp_bytes": 0, "inter_node_ramp_bytes": 0}  # fmt: skip
    waits = [
        on_grid("2d_summa", 4, summa_panels=p, **fast)["exposed_tensor_communication_time"] for p in (1, 2, 4, 8, 16)
    ]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > waits[-1]
    slow = [on_grid("2d_summa", 4, summa_panels=p)["exposed_tensor_communication_time"] for p in (16, 1024)]
    assert slow[1] > slow[0]


def test_nothing_hides_where_nothing_may():
    assert on_grid("2d_summa", 4, overlap_tensor_communication=False)["hidden_tensor_communication_time"] == 0
    beside = on_grid("2d_summa", 4)
    assert (
        0
        < beside["hidden_tensor_communication_time"]
        < beside["compute_forward_time"] + 2 * beside["compute_backward_time"]
    )


def test_scores_in_panels_move_more_than_gathered_keys():
    """Scores are wider than keys and values as soon as the context is longer than a head: why nobody does it."""
    unfused = GPT | {"flash_attention": False, "tensor_parallel_strategy": "2d_summa", "tensor_parallel_columns": 4}
    gathered, panels = (amped.estimate("default", **unfused, grid_attention=a) for a in ("keys_gathered", "summa"))
    assert panels["exposed_tensor_communication_time"] > gathered["exposed_tensor_communication_time"]
