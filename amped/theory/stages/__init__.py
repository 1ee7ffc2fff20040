"""What each pipeline stage holds.

The chapter takes the layers, the pipeline degree (or a layout) and the counts of parameters. It hands on the layers and
the parameters of the first, the middle and the last stage, the records `pipeline_stages`, and the parameters that one
accelerator updates.

    layers = first stage + (stages − 2) × middle stage + last stage

The first stage also has the embedding, and the last stage the output head; a single stage has both. With the schedule
`zero_bubble_v` the first stage has both ends.
"""

PAGES = ("layers", "parameters")
