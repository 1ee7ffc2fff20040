"""GPipe: all micro-batches forward, then all micro-batches backward."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import GPIPE
from amped.theory.nouns.pass_records import BACKWARD, FORWARD, Order, Pass, Pipe
from amped.theory.nouns.records import latest, total
from amped.theory.nouns.stage_records import equally_in_flight


@quantity("s", **GPIPE)
def pipeline_idle_time__gpipe(
    pipeline_stages,
    pass_times,
    bottleneck_stage,
    microbatches_per_flush,
    stage_send_time,
    pipeline_parallel_degree,
):
    """The idle time in a step of GPipe. All micro-batches go forward, then backward; the slowest stage sets the pace.

        idle = one micro-batch through all stages + 2·(p − 1)·send
        + (m − 1)·(max F + max (B + W)) − m·(F + B + W of the bottleneck stage).

    There are p stages and m micro-batches. F, B and W are the times of a stage for the forward pass, the input
    gradients and the weight gradients of a micro-batch; max is over the stages.

    Source: arXiv 1811.06965, section 2.3.
    """
    forward, input_gradient, weight = pass_times
    others, last = microbatches_per_flush - 1, pipeline_stages[-1]
    slowest = latest([forward.of(s) for s in pipeline_stages])
    slowest = slowest + latest([input_gradient.of(s) + weight.of(s) for s in pipeline_stages])
    single = total(p.before(last) + p.of(last) for p in pass_times)
    ramps = 2 * (pipeline_parallel_degree - 1) * stage_send_time
    return single + ramps + others * slowest - microbatches_per_flush * bottleneck_stage[0].time


@records(**GPIPE)
def stage_microbatches_in_flight__gpipe(pipeline_stages, microbatches_per_flush):
    """The number of micro-batches whose activations each stage holds at the same time: all micro-batches.

    Source: arXiv 1811.06965, section 2.3.
    """
    return equally_in_flight(pipeline_stages, microbatches_per_flush, microbatches_per_flush)


@quantity("boolean", constrains="virtual_pipeline_stages", **GPIPE)
def only_1f1b_interleaves__gpipe(virtual_pipeline_stages):
    """Only the schedule 1f1b has virtual stages; gpipe has one chunk of layers on each stage.

    Source: arXiv 1811.06965, section 2.2.
    """
    return virtual_pipeline_stages == 1


# --- the order of passes ----------------------------------------------------------------------------------------------


def order(pipe: Pipe, stage: int) -> Order:
    """The passes of a stage: first all forward passes, then all backward passes.

    Source: arXiv 1811.06965, section 2.2.
    """
    del stage
    return [Pass(kind, m, 0) for kind in (FORWARD, BACKWARD) for m in range(pipe.microbatches)]
