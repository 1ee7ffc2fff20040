"""What offload leaves exposed, against a simulation that moves layer after layer, event by event."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amped
from amped.theory.language.quantity import ACCELERATOR, SYSTEM
from tests.helpers.formulas import sectioned
from tests.helpers.layers import WITHOUT_INTERFERENCE, computed, copies, whole_passes, with_waits
from tests.helpers.simulated.offload import Work, one_step, seconds, update_seconds

LAYERS, MICROBATCHES = 24, 4
NETWORK_AND_MAPPING = {
    "layers": LAYERS, "dimensionality": 4096, "attention_heads": 32, "vocabulary_size": 51200, "context": 2048,
    "tokens_to_train": "1 G", "batch_size": MICROBATCHES, "microbatch_size": 1, "number_of_accelerators": 1,
    "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
}  # fmt: skip
ROWS = {SYSTEM: "DGX A100", ACCELERATOR: "A100 SXM 80GB"}
shares = st.sampled_from([0, 0.1, 0.5, 1])


def offloaded(**given: object) -> amped.Estimate:
    return amped.estimate(sectioned(NETWORK_AND_MAPPING, ROWS), formulas=WITHOUT_INTERFERENCE, **given)


def copied(e: amped.Estimate, up: float, down: float, added: float = 0.0) -> tuple[float, float]:
    """Seconds that each wire is busy; where the host's memory is what limits, both are as long as it."""
    memory = (up + down + added) / e["host_memory_bandwidth_per_accelerator"]
    times = [size / e["host_link_bandwidth_per_accelerator"] for size in (up, down)]
    if memory <= max(times):
        return times[0], times[1]
    return (memory if up else 0.0), (memory if down or not up else 0.0)


def simulated(e: amped.Estimate) -> tuple[float, float]:
    """Seconds of all layers of a step, and of one layer's copies, which may wait where a micro-batch turns round."""
    w, a, g = (e[f"offloaded_{kind}_bytes_per_layer"] for kind in ("weight", "activation", "gradient"))
    coming, going = copied(e, w, a)
    layer = computed(e)
    forward = Work(0, coming, layer.forward, going)
    coming, going = copied(e, w + a, g, 3 * g)
    computing = layer.input_gradient + layer.weight_gradient + layer.recomputation
    backward = Work(0, coming, computing, going)
    step = seconds(one_step(LAYERS, MICROBATCHES, forward, backward))
    turn = forward.coming + forward.going + backward.coming + backward.going
    return step, turn


def of_the_closed_form(e: amped.Estimate) -> float:
    """Layers' computation and copies: what the step has beside both ends and the optimizer."""
    computing = computed(e).forward + computed(e).backward
    around_the_update = e["update_offload_time"] - e["overlapped_update_offload_time"]
    return LAYERS * MICROBATCHES * computing + e["exposed_offload_communication_time"] - around_the_update


@pytest.mark.thorough
@settings(max_examples=60, deadline=None, derandomize=True)
@given(shares, shares, shares, st.sampled_from([2e9, 8e9, 31.5e9, 450e9]), st.sampled_from([20e9, 409.6e9]),
       st.sampled_from(["none", "selective", "full"]))  # fmt: skip
def test_layer_by_layer_takes_as_long(
    optimizer: float, activation: float, weight: float, link: float, memory: float, recomputation: str
) -> None:
    """As long as the closed form but for the turn from forward to backward, which costs at most a layer's copies.

    The closed form leaves it out: the output head, which the simulation has not, is there to hide it.
    """
    e = offloaded(
        optimizer_offload=optimizer, activation_offload=activation, weight_offload=weight, host_link_bandwidth=link,
        host_memory_bandwidth=memory, activation_recomputation=recomputation,
    )  # fmt: skip
    step, turn = simulated(e)
    assert of_the_closed_form(e) == pytest.approx(step, rel=1e-9, abs=MICROBATCHES * turn * (1 + 1e-9))


@pytest.mark.parametrize("schedule", ["zero_bubble_h1", "zero_bubble_v"])
@pytest.mark.parametrize("link", [2e9, 8e9, 31.5e9, 450e9])
@pytest.mark.parametrize("activation", [0, 0.5, 1])
def test_delayed_weight_gradients_hide_no_copies_but_those_of_two_buffers(
    schedule: str, link: float, activation: float
) -> None:
    """A stage's backward pass: input gradients layer after layer with their copies, then all weight gradients.

    The simulation begins the copies of the first two layers meanwhile, as its two buffers allow.
    """
    e = offloaded(
        weight_offload=0.5, activation_offload=activation, host_link_bandwidth=link, pipeline_schedule=schedule,
        pipeline_parallel_degree=2, number_of_accelerators=2, batch_size=8,
    )  # fmt: skip
    copy, weight, back = copies(e).backward, computed(e).weight_gradient, whole_passes(e).backward.resident
    inputs = Work(0, copy, back - weight, 0.0)
    step = seconds(([inputs] * LAYERS + [Work(0, 0.0, weight, 0.0)] * LAYERS) * MICROBATCHES)
    wait = copy - copies(e).overlapped_backward
    told = LAYERS * MICROBATCHES * (back + wait)
    assert told == pytest.approx(step, rel=1e-9, abs=2 * MICROBATCHES * copy * (1 + 1e-9))
    assert with_waits(e).weight_gradient <= weight


@pytest.mark.parametrize("link", [2e9, 8e9, 31.5e9])
def test_gradients_going_down_are_exact(link: float) -> None:
    """Nothing comes up and the forward pass sends nothing: only the last layer's gradients can wait."""
    e = offloaded(optimizer_offload=1, host_link_bandwidth=link, host_memory_bandwidth=1e13, batch_size=1)
    g = e["offloaded_gradient_bytes_per_layer"] / e["host_link_bandwidth_per_accelerator"]
    work = [Work(0, 0.0, computed(e).backward, g)] * LAYERS
    forward = LAYERS * computed(e).forward
    alone = LAYERS * (computed(e).forward + computed(e).backward)
    exposed = e["exposed_offload_communication_time"] - e["update_offload_time"] + e["overlapped_update_offload_time"]
    assert alone + exposed == pytest.approx(forward + seconds(work), rel=1e-12)


@pytest.mark.parametrize("coming", [0.25, 1.0, 4.0])
def test_the_simulation_itself_by_hand(coming: float) -> None:
    """Ten works of 1 s, each needing 0.25, 1 or 4 s of copying first: the first copy waits, then the longer paces."""
    assert seconds([Work(0, coming, 1.0, 0.0)] * 10) == pytest.approx(coming + 9 * max(coming, 1.0) + 1.0)


@pytest.mark.parametrize(("up", "down"), [(0.5, 0.0), (3.0, 0.0), (0.5, 4.0), (0.1, 0.2)])
def test_chunks_of_the_update_flow_into_one_another(up: float, down: float) -> None:
    """With many chunks the longest of gradient, update and weight paces: what the closed form says."""
    assert update_seconds(1.0, up, down, 10_000) == pytest.approx(max(1.0, up, down), rel=1e-3)
