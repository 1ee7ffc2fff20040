"""The pipeline: which stage is the bottleneck, and how long it waits for the other stages.

The chapter takes the time of a layer and of the two ends of the network, the stages, the number of micro-batches and
the time of a send. It hands on the passes of the bottleneck stage, the idle time (the bubble), and the micro-batches in
flight, which memory needs.

    step of the pipeline ≈ micro-batches × time on the bottleneck stage + bubble

Each schedule has a file (`gpipe`, `one_f_one_b`, `interleaved`, `zero_bubble_h1`, `zero_bubble_v`,
`dualpipe_v`) with its equation of the idle time and its order of passes; the order of `interleaved` is in
`one_f_one_b`. The pages `bottleneck` and
`bubble` serve all schedules. The page `listed_stages` is for stages that a layout lists; `pass_by_pass` computes their
passes one after another. The files `pass_by_pass`, `orders` (the table `SCHEDULES`) and `timeline` are no pages.
`timeline` simulates a step as events, and tests compare all equations with it.
"""

PAGES = (
    "bottleneck",
    "bubble",
    "gpipe",
    "one_f_one_b",
    "interleaved",
    "zero_bubble_h1",
    "zero_bubble_v",
    "dualpipe_v",
    "listed_stages",
)

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # bottleneck
    "chunks_per_stage",
    "kind_times",
    "pass_times",
    "whole_pass_times",
    "bottleneck_stage",
    "bottleneck_layer_shares",
    "bottleneck_stage_layer_passes",
    "bottleneck_stage_embedding_passes",
    "bottleneck_stage_output_head_passes",
    "stage_send_time",
    "overlapped_stage_send_time",
    "handovers_per_microbatch",
    "pipeline_communication_time",
    # bubble
    "pipeline_bubble_time",
    # gpipe
    "stage_microbatches_in_flight",
    # one_f_one_b
    "non_interleaved_idle_time",
    # interleaved
    "interleaved_idle_time",
    # listed_stages
    "stage_chunks_in_flight",
)
