"""Interleaved 1F1B: each stage has several chunks of layers.

A step lasts as long as its longest chain of passes, each of which waits for the one before. Two kinds of chains are
examined, and the longer one counts. In the first, one stage determines the step throughout (see `bubble.py`). In the
second, the output head determines it: in each round of p micro-batches for p stages, the head lengthens the passes of
one chunk of the last stage. Between two such rounds the chain stays on the last stage, or runs over a slower stage and
back, which costs the passes of one chunk on the way.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.records import latest
from amped.theory.nouns.resources import remaining
from amped.theory.nouns.stage_records import ChunkTimes, had


@quantity("s", choice="pipeline_schedule", value="1f1b", when_given=("virtual_pipeline_stages",))
def pipeline_idle_time__1f1b_in_chunks(non_interleaved_idle_time, interleaved_idle_time, virtual_pipeline_stages):
    """The idle time in a step of 1F1B. With several chunks of layers on each stage, 1F1B is interleaved.

    Source: arXiv 2104.04473, section 2.2.
    """
    return np.where(virtual_pipeline_stages > 1, interleaved_idle_time, non_interleaved_idle_time)


@quantity("s")
def interleaved_idle_time(bottleneck_stage_chain_idle_time, output_head_chain_idle_time):
    """The idle time in a step of interleaved 1F1B.

    If all p stages are equal and have v chunks each, it is (p − 1) / v times the work of a stage for a micro-batch. It
    is the larger of two values: either one stage determines the time of the step, or the output head does.

    Source: arXiv 2104.04473, section 2.2.2. Differs: a time that first one stage and then another determines is left
    out, which is at most 3 % of a step.
    """
    return np.maximum(bottleneck_stage_chain_idle_time, output_head_chain_idle_time)


@quantity("s")
def bottleneck_stage_chain_idle_time(
    pipeline_stages,
    whole_pass_times,
    bottleneck_stage,
    microbatches_per_flush,
    stage_send_time,
    overlapped_stage_send_time,
    virtual_pipeline_stages,
    pipeline_parallel_degree,
):
    """The idle time in a step of interleaved 1F1B if one stage determines the time of the step.

        idle = max over stages s of [before + d + u + m·(work of s − work of the bottleneck stage)],
        d = max(T + n·hidden send + other chunks forward − n·forward / v, 0),
        u = max(T + n·hidden send + other chunks backward − n·backward / v, 0),
        n = 2·(stages after s) + (v − 1)·p.

    There are p stages with v chunks each, and m micro-batches. n is the number of warm-up passes of stage s, d and u
    are its waits after them and before its last passes. T is the time of a micro-batch through one chunk of each stage
    after s and back, and `before` that through one chunk of each stage before s and back, with its sends. The other
    chunks are v − 1 chunks of all stages. `forward`, `backward` and `work` are times of stage s for a micro-batch.
    Stage s waits for n sends, of which it computes beside the hidden part.

    Source: Megatron-Core, schedules.py (warm-up).
    """
    (forward, whole), v, idle_times = whole_pass_times, virtual_pipeline_stages, []
    chunk, layers = whole.in_chunks(v), pipeline_stages[-1].kinds_up_to
    there_in_others = (v - 1) / v * forward.of_layers(layers)
    back_in_others = (v - 1) / v * whole.of_layers(layers) - there_in_others
    for s in pipeline_stages:
        forward_time, work, start = forward.of(s), whole.of(s), had(s.has_embedding, 1.0)
        warmup_passes = 2 * s.stages_after + (v - 1) * pipeline_parallel_degree
        down = warmup_passes / v * forward_time - (there_in_others + start * forward.embedding)
        up = warmup_passes / v * (work - forward_time) - (
            back_in_others + start * (whole.embedding - forward.embedding)
        )
        later_stages_time = warmup_passes * overlapped_stage_send_time + chunk.after(s)
        before = chunk.before(s) + 2 * s.index * stage_send_time
        slower = microbatches_per_flush * (work - bottleneck_stage[0].time)
        idle_times.append(remaining(later_stages_time, down) + remaining(later_stages_time, up) + (before + slower))
    return latest(idle_times)


@records()
def chunk_times(pipeline_stages, whole_pass_times, virtual_pipeline_stages, pipeline_parallel_degree):
    """The times of a micro-batch in one chunk of the first stage, of the last stage but one, and of the last stage.

    If there are two stages, the last stage but one is the first stage.

    Source: definition.
    """
    forward, whole = (times.in_chunks(virtual_pipeline_stages) for times in whole_pass_times)
    first, inner, last = (stage.kinds for stage in (pipeline_stages[0], pipeline_stages[-2:][0], pipeline_stages[-1]))
    inner = tuple(np.where(pipeline_parallel_degree > 2, *both) for both in zip(inner, first, strict=True))
    chunks = []
    for name, kinds in (("first", first), ("last but one", inner), ("last", last)):
        forward_time = forward.of_layers(kinds)
        chunks.append(ChunkTimes(name, forward_time, whole.of_layers(kinds) - forward_time))
    return tuple(chunks)


@quantity("s")
def output_head_microbatch_group_time(
    chunk_times, output_head_time, blocking_stage_send_time, pipeline_parallel_degree
):
    """The time of p micro-batches (one for each of p stages) in the chunk with the output head.

    This is the last chunk, so it has no send to a next stage, only one back.

    Source: arXiv 2104.04473, section 2.2.2.
    """
    last, p = chunk_times[-1], pipeline_parallel_degree
    return p * (last.forward + last.backward + output_head_time) + p * blocking_stage_send_time


@quantity("s")
def embedding_microbatch_group_time(embedding_time, pipeline_parallel_degree):
    """The time of p micro-batches (one for each of p stages) in the embedding.

    Source: arXiv 2104.04473, section 2.2.2.
    """
    return pipeline_parallel_degree * embedding_time


@quantity("s")
def chain_ramp_time(
    chunk_times,
    whole_pass_times,
    pipeline_stages,
    stage_send_time,
    blocking_stage_send_time,
    virtual_pipeline_stages,
    pipeline_parallel_degree,
):
    """The time before the first micro-batches reach the output head, plus the time after the last ones leave it.

    It is the time of a micro-batch to the last stage and back, and of the other chunks that run at that time.

    Source: Megatron-Core, schedules.py (order of the chunks).
    """
    (forward, whole), v, p = whole_pass_times, virtual_pipeline_stages, pipeline_parallel_degree
    others = (v - 1) * p
    forward_times = [others * c.forward for c in chunk_times]
    backward_times = [others * c.backward for c in chunk_times]
    forward_times[0] = forward_times[0] + (p - 1) * forward.embedding
    backward_times[0] = backward_times[0] + (p - 1) * (whole.embedding - forward.embedding)
    round_trip_time = whole.of_layers(pipeline_stages[-1].kinds_before) / v + whole.embedding
    sends = 2 * (p - 1) * stage_send_time + 2 * others * blocking_stage_send_time
    return round_trip_time + latest(forward_times) + latest(backward_times) + sends


@quantity("s")
def output_head_chain_idle_time(
    chunk_times,
    chain_ramp_time,
    output_head_microbatch_group_time,
    embedding_microbatch_group_time,
    stage_send_time,
    blocking_stage_send_time,
    bottleneck_stage,
    microbatches_per_flush,
    virtual_pipeline_stages,
    pipeline_parallel_degree,
):
    """The idle time in a step of interleaved 1F1B if the output head determines the time of the step.

        idle = ramp + H + (G + H if R > 1 else 0) − m·(work of the bottleneck stage + 2·v·blocking send),
        G = max((R − 1)·max(gap of 3 stages) + (R − 2)·H,  gap + (R − 2)·detour of each of 2 stages).

    There are p stages with v chunks each, and m micro-batches in R = m / p rounds. H is the time of a round in the
    chunk with the output head, `ramp` the time before the first round there and after the last, and G the time between
    these two. The gap of a stage (the last, the last but one, the first) is the time for its other chunks between two
    rounds. The detour of a stage (the last but one, the first) is the time of a round in all its chunks. Each chunk has
    two blocking sends, forward and back; the gap of a stage before the last has a whole send to it and one back, too.

    Source: arXiv 2104.04473, section 2.2.2.
    """
    m, v, p = microbatches_per_flush, virtual_pipeline_stages, pipeline_parallel_degree
    first, inner, last = (c.forward + c.backward for c in chunk_times)
    others, rounds, sends = (v - 1) * p, m / p, 2 * blocking_stage_send_time
    group, embedding = output_head_microbatch_group_time, embedding_microbatch_group_time
    away = 2 * stage_send_time + (others - 2) * sends
    inner_gap, first_gap = (others - 1) * inner + away, last + (others - 2) * first + away
    inner_detour = v * p * (inner + sends) + (p == 2) * embedding
    first_detour = v * p * (first + sends) + embedding
    with_gaps = (rounds - 1) * latest([inner_gap, first_gap, others * (last + sends)]) + (rounds - 2) * group
    with_detours = np.maximum(inner_gap + (rounds - 2) * inner_detour, first_gap + (rounds - 2) * first_detour)
    between = np.maximum(with_gaps, with_detours)
    whole = chain_ramp_time + group + (rounds > 1) * (between + group)
    return whole - m * (bottleneck_stage[0].time + v * sends)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="number_of_microbatches_per_minibatch")
def interleaving_needs_whole_microbatch_groups(
    number_of_microbatches_per_minibatch, pipeline_flushes_per_step, pipeline_parallel_degree, virtual_pipeline_stages
):
    """Interleaving needs several stages, whose number divides the micro-batches between two flushes.

    Interleaving means that each stage has several chunks of layers.

    Source: arXiv 2104.04473, section 2.2.
    """
    rounds = np.mod(number_of_microbatches_per_minibatch, pipeline_parallel_degree * pipeline_flushes_per_step) == 0
    return (virtual_pipeline_stages == 1) | ((pipeline_parallel_degree > 1) & rounds)
