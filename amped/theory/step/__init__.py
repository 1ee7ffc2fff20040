"""The parts of a step, and what follows for the whole training.

Takes times per layer, passes of the bottleneck stage, and the bubble. Hands on the results of an estimate.

    step_time     = computation + recomputation + optimizer + exposed communication + bubble
    training_time = number_of_steps × step_time / goodput_fraction

`parts` multiplies times per layer with the passes of the bottleneck stage; `overlap` (data parallelism) and `offload`
(the host) take the time that layers left free. `flops` counts what a training needs and what it does. `totals`,
`goodput` and
`cost` make the last lines: time, utilization, energy, money.
"""

PAGES = ("parts", "overlap", "offload", "flops", "totals", "goodput", "cost")
