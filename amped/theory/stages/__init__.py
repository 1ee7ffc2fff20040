"""What each pipeline stage holds.

Takes the layers, the pipeline degree (or a layout) and the counts of parameters. Hands on the layers and the parameters
of the first, the middle and the last stage, the records `pipeline_stages`, and the parameters that one accelerator
updates.

    layers = first stage + (stages − 2) × middle stage + last stage

The first stage has the embedding too, the last one the output head; a single stage has both. In the schedule
`zero_bubble_v` the first stage has both ends.
"""

PAGES = ("layers", "parameters")
