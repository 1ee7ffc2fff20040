"""The parts of a step, and what follows for the whole training.

The chapter takes times per layer, passes of the bottleneck stage, and the bubble. It hands on the results of an
estimate.

    step_time     = computation + recomputation + optimizer + exposed communication + bubble
    training_time = number_of_steps × step_time / goodput_fraction

The page `parts` multiplies times per layer with the passes of the bottleneck stage. The pages `overlap` (data
parallelism) and `offload` (the host) use the time that layers leave free. The page `flops` counts the operations that a
training needs, and those that it does. The pages `totals`, `goodput` and `cost` give time, utilization, energy and
money.
"""

PAGES = ("parts", "overlap", "offload", "flops", "totals", "goodput", "cost")
