"""The pipeline bubble: how much longer a step takes than the bottleneck stage works.

For each stage, its schedule's equation gives the time of a step that this stage would determine: the first micro-batch
reaches the stage, the stage does all its work and waits for gradients from the stages after it, and its last gradients
reach the first stage. The latest of these times counts (`pipeline_idle_time`, on a page for each schedule:
`one_f_one_b.py`, `interleaved.py`, `gpipe.py`, `zero_bubble_h1.py`, `zero_bubble_v.py`, `dualpipe_v.py`). Tests
compare the equations with the event-driven simulation in `timeline.py`.
"""

from amped.theory.language.quantity import quantity


@quantity("s", choice="performance_model", value="operators")
def pipeline_bubble_time__operators(
    pipeline_idle_time, pipeline_flushes_per_step, exposed_bubble_fraction, pipeline_parallel_degree
):
    """The time in a step in which the bottleneck stage waits for other stages. Source: AMPeD, pipeline bubbles (R)."""
    waits = pipeline_idle_time * pipeline_flushes_per_step
    return exposed_bubble_fraction * waits * (pipeline_parallel_degree > 1)
