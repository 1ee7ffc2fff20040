"""1F1B: forward passes to fill the stages after a stage, then one backward pass for each forward pass."""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.pass_records import BACKWARD, FORWARD, Order, Pass, Pipe
from amped.theory.nouns.records import latest
from amped.theory.nouns.resources import remaining
from amped.theory.nouns.stage_records import InFlight


@quantity("s")
def non_interleaved_idle_time(
    pipeline_stages,
    whole_pass_times,
    bottleneck_stage,
    microbatches_per_flush,
    stage_send_time,
    blocking_stage_send_time,
):
    """The idle time in a step of 1F1B with one chunk of layers on each stage.

        idle = max over stages s of [before + wait + m·(work of s − work of the bottleneck stage)],
        wait = max(u, d) + (min(u, d) if m > k), d = max(T − n·forward, 0), u = max(T − n·backward, 0).

    There are m micro-batches, p stages, and k stages after s. Stage s waits twice: d seconds until the first gradient
    comes back, and u seconds after its last forward pass. T is the time of a micro-batch through the k stages and back
    with its sends; meanwhile s runs n = min(k, m − 1) passes. `before` is the time of a micro-batch through the stages
    before s and back. `forward`, `backward` and `work` are times of s. For the first stage, each of the last m − p
    micro-batches may add max(T_all / p − work − 2·blocking send, 0): T_all is the time through all stages and back.

    Source: arXiv 2104.04473, section 2.2.
    """
    forward, whole = whole_pass_times
    first, *between = pipeline_stages[:-1] or pipeline_stages
    last, m, round_trip_send = pipeline_stages[-1], microbatches_per_flush, 2 * stage_send_time
    ramps, one_end = last.index * round_trip_send, whole.of_layers(last.kinds) + whole.output_head
    work = whole.of_layers(first.kinds) + whole.embedding
    forward_time = forward.of_layers(first.kinds) + forward.embedding
    round_trip_time = whole.of_layers(first.kinds_after) + whole.output_head + ramps
    start = round_trip_idle_time(work, forward_time, round_trip_time, first.stages_after, m, blocking_stage_send_time)
    idle_times = [
        whole.of_layers(last.kinds_before) + whole.embedding + ramps + m * (one_end - bottleneck_stage[0].time)
    ]
    rounds, late_microbatches = (work + round_trip_time) / (last.index + 1) - work, np.maximum(m - 1 - last.index, 0)
    start = start + remaining(late_microbatches * rounds, 2 * late_microbatches * blocking_stage_send_time)
    idle_times.append(start + m * (work - bottleneck_stage[0].time))
    for s in between:
        work, round_trip_time = whole.of(s), whole.after(s) + s.stages_after * round_trip_send
        idle = round_trip_idle_time(work, forward.of(s), round_trip_time, s.stages_after, m, blocking_stage_send_time)
        idle_times.append(idle + (whole.before(s) + s.index * round_trip_send + m * (work - bottleneck_stage[0].time)))
    return latest(idle_times)


def round_trip_idle_time(work, forward_time, round_trip_time, stages_after, microbatches, blocking_send):
    """The idle time of a stage until the first gradient comes back, and after its last forward pass.

    Args:
        work: the time of the stage for a micro-batch.
        forward_time: the time of a forward pass.
        round_trip_time: the time of a micro-batch from this stage to the last stage and back.
        stages_after: the number of stages after this one.
        microbatches: the number of micro-batches. If m ≤ `stages_after`, only the longer of the two waits counts.
        blocking_send: the seconds for which a send blocks the stage, in each pass.
    """
    passes, backward_time = np.minimum(stages_after, microbatches - 1), work - forward_time
    longer = round_trip_time - passes * np.minimum(forward_time, backward_time)
    shorter = round_trip_time - passes * np.maximum(forward_time, backward_time)
    sends = passes * blocking_send
    return remaining(longer, sends) + (microbatches > stages_after) * remaining(shorter, sends)


@records(choice="pipeline_schedule", value="1f1b")
def stage_microbatches_in_flight__1f1b(
    pipeline_stages, pipeline_parallel_degree, microbatches_per_flush, virtual_pipeline_stages
):
    """The number of micro-batches whose activations each stage holds at the same time under 1F1B.

        held = min(k + 1, m), or with v > 1 chunks of layers on each of p stages
        held = min((2·k + (v − 1)·p + 1) / v, m).

    There are m micro-batches, and k stages after the stage. So many micro-batches go forward before the first gradient
    comes back. A micro-batch in one of v chunks counts 1 / v. The output head holds one micro-batch, because its
    backward pass follows at once.

    Source: arXiv 2205.05198, section 4.2.3; arXiv 2104.04473, section 2.2 (interleaved warm-up).
    """
    v, stages = virtual_pipeline_stages, []
    for s in pipeline_stages:
        chunks = 2 * s.most_stages_after + (v - 1) * pipeline_parallel_degree + 1
        held = np.where(v > 1, chunks / v, s.most_stages_after + 1)
        held = np.minimum(held, microbatches_per_flush)
        stages.append(InFlight(s.name, layers=held, embedding=held, embedding_beside_head=held, output_head=1.0))
    return tuple(stages)


# --- the order of passes ----------------------------------------------------------------------------------------------


def order(pipe: Pipe, stage: int) -> Order:
    """The passes of a stage: first forward passes that fill the later stages, then one backward pass for each forward.

    If a stage has several chunks of layers, the passes of the chunks are interleaved.

    Source: arXiv 2104.04473, section 2.2; Megatron-Core, schedules.py (number of warm-up micro-batches).
    """
    passes = pipe.microbatches * pipe.chunks
    later_stages = pipe.stages - stage - 1
    warmup_passes = later_stages if pipe.chunks == 1 else 2 * later_stages + (pipe.chunks - 1) * pipe.stages
    warmup_passes = min(warmup_passes, passes)
    stage_passes = [_nth(pipe, FORWARD, n) for n in range(warmup_passes)]
    for n in range(passes - warmup_passes):
        stage_passes += [_nth(pipe, FORWARD, warmup_passes + n), _nth(pipe, BACKWARD, n)]
    return stage_passes + [_nth(pipe, BACKWARD, n) for n in range(passes - warmup_passes, passes)]


def _nth(pipe: Pipe, kind: str, number: int) -> Pass:
    """One pass in the sequence of all forward passes, or of all backward passes, of a stage.

    The sequence has rounds of p micro-batches for p stages. Each round passes through all chunks of the stage.

    Args:
        pipe: the numbers of stages, micro-batches and chunks.
        kind: FORWARD or BACKWARD.
        number: the place of the pass in the sequence, from 0 on.
    """
    if pipe.chunks == 1:
        return Pass(kind, number, 0)
    rounds, rest = divmod(number, pipe.stages * pipe.chunks)
    chunk, inside = divmod(rest, pipe.stages)
    return Pass(kind, rounds * pipe.stages + inside, chunk if kind == FORWARD else pipe.chunks - 1 - chunk)
