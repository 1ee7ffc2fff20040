"""The slow twin's pipeline: when each stage would be done if it set the pace, stage by stage, and which is last."""

from collections.abc import Sequence

from tests.helpers.twins.values import Values

# Seconds of a micro-batch, forward and in all: of each stage, and of the embedding and the head.
Stages = Sequence[tuple[float, float]]
Ends = tuple[tuple[float, float], tuple[float, float]]


def waited(p: Values, stages: Stages, ends: Ends, boundary: float, held: float) -> float:
    """Seconds that a step takes beyond the work of its slowest stage and what it sends.

    `stages` and `ends` (embedding, head) are seconds of a micro-batch, forward and in all; `held` are those of a hand-over in
    which a stage does not compute.
    """
    count, m, v = len(stages), int(p["number_of_microbatches_per_minibatch"]), int(p["virtual_pipeline_stages"])
    slowest = max(whole for _, whole in stages)
    done = plain if v == 1 else interleaved
    # Of the stages between, all alike, the outermost is the last to be done, unless hand-overs of no work decide.
    paces = {0, max(count - 2, 0), count - 1}
    latest = max(done(stages, ends, place, m, v, boundary, held) for place in paces)
    return p_waits(count, latest - m * slowest)


def p_waits(count: int, seconds: float) -> float:
    return seconds if count > 1 else 0.0


def plain(stages: Stages, ends: Ends, place: int, m: int, v: int, boundary: float, held: float) -> float:
    """A stage behind whose first forward passes the others bring back the first gradient, and so at the end."""
    del ends, v
    behind = len(stages) - 1 - place
    there, back = stages[place][0] + held, stages[place][1] - stages[place][0] + held
    trip = sum(whole + 2 * boundary for _, whole in stages[place + 1 :])
    if m > behind:
        idle = max(trip - behind * there, 0.0) + max(trip - behind * back, 0.0)
        # As many micro-batches as stages are under way: a round trip is for all of them.
        turn = (stages[place][1] + trip) / (behind + 1)
        idle += (m - behind - 1) * max(turn - there - back, 0.0) * (place == 0)
    else:
        idle = max(trip - (m - 1) * min(there, back), 0.0)
    return sum(whole + 2 * boundary for _, whole in stages[:place]) + idle + m * stages[place][1]


def interleaved(stages: Stages, ends: Ends, place: int, m: int, v: int, boundary: float, held: float) -> float:
    """The same chunk by chunk: the first micro-batch goes through all chunks before a gradient comes back."""
    count, ((into, embedding), (out, head)) = len(stages), ends
    last = count - 1
    chunk = [((f - into * (s == 0) - out * (s == last)) / v, (w - embedding * (s == 0) - head * (s == last)) / v)
             for s, (f, w) in enumerate(stages)]  # fmt: skip
    warm = 2 * (last - place) + (v - 1) * count
    trip = warm * boundary + sum(whole for _, whole in chunk[place + 1 :]) + (head if place < last else 0.0)
    down = trip + (v - 1) * sum(f for f, _ in chunk) + (into if place == 0 else 0.0)
    up = trip + (v - 1) * sum(w - f for f, w in chunk) + (embedding - into if place == 0 else 0.0)
    forward, whole = stages[place]
    idle = max(down - warm * (forward / v + held), 0.0) + max(up - warm * ((whole - forward) / v + held), 0.0)
    before = sum(w for _, w in chunk[:place]) + (embedding if place else 0.0) + 2 * place * boundary
    return before + idle + m * whole
