"""The pipeline: which stage is the bottleneck, and how long it waits for the others.

Takes the time of a layer and of the two ends, the stages, the number of micro-batches and the time of a send. Hands on the
passes of the bottleneck stage, the idle time (the bubble), and the micro-batches in flight, which memory needs.

    step of the pipeline ≈ micro-batches × time on the bottleneck stage + bubble

One file a schedule (`gpipe`, `one_f_one_b`, `interleaved`, `zero_bubble_h1`, `zero_bubble_v`), with its equation of the idle
time and, but for `interleaved`, whose order is that of `one_f_one_b`, its order of passes. `bottleneck` and `bubble` serve all.
`orders` (the table `SCHEDULES`) and `timeline` are no pages: they execute a step pass by pass and are the oracle of the
equations.
"""

PAGES = ("bottleneck", "bubble", "gpipe", "one_f_one_b", "interleaved", "zero_bubble_h1", "zero_bubble_v")
