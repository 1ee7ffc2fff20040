"""A step with offload, event by event: a computing engine, a wire up, a wire down, and two buffers for each of them.

Written from what a training loop with prefetch does (arXiv 2104.07857, section 6.2), in plain floats and loops.
"""

from dataclasses import dataclass

BUFFERS = 2


@dataclass(frozen=True)
class Work:
    """One layer in one pass: seconds of what comes before it, of itself, of what goes behind it."""

    layer: int
    coming: float
    computing: float
    going: float
    waits_for_going_of: int = -1  # the work whose activations come back


def one_step(layers: int, microbatches: int, forward: Work, backward: Work) -> list[Work]:
    """The order of a stage that is alone: each micro-batch through all layers, and back."""
    work: list[Work] = []
    for _ in range(microbatches):
        start = len(work)
        work += [Work(i, forward.coming, forward.computing, forward.going) for i in range(layers)]
        work += [
            Work(i, backward.coming, backward.computing, backward.going, start + i) for i in reversed(range(layers))
        ]
    return work


def seconds(work: list[Work]) -> float:
    """When the last of all has happened."""
    wire_up = wire_down = engine = 0.0
    computed: list[float] = []
    gone: list[float] = []
    for number, each in enumerate(work):
        buffer_free = computed[number - BUFFERS] if number >= BUFFERS else 0.0
        there = gone[each.waits_for_going_of] if each.waits_for_going_of >= 0 else 0.0
        arrived = 0.0
        if each.coming:
            wire_up = arrived = max(wire_up, buffer_free, there) + each.coming
        emptied = gone[number - BUFFERS] if number >= BUFFERS else 0.0
        engine = max(engine, arrived, emptied) + each.computing
        computed.append(engine)
        if each.going:
            wire_down = max(wire_down, engine) + each.going
        gone.append(wire_down if each.going else engine)
    return max(wire_down, engine)


def update_seconds(updating: float, up: float, down: float, chunks: int) -> float:
    """A host that takes the parameters in chunks: gradient down, update, weight up, each on an engine of its own."""
    wire_up = wire_down = host = 0.0
    for _ in range(chunks):
        wire_down += down / chunks
        host = max(host, wire_down) + updating / chunks
        wire_up = max(wire_up, host) + up / chunks
    return wire_up
