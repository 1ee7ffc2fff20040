"""The pipeline: which stage is the bottleneck, and how long it waits for the other stages.

The chapter takes the time of a layer and of the two ends of the network, the stages, the number of micro-batches and
the time of a send. It hands on the passes of the bottleneck stage, the idle time (the bubble), and the micro-batches in
flight, which memory needs.

    step of the pipeline ≈ micro-batches × time on the bottleneck stage + bubble

Each schedule has a file (`gpipe`, `one_f_one_b`, `interleaved`, `zero_bubble_h1`, `zero_bubble_v`) with its equation of
the idle time and its order of passes; the order of `interleaved` is in `one_f_one_b`. The pages `bottleneck` and
`bubble` serve all schedules. The page `layouts` is for stages that a layout lists; `pass_by_pass` computes their passes
one after another. The files `pass_by_pass`, `orders` (the table `SCHEDULES`) and `timeline` are no pages. `timeline`
simulates a step as events, and tests compare all equations with it.
"""

PAGES = ("bottleneck", "bubble", "gpipe", "one_f_one_b", "interleaved", "zero_bubble_h1", "zero_bubble_v", "layouts")
