"""The operator model against the tool of arXiv 2410.00273 (TPE): flops, bytes, messages, memory, times.

Both are set up alike (`tests/helpers/tpe.py`); where amped differs on purpose, the test says why.
"""

from dataclasses import replace

import pytest

from tests.helpers.layers import whole_bytes
from tests.helpers.tpe import (
    CLOSE,
    CONFIGURATIONS,
    FUSED,
    KINDS,
    LINEAR,
    MIRRORED,
    PRODUCTS,
    SENT_BACKWARD,
    SENT_FORWARD,
    by_operator,
    estimate,
    inputs,
    message,
    messages,
    operators,
    pseudo_flops,
    records,
    rooflines,
    sent,
    summed,
    time_of,
    totals,
)

EXACT = 1e-9
# Five fused kernels stand for nine of the tool's, but a gradient is two products with a launch each.
STEP_TOLERANCE = 0.05
PIPELINE_IN_THE_FAST_DOMAIN = "tpe-05-1d-gpt3_1T-B200-NVS8-2048gpus"

every_configuration = pytest.mark.parametrize("configuration", CONFIGURATIONS)


# --- flops and weights -----------------------------------------------------------------------------------------------


@every_configuration
def test_products_have_the_shapes_and_flops_of_the_tool(configuration):
    tool = by_operator(configuration, PRODUCTS, lambda row, a_pass: row[f"flops_{a_pass}"])
    assert len(tool) == (8 if inputs(configuration)["flash_attention"] else 12)
    # A sum of k products has k − 1 additions; amped counts k, as everybody does.
    shapes = summed(configuration, PRODUCTS, "layer_operators", lambda o: o.m * o.n * (2 * o.k - 1) * o.batch)
    assert shapes == pytest.approx(tool, rel=EXACT)
    assert summed(configuration, PRODUCTS, "layer_operators", lambda o: o.flops) == pytest.approx(tool, rel=CLOSE)


@every_configuration
def test_fused_attention_has_the_flops_of_the_tool(configuration):
    tool = by_operator(configuration, FUSED, lambda row, a: row[f"flops_{a}"] - pseudo_flops(configuration, a))
    assert len(tool) == (2 if inputs(configuration)["flash_attention"] else 0)
    assert summed(configuration, FUSED, "layer_operators", lambda o: o.flops) == pytest.approx(tool, rel=CLOSE)


@every_configuration
def test_weights_are_those_of_the_tool(configuration):
    rows, e = operators(configuration), estimate(configuration)
    entry, shares = e["weight_precision"], e["tensor_parallel_degree"]
    forward = [o for o in records(configuration, "layer_operators") if o.phase == "forward"]
    weights = {o.name: o.k * o.n * entry for o in forward if o.kind == "contraction"}
    assert weights == {name: pytest.approx(rows[tool]["weights_bytes"], rel=EXACT) for tool, name in LINEAR.items()}
    held = {name: row["weights_bytes"] for name, row in rows.items()}
    norms = held["ln1"] + held["ln2"]
    assert e["norm_parameters"] * entry == pytest.approx(norms, rel=EXACT)
    # The tool holds norms and the biases behind a sum whole on each accelerator, amped counts its share of them.
    whole, layer = (
        norms + held["fc2-bias"] + held["vproj-bias"],
        e["non_expert_layer_parameters"] / e["layers"] / shares * entry,
    )
    assert layer == pytest.approx(sum(held.values()) - whole * (1 - 1 / shares), rel=EXACT)
    assert layer == pytest.approx(sum(held.values()), rel=CLOSE)


# --- messages --------------------------------------------------------------------------------------------------------


@every_configuration
def test_tensor_messages_are_those_of_the_tool(configuration):
    ours = {c.name: c for c in records(configuration, "tensor_collectives")}
    assert set(ours) == set(SENT_FORWARD.values())
    forward, backward = sent(configuration, "fwd"), sent(configuration, "bwd")
    if inputs(configuration)["parallel"]["tp"] == 1:  # a group of one sends nothing
        assert forward == backward == {}
        assert all(c.intra * c.inter == 1 for c in ours.values())
        return
    assert {n: [KINDS[kind], *rest] for n, (kind, *rest) in forward.items()} == {
        n: message(ours[name]) for n, name in SENT_FORWARD.items()
    }
    # What was gathered is scattered backward and the other way round. Behind a norm the tool says reduce-scatter where
    # the gradient of a scatter is a gather; both take as long, so its times do not show it.
    labels = {n: "all_gather" if n.startswith("ln") else KINDS[kind] for n, (kind, *_) in backward.items()}
    assert {n: [labels[n], *rest] for n, (_, *rest) in backward.items()} == {
        n: message(ours[name], MIRRORED[ours[name].kind]) for n, name in SENT_BACKWARD.items()
    }


@every_configuration
def test_tensor_messages_take_as_long_as_in_the_tool(configuration):
    rows, e = operators(configuration), estimate(configuration)
    times = {d.name: d.time for d in records(configuration, "tensor_durations")}
    for a_pass, names in (("fwd", SENT_FORWARD), ("bwd", SENT_BACKWARD)):
        tool = {name: rows[n][f"t_{a_pass}_comm_s"] for n, name in names.items()}
        assert times == pytest.approx(tool, rel=CLOSE)
    assert e["hidden_tensor_communication_time"] == 0
    assert e["exposed_tensor_communication_time"] == pytest.approx(totals(configuration)["t_tp_comm_s"], rel=CLOSE)


@every_configuration
def test_data_and_pipeline_messages_are_those_of_the_tool(configuration):
    rows, tool = operators(configuration), inputs(configuration)
    states = {"weights": rows["dp_comms"]["comm_fwd"], "gradients": rows["dp_comms"]["comm_bwd"]}
    ours = {c.name: c for c in records(configuration, "sharding_collectives")}
    copies = ours.pop("gradient_copies")  # of hybrid sharding, which this is not
    assert (copies.intra, copies.inter) == (1, 1)
    # The tool sends layer by layer, amped all of a stage's layers in buckets.
    layers = tool["model"]["depth"] / tool["parallel"]["pp"]
    assert {name: message(replace(c, volume=c.volume * c.count)) for name, c in ours.items()} == {
        name: [KINDS[kind], layers * size, *group] for name, (kind, size, *group) in states.items()
    }
    (boundary,) = records(configuration, "pipeline_collectives")
    kind, size, _, inside = rows["pp_comms"]["comm_fwd"]
    assert (boundary.kind, boundary.intra) == (KINDS[kind], inside)
    assert boundary.intra * boundary.inter == tool["parallel"]["pp"]
    assert boundary.volume == pytest.approx(size, rel=CLOSE)


# --- times -----------------------------------------------------------------------------------------------------------


@every_configuration
def test_products_take_as_long_as_in_the_tool(configuration):
    overhead = estimate(configuration)["kernel_overhead_time"]
    ours = summed(configuration, PRODUCTS, "layer_durations", lambda d: d.time - overhead * d.kernels)
    assert ours == pytest.approx(rooflines(configuration, PRODUCTS), rel=CLOSE)


@every_configuration
def test_fused_attention_takes_as_long_as_in_the_tool(configuration):
    """But for its softmax: amped's has 4 operations a score in each pass, at the peak of the vector units.

    The tool's has 4 forward and 9 backward, with the forward ones again, at 0.8 of that peak.
    """
    e = estimate(configuration)
    tool = rooflines(configuration, FUSED, without=pseudo_flops)
    scores = {o.name: o.m * o.n for o in records(configuration, "fused_attention_operators")}
    waited = e["kernel_overhead_time"] + scores.get("fused_attention", 0) * e["exposed_softmax_time"]
    ours = summed(configuration, FUSED, "layer_durations", lambda d: d.time - waited)
    assert ours == pytest.approx(tool, rel=CLOSE)
    assert e["exposed_softmax_time"] * e["vector_flop_rate"] == pytest.approx(4, rel=EXACT)


@every_configuration
def test_step_takes_as_long_as_in_the_tool(configuration):
    e, tool = estimate(configuration), totals(configuration)
    assert e["number_of_microbatches_per_minibatch"] == tool["number_micro_batches"]
    assert e["step_time"] == pytest.approx(tool["t_s"], rel=STEP_TOLERANCE)
    assert e["optimizer_time"] == e["recomputation_time"] == 0
    # amped hides weights and gradients behind computation alone, the tool behind what a layer waits for too.
    assert e["exposed_data_communication_time"] == pytest.approx(tool["t_dp_comm_s"], abs=CLOSE * tool["t_s"])
    assert e["pipeline_bubble_time"] == pytest.approx(tool["t_bubble_s"], rel=STEP_TOLERANCE)
    if configuration != PIPELINE_IN_THE_FAST_DOMAIN:
        assert e["exposed_pipeline_communication_time"] == pytest.approx(tool["t_pp_comm_s"], rel=CLOSE)


def test_no_stage_boundary_is_free():
    """The tool has 31 boundaries, 15 of them slow, which it prices as a group of one: no time. It then averages.

    amped lets the slow ones, over which some stage always waits, set the pace.
    """
    e, tool = estimate(PIPELINE_IN_THE_FAST_DOMAIN), inputs(PIPELINE_IN_THE_FAST_DOMAIN)
    kind, size, ranks, inside = operators(PIPELINE_IN_THE_FAST_DOMAIN)["pp_comms"]["comm_fwd"]
    hop = {"system": tool["system"], "type": kind, "bytes": size, "gpus": ranks, "gpus_in_fast_domain": inside}
    sends = 2 * e["number_of_microbatches_per_minibatch"]
    averaged = totals(PIPELINE_IN_THE_FAST_DOMAIN)["t_pp_comm_s"]
    assert averaged == pytest.approx(16 / 31 * sends * time_of(hop), rel=EXACT)
    slow = time_of(hop | {"gpus_in_fast_domain": 1})
    assert e["exposed_pipeline_communication_time"] == pytest.approx(sends * slow, rel=EXACT)


# --- memory ----------------------------------------------------------------------------------------------------------


@every_configuration
def test_states_take_the_memory_of_the_tool(configuration):
    e, tool = estimate(configuration, optimizer="adam"), totals(configuration)
    assert e["weight_bytes"] == pytest.approx(tool["wts_mem_bytes"], rel=CLOSE)
    assert e["gradient_bytes"] == pytest.approx(tool["wts_grad_mem_bytes"], rel=CLOSE)
    assert e["optimizer_state_bytes"] == pytest.approx(tool["wts_optimizer_states_mem_bytes"], rel=CLOSE)


@every_configuration
def test_activations_take_the_memory_of_the_tool(configuration):
    """But for what amped does not keep.

    Inputs of products that were gathered, which are gathered again; the mask of a dropout behind the activation
    function, which Megatron-LM does not have; the output of a fused attention a second time, as the projection's input.
    """
    rows, e = operators(configuration), estimate(configuration)
    kept = {name: row["activation_buffer_bytes"] for name, row in rows.items()}
    regathered = (kept["fc1"] + kept["qkv"]) * (1 - 1 / e["tensor_parallel_degree"])
    twice = kept["vproj"] if inputs(configuration)["flash_attention"] else 0
    layer = sum(kept.values()) - regathered - kept["dpr1"] - twice
    # The tool rounds shares of a sequence down to whole tokens.
    close = CLOSE if e["context"] % e["tensor_parallel_degree"] else EXACT
    assert whole_bytes(e) == pytest.approx(layer, rel=close)
    in_flight = totals(configuration)["acts_mem_bytes"] / sum(kept.values())  # layers of micro-batches
    assert e["activation_bytes"] == pytest.approx(layer * in_flight, rel=close)


# --- collectives -----------------------------------------------------------------------------------------------------


def test_messages_take_as_long_as_in_the_tool():
    plain = [m for m in messages() if m["type"] != "allreduce"]
    assert len(plain) == 480
    assert [time_of(m) for m in plain] == pytest.approx([m["t_s"] for m in plain], rel=EXACT)


def all_reduces(where):
    return [m for m in messages() if m["type"] == "allreduce" and where(m["gpus"], m["gpus_in_fast_domain"])]


# The tool's all-reduce takes as long as one gather in a group without a second tier, where it sends twice as much. In
# two tiers it has twice the bytes but the latencies of one round. amped goes round twice, latencies too.
TIERS = {
    "one accelerator a domain": (36, lambda _, inside: inside == 1),
    "one domain": (24, lambda n, inside: 1 < n <= inside),
    "several domains": (54, lambda n, inside: 1 < inside < n),
}


@pytest.mark.parametrize("tiers", TIERS)
def test_all_reduces_are_two_rounds_where_the_tool_saves_some(tiers):
    count, where = TIERS[tiers]
    reduced = all_reduces(where)
    assert len(reduced) == count
    same = ("system", "gpus", "gpus_in_fast_domain", "bytes")
    gathers = {tuple(m[k] for k in same): m["t_s"] for m in messages() if m["type"] == "allgather"}
    once = [gathers[tuple(m[k] for k in same)] for m in reduced]
    ours, tool = [time_of(m) for m in reduced], [m["t_s"] for m in reduced]
    assert ours == pytest.approx([2 * t for t in once], rel=EXACT)
    if tiers == "several domains":
        latency = [time_of(m | {"bytes": 1e-9}, "all_gather") for m in reduced]
        assert tool == pytest.approx([t - wait for t, wait in zip(ours, latency, strict=True)], rel=EXACT)
    else:
        assert tool == pytest.approx(once, rel=EXACT)
