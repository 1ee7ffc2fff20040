"""Laws of the loop that hands the kernels of a pass to the messages beside them, for any messages and kernels."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amped.theory.layer.waits import beside_kernels, pass_waits
from amped.theory.nouns.layer_records import MessagePart, Messages, PassKernels

WINDOWS = ("every", "products", "attention_core", "weight_gradients")
IN_PASS = WINDOWS[:-1]
ROUNDING = 1e-9
many = settings(max_examples=50, deadline=None, derandomize=True)
share, seconds = st.sampled_from([0.0, 0.25, 0.9, 1.0]), st.floats(0, 10)
parts = st.builds(MessagePart, st.just("part"), seconds, st.sampled_from(WINDOWS), share, share, st.booleans())
messages = st.lists(parts, min_size=1, max_size=4).map(
    lambda each: Messages("messages", sum(part.time for part in each), tuple(each))
)
sent = st.lists(messages, min_size=1, max_size=3)


@st.composite
def kernels_of(draw: st.DrawFn) -> PassKernels:
    """Products and attention are parts of all kernels of a pass."""
    products, core, others = (draw(seconds) for _ in range(3))
    return PassKernels("kernels", products + core + others, products, core)


def flat(found: list[list[float]], sent: list[Messages], *windows: str) -> list[tuple[MessagePart, float]]:
    """Each part that may run beside one of these kernels, with its seconds beside them."""
    pairs = [(part, time) for message, times in zip(sent, found, strict=True)
             for part, time in zip(message.parts, times, strict=True)]  # fmt: skip
    return [(part, float(time)) for part, time in pairs if part.window in windows]


def longer(kernels: PassKernels, seconds: float, field: str) -> PassKernels:
    """More kernels of a kind, and so of all."""
    grown = {"every": kernels.every + seconds, field: getattr(kernels, field) + seconds}
    return replace(kernels, **grown)


@pytest.mark.thorough
@many
@given(sent, kernels_of(), seconds)
def test_a_message_hides_at_most_its_own_seconds(sent: list[Messages], kernels: PassKernels, weights: float) -> None:
    for part, time in flat(beside_kernels(sent, kernels, weights), sent, *WINDOWS):
        assert 0 <= time <= part.time * part.overlap * (1 + ROUNDING)


@many
@given(sent, kernels_of(), seconds)
def test_a_kernel_hides_at_most_its_own_seconds(sent: list[Messages], kernels: PassKernels, weights: float) -> None:
    found = beside_kernels(sent, kernels, weights)
    available = {"every": kernels.every, "products": kernels.products, "attention_core": kernels.attention_core}
    for windows, most in ((IN_PASS, kernels.every), (("weight_gradients",), weights),
                          *(((name,), available[name]) for name in IN_PASS)):  # fmt: skip
        assert sum(time for _, time in flat(found, sent, *windows)) <= most * (1 + ROUNDING)


@many
@given(sent, kernels_of(), seconds, seconds, st.sampled_from(IN_PASS))
def test_beside_more_kernels_no_message_hides_less(
    sent: list[Messages], kernels: PassKernels, weights: float, more: float, field: str
) -> None:
    shorter = beside_kernels(sent, kernels, weights)
    found = beside_kernels(sent, longer(kernels, more, field), weights + more)
    for (_, before), (_, after) in zip(flat(shorter, sent, *WINDOWS), flat(found, sent, *WINDOWS), strict=True):
        assert after >= before - ROUNDING


@many
@given(sent, kernels_of(), seconds, st.sampled_from(WINDOWS), st.integers(0, 3))
def test_messages_that_take_no_time_change_nothing_wherever_they_stand(
    sent: list[Messages], kernels: PassKernels, weights: float, window: str, place: int
) -> None:
    nothing = Messages("nothing", 0.0, (MessagePart("part", 0.0, window, 1.0, 1.0),))
    found = beside_kernels([*sent[:place], nothing, *sent[place:]], kernels, weights)
    there = min(place, len(sent))
    assert found.pop(there) == [0.0]
    assert found == beside_kernels(sent, kernels, weights)


@many
@given(sent, kernels_of(), seconds)
def test_messages_leave_the_records_as_they_were(sent: list[Messages], kernels: PassKernels, weights: float) -> None:
    """The kernels are handed out in the order of the messages, and every question gets the same answer."""
    before = repr(sent), repr(kernels)
    found = beside_kernels(sent, kernels, weights)
    assert [len(times) for times in found] == [len(message.parts) for message in sent]
    assert (repr(sent), repr(kernels)) == before
    assert beside_kernels(sent, kernels, weights) == found
    # What comes first does not depend on what comes after it.
    assert beside_kernels(sent[:1], kernels, weights) == found[:1]


@many
@given(sent, seconds)
def test_without_kernels_nothing_hides(sent: list[Messages], products: float) -> None:
    none = PassKernels("kernels", 0.0, 0.0, 0.0)
    assert {time for times in beside_kernels(sent, none, 0.0) for time in times} <= {0.0}
    alone = [Messages("messages", products, (MessagePart("part", products, "attention_core", 1.0, 1.0),))]
    assert beside_kernels(alone, PassKernels("kernels", products, products, 0.0)) == [[0.0]]


@many
@given(sent, kernels_of(), seconds, seconds, seconds, share)
def test_a_pass_waits_for_each_second_of_messages_that_nothing_hides(
    sent: list[Messages], kernels: PassKernels, idle: float, exchange: float, weights: float, slowdown: float
) -> None:
    """Kernels, exposed messages and exchanges last as long as the queue or the host: max(kernels + messages, host)."""
    told: Any = pass_waits(sent, kernels, kernels.every + idle, exchange, slowdown, weights)
    hidden = sum(wait.overlapped for wait in told.messages)
    queue = sum(message.time for message in sent) - hidden * (1 - slowdown) + exchange
    waits = sum(wait.exposed for wait in told.messages) + told.exchange
    assert idle + waits == pytest.approx(max(queue, idle), rel=1e-9, abs=1e-9)
    assert all(0 <= wait.exposed <= wait.queued + ROUNDING for wait in told.messages)
    first = [time for part, time in flat(beside_kernels(sent, kernels, weights), sent, *WINDOWS) if part.needed_first]
    assert told.reductions == pytest.approx(sum(first), abs=1e-12)
