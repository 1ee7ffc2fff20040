"""The pipeline bubble: how much longer a step takes than the bottleneck stage works.

Each stage is asked when it would be done if it set the pace: the first micro-batch reaches it, it does all its work,
waits for what comes back from the stages behind it, and its last gradients reach the first stage. The latest of these
times counts. Each schedule has its own equation, on its own page; an event-driven twin (`timeline.py`) executes the
same schedules.
"""

from amped.theory.quantity import quantity


@quantity("s", choice="performance_model", value="operators")
def pipeline_bubble_time__operators(
    pipeline_idle_time, pipeline_flushes_per_step, exposed_bubble_fraction, pipeline_parallel_degree
):
    """Time that the bottleneck stage waits in a step for others, if there are. Source: AMPeD, pipeline bubbles (R)."""
    waits = pipeline_idle_time * pipeline_flushes_per_step
    return exposed_bubble_fraction * waits * (pipeline_parallel_degree > 1)
