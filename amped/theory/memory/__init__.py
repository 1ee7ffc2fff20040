"""What the fullest accelerator holds.

Takes parameters of stages, shards, what a layer saves, and micro-batches in flight. Hands on the bytes by part, whether
they fit, and the largest micro-batch that fits.

    memory of an accelerator = weights + gradients + optimizer states + activations + working memory

`buffers` is working memory. `stages` has the states and activations of each stage, and answers the inverse: how large a
micro-batch fits beside the states. `fullest_stage` finds the stage that needs most, and adds up its parts. `host` is
what is offloaded.
"""

PAGES = ("buffers", "stages", "fullest_stage", "host")
