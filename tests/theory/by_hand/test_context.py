"""Context parallelism and windows: who sees whose keys, what travels for it, and what of that attention hides."""

from math import fsum

import pytest

import amped
from tests.helpers.layers import exposure, kernels, repeats

# Llama 3 70B in long sequences: heads in the node, the sequence over two or more nodes.
LONG = {"context": 131072, "batch_size": 64, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 1,
        "virtual_pipeline_stages": 1, "microbatch_size": 1, "context_parallel_degree": 4, "dropout": 0,
        "activation_recomputation": "none"}  # fmt: skip
KINDS = ("ring", "all_gather", "all_to_all")


def shared(kind, **overrides):
    return amped.estimate("llama-3-70b", **LONG | {"context_parallel_kind": kind} | overrides)


def sent(e, name):
    return next(c for c in e.results.records("context_collectives") if c.name == name)


# --- what travels -----------------------------------------------------------------------------------------------------


def test_a_ring_brings_to_each_share_what_a_gather_brings():
    ring, gather = (sent(shared(kind), "keys_and_values") for kind in ("ring", "all_gather"))
    # (c − 1) blocks of each neighbor, or (c − 1)/c of the whole; forward and backward.
    assert ring.volume * ring.count == pytest.approx(gather.volume * 3 / 4 * gather.count, rel=1e-12)
    e = shared("ring")
    keys = e["microbatch_tokens"] * 2 * 8 * 128 * 2 / 8  # 8 heads of keys and of values over 8 shares of tensors, 2 B
    assert ring.volume == pytest.approx(keys, rel=1e-12)


def test_gradients_go_all_the_way_home():
    ring = shared("ring")
    assert sent(ring, "key_and_value_gradients").count == 4
    assert sent(ring, "keys_and_values").count == 3 * 2
    again = shared("ring", activation_recomputation="full")
    assert sent(again, "keys_and_values").count == 3 * 3


def test_heads_exchanged_for_tokens_move_less_the_more_shares_there_are():
    """Of all-to-alls a share's bytes fall with the degree, of gathered keys they do not (arXiv 2309.14509, section 3)."""

    def bytes_of(kind, degree):
        e = shared(kind, context_parallel_degree=degree, tensor_parallel_degree=4)
        return fsum(c.count * c.volume * (degree - 1) / degree for c in e.results.records("context_collectives"))

    assert bytes_of("all_to_all", 8) < 0.7 * bytes_of("all_to_all", 4)
    assert bytes_of("all_gather", 8) > bytes_of("all_gather", 4)


@pytest.mark.parametrize("kind", KINDS)
def test_all_exchanges_compute_the_same(kind):
    e, other = shared(kind), shared("all_gather")
    assert e["model_flops_per_accelerator"] == other["model_flops_per_accelerator"]
    assert e["compute_forward_time"] == pytest.approx(other["compute_forward_time"], rel=1e-9)
    assert e["weight_bytes"] == other["weight_bytes"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_share_exchanges_nothing(kind):
    e = shared(kind, context_parallel_degree=1, batch_size=128)
    assert e["exposed_context_communication_time"] == e["hidden_context_communication_time"] == 0
    assert e["context_buffer_bytes"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_context_tensor_and_pipeline_parallelism_go_together(kind):
    e = shared(kind, pipeline_parallel_degree=2, microbatch_size=1)
    for part in ("tensor", "pipeline"):
        assert e[f"exposed_{part}_communication_time"] > 0
    assert e["pipeline_bubble_time"] > 0
    assert fsum(e.breakdown.values()) == pytest.approx(e["step_time"], rel=1e-12)


# --- beside attention -------------------------------------------------------------------------------------------------


def ring_pass(blocks, attention, send, tail=0.0):
    """Seconds of one pass, step by step: a block is attended to while the next arrives; then what is still on its way."""
    now = 0.0
    for step in range(blocks):
        traveling = send if step < blocks - 1 else 0.0
        now += max(attention / blocks, traveling)
    return now + tail


@pytest.mark.parametrize("overrides", [
    {}, {"context": 8192, "batch_size": 512}, {"bandwidth_per_network_card": "5 GB/s"}, {"context_parallel_degree": 16},
    {"context_parallel_degree": 2}, {"activation_recomputation": "full"}, {"flash_attention": False, "context": 16384},
])  # fmt: skip
def test_a_ring_waits_as_long_as_step_by_step(overrides):
    e = shared("ring", overlap_slowdown_fraction=0, sequence_parallel=False, **overrides)
    times = {d.name: d.time for d in e.results.records("context_durations")}
    send, home, c = times["keys_and_values"], times["key_and_value_gradients"], int(e["context_parallel_degree"])
    forward, backward = repeats(e).attention_core, kernels(e).gradient.attention_core
    ahead = ring_pass(c, forward, send) - forward
    back = ring_pass(c, backward, send + home, tail=home) - backward
    passes = 2 if e.choices["activation_recomputation"] == "full" else 1
    assert exposure(e, "context").exposed == pytest.approx(passes * ahead + back, rel=1e-9)


def test_a_ring_hides_what_a_gather_and_an_exchange_of_heads_do_not():
    ring, gather, heads = (shared(kind) for kind in KINDS)
    assert ring["hidden_context_communication_time"] > 0
    assert gather["hidden_context_communication_time"] == heads["hidden_context_communication_time"] == 0
    asked = shared("all_to_all", overlap_context_communication=True)
    assert asked["hidden_context_communication_time"] == 0  # attention needs all of it first


# --- two levels -------------------------------------------------------------------------------------------------------


def two_levels(heads, **overrides):
    return shared(
        "hierarchical", context_parallel_degree=8, tensor_parallel_degree=4, ulysses_degree=heads, **overrides
    )


def test_one_neighbor_is_a_ring():
    ring = shared("ring", context_parallel_degree=8, tensor_parallel_degree=4)
    for name in ("step_time", "hidden_context_communication_time", "exposed_context_communication_time"):
        assert two_levels(1)[name] == pytest.approx(ring[name], rel=1e-12)


def test_a_ring_of_one_is_an_exchange_of_heads():
    heads = shared("all_to_all", context_parallel_degree=8, tensor_parallel_degree=4)
    for name in ("step_time", "exposed_context_communication_time", "computed_score_fraction"):
        assert two_levels(8)[name] == pytest.approx(heads[name], rel=1e-12)


def test_two_neighbors_halve_the_ring():
    """Two neighbors on one node of eight with tensor degree 4, and rings of four nodes; a neighbor has half of the heads."""
    e = two_levels(2)
    neighbors, ring = (sent(e, name).group for name in ("heads", "keys_and_values"))
    assert [float(part) for part in (neighbors.intra, neighbors.inter, ring.intra, ring.inter)] == [2, 1, 1, 4]
    assert sent(e, "keys_and_values").count == 3 * 2  # three steps, forward and backward
    assert sent(e, "key_and_value_gradients").count == 4
    keys = e["microbatch_tokens"] * 2 * 8 * 128 * 2 / 4  # as large as before the exchange of heads
    assert sent(e, "keys_and_values").volume == pytest.approx(keys, rel=1e-12)
    scores, _ = e.results.records("attention_gemms")
    assert (float(scores.m), float(scores.batch)) == (131072 / 4, 64 / 4 / 2)


def test_only_the_ring_runs_beside_attention():
    e, apart = two_levels(2, overlap_slowdown_fraction=0), two_levels(2, overlap_context_communication=False)
    times = {d.name: d.time * d.count for d in e.results.records("context_durations")}
    rings = [name for name in times if name not in ("heads", "attended_heads")]
    assert exposure(apart, "context").exposed == pytest.approx(fsum(times.values()), rel=1e-9)
    assert exposure(e, "context").exposed >= times["heads"] + times["attended_heads"]
    assert exposure(e, "context").overlapped <= fsum(times[name] for name in rings)


@pytest.mark.parametrize(
    ("heads", "rule"), [(3, "levels_make_the_context_group"), (32, "divide_by_the_context_degree")]
)
def test_levels_that_do_not_make_the_group_are_refused(heads, rule):
    with pytest.raises(amped.AmpedError, match=rule):
        two_levels(heads)


# --- who computes which scores ----------------------------------------------------------------------------------------


def busiest(context, shares, window):
    """Scores of the last of equal shares, counted one by one, of all that its rows could have."""
    rows = range(context - context // shares, context)
    return sum(min(row + 1, window) for row in rows) / (len(rows) * context)


@pytest.mark.parametrize("window", [0, 1, 16, 100, 512, 4096])
@pytest.mark.parametrize("shares", [1, 2, 8])
def test_scores_are_those_that_are_counted_one_by_one(window, shares):
    toy = {"context": 512, "microbatch_size": 1, "tensor_parallel_degree": 1, "context_parallel_degree": shares,
           "batch_size": 1536, "pipeline_parallel_degree": 8, "attention_window": window, "flash_attention": True,
           "position_table": 512}  # fmt: skip
    balanced = amped.estimate("default", **toy)
    alone = amped.estimate("default", **toy, balanced_context_work=False)
    reach = min(window, 512) or 512
    assert alone["computed_score_fraction"] == pytest.approx(busiest(512, shares, reach), rel=1e-12)
    assert balanced["computed_score_fraction"] == pytest.approx(busiest(512, 1, reach), rel=1e-12)


def test_balanced_shares_have_as_many_scores():
    """An early and a late block together: every share has the average (arXiv 2311.09431)."""
    context, shares = 64, 4
    width = context // (2 * shares)
    blocks = [[sum(range(b * width + 1, (b + 1) * width + 1)) for b in (i, 2 * shares - 1 - i)] for i in range(shares)]
    assert len({sum(pair) for pair in blocks}) == 1
    assert sum(blocks[0]) / (2 * width * context) == pytest.approx(busiest(context, 1, context))


def test_unbalanced_shares_wait_for_the_last():
    fair, unfair = shared("ring"), shared("ring", balanced_context_work=False)
    assert unfair["compute_forward_time"] > fair["compute_forward_time"]
    assert unfair["model_flops_per_accelerator"] == fair["model_flops_per_accelerator"]


def test_layers_mixed_with_windows_take_their_share():
    """Gemma 3: five layers with a window to one without (arXiv 2503.19786)."""
    gemma = {"model": "Gemma 3 27B", "batch_size": 128, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 1,
             "virtual_pipeline_stages": 1, "flash_attention": True, "context": 32768, "microbatch_size": 1,
             "attention_flop_convention": "causal"}  # fmt: skip
    mixed = amped.estimate("llama-3-70b", **gemma)
    whole = amped.estimate("llama-3-70b", **gemma, number_of_windowed_layers=0)
    near = amped.estimate("llama-3-70b", **gemma, number_of_windowed_layers=62)
    assert mixed["number_of_windowed_layers"] == 52
    share = 52 / 62
    for name in ("computed_score_fraction", "model_flops_per_accelerator"):
        assert mixed[name] == pytest.approx(whole[name] + share * (near[name] - whole[name]), rel=1e-12)
    assert near["step_time"] < mixed["step_time"] < whole["step_time"]
