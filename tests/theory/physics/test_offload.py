"""What any model of offload must do: a better host is never slower, nothing is lost on the way, what leaves makes room."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import amped
from amped.estimation.parts import STEP_PARTS
from tests.helpers.layers import copies
from tests.helpers.physics import few, mappings, trained

HOST = ("host_link_bandwidth", "host_memory_bandwidth")
SHARES = ("host_link_efficiency", "host_optimizer_efficiency")
BETTER = ("bf16_peak_flop_rate", "memory_bandwidth", "inter_accelerator_bandwidth", "bandwidth_per_network_card")
KINDS = ("optimizer_offload", "activation_offload", "weight_offload")
STATES = ("weight_bytes", "gradient_bytes", "optimizer_state_bytes")
share = st.sampled_from([0, 0.25, 1])
offloads = st.fixed_dictionaries({
    **dict.fromkeys(KINDS, share), "overlap_offload_communication": st.booleans(),
    "host_link_bandwidth": st.sampled_from([2e9, 31.5e9, 450e9]),
})  # fmt: skip
NOTHING = dict.fromkeys(KINDS, 0)
ALL = dict.fromkeys(KINDS, 1) | {"overlap_offload_communication": True, "host_link_bandwidth": 31.5e9}


def run(mapping: dict[str, object], offload: dict[str, object], **more: object) -> amped.Estimate:
    """The operator model; weights leave only where those who hold them update them."""
    stage = {0: 0, 1: 0, 2: 3, 3: 3} if offload.get("weight_offload") else {}
    zero = mapping["zero_stage"]
    own = {"performance_model": "operators", "zero_stage": stage.get(zero, zero)}  # type: ignore[call-overload]
    return trained(**mapping | own | offload | more)


@pytest.mark.thorough
@few
@given(mappings, offloads, st.sampled_from((*HOST, *BETTER)), st.sampled_from([2, 16]))
def test_a_faster_part_is_never_slower(
    mapping: dict[str, object], offload: dict[str, object], name: str, times: int
) -> None:
    base = run(mapping, offload | {"host_memory_bandwidth": 409.6e9})
    value = base[name]
    faster = run(mapping, offload | {"host_memory_bandwidth": 409.6e9} | {name: value * times})
    assert faster["step_time"] <= base["step_time"] * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings, offloads, st.sampled_from(SHARES), st.floats(0.05, 1), st.floats(0.05, 1))
def test_a_better_used_host_is_never_slower(
    mapping: dict[str, object], offload: dict[str, object], name: str, one: float, other: float
) -> None:
    worse, better = (run(mapping, offload, **{name: value})["step_time"] for value in sorted((one, other)))
    assert better <= worse * (1 + 1e-12)


@few
@given(mappings, offloads)
@example({"zero_stage": 0}, ALL)
def test_parts_sum_to_the_step_and_none_is_negative(mapping: dict[str, object], offload: dict[str, object]) -> None:
    e = run(mapping, offload)
    assert {name: e[name] for name in STEP_PARTS if e[name] < 0} == {}
    assert e["hidden_offload_communication_time"] >= 0
    assert e["step_time"] == pytest.approx(sum(e[name] for name in STEP_PARTS), rel=1e-12)


@pytest.mark.thorough
@few
@given(mappings, offloads)
@example({"zero_stage": 0}, ALL)
def test_overlap_never_costs_time(mapping: dict[str, object], offload: dict[str, object]) -> None:
    beside, behind = (run(mapping, offload | {"overlap_offload_communication": on}) for on in (True, False))
    assert beside["step_time"] <= behind["step_time"] * (1 + 1e-12)
    moved = behind["exposed_offload_communication_time"]
    assert beside["hidden_offload_communication_time"] <= moved * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings, offloads)
@example({"zero_stage": 0}, ALL)
def test_the_accelerator_never_needs_more_but_for_buffers(
    mapping: dict[str, object], offload: dict[str, object]
) -> None:
    e, without = run(mapping, offload), run(mapping, offload, **NOTHING)
    buffers = e["activation_staging_bytes"] + e["weight_buffer_bytes"] - e["gathered_weight_bytes"]
    assert e["memory_per_accelerator_bytes"] <= (without["memory_per_accelerator_bytes"] + buffers) * (1 + 1e-12)


@pytest.mark.thorough
@few
@given(mappings, offloads)
@example({"zero_stage": 0}, ALL)
def test_what_leaves_the_accelerator_is_on_its_host(mapping: dict[str, object], offload: dict[str, object]) -> None:
    """Byte for byte on a stage that is alone; the states of several may have another of them as the fullest."""
    alone = {"pipeline_parallel_degree": 1}
    e, without = run(mapping, offload, **alone), run(mapping, offload, **alone, **NOTHING)
    states = sum(e[name] for name in STATES) + e["host_state_bytes"]
    assert states == pytest.approx(sum(without[name] for name in STATES), rel=1e-12)
    activations = e["activation_bytes"] + e["host_activation_bytes"]
    assert activations == pytest.approx(without["activation_bytes"], rel=1e-12)


@pytest.mark.thorough
@few
@given(mappings, st.sampled_from(KINDS))
@example({"zero_stage": 0, "tensor_parallel_degree": 8, "pipeline_parallel_degree": 2, "context_parallel_degree": 2,
          "sequence_parallel": True, "activation_recomputation": "full", "flash_attention": True}, "activation_offload")  # fmt: skip
def test_the_more_leaves_the_less_stays(mapping: dict[str, object], kind: str) -> None:
    """On each stage, as another one may be the fullest then.

    Time grows with the activations and weights that travel; not with the optimizer, whose two halves run at once.
    """
    told = [run(mapping, {kind: part}) for part in (0.1, 0.4, 1)]
    part = "stage_activations" if kind == "activation_offload" else "stage_states"
    held = [[float(stage.bytes) for stage in e.results.records(part)] for e in told]
    assert all(after <= before * (1 + 1e-12) for pair in pairwise(held) for before, after in zip(*pair, strict=True))
    assert [e["host_memory_bytes"] for e in told] == sorted(e["host_memory_bytes"] for e in told)
    if kind != "optimizer_offload":
        times = [e["step_time"] for e in told]
        assert all(one <= other * (1 + 1e-12) for one, other in pairwise(times))


@pytest.mark.thorough
@few
@given(mappings, offloads)
def test_the_largest_micro_batch_fits_and_a_larger_one_does_not(
    mapping: dict[str, object], offload: dict[str, object]
) -> None:
    alone = {"pipeline_parallel_degree": 1, "memory_capacity": 60e9, "batch_size": 5040, "host_memory_capacity": 1e15}
    shape = mapping | {"data_parallel_degree": 1, "microbatch_size": 1}
    largest = int(run(shape, offload, **alone)["largest_microbatch_size"])
    for size in (largest, largest + 1):
        if 0 < size <= 5040 and 5040 % size == 0:
            assert run(shape | {"microbatch_size": size}, offload, **alone)["fits_in_memory"] == (size == largest)


def test_a_layer_that_waits_for_its_host_delays_the_other_stages_too() -> None:
    """The bubble is the others' work on a micro-batch: with what they wait for."""
    free, waits = trained(), trained(activation_offload=1, host_link_bandwidth=1e9)
    each = copies(waits).exposed
    layers = waits["layers"] - waits.results.records("bottleneck_stage")[0].kinds[0]
    assert waits["pipeline_bubble_time"] - free["pipeline_bubble_time"] == pytest.approx(each * layers, rel=1e-9)
