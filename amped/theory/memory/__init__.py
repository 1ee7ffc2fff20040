"""What the fullest accelerator holds.

The chapter takes parameters of stages, shards, the bytes that a layer keeps, and micro-batches in flight. It hands on
the bytes by part, whether they fit, and the largest micro-batch that fits.

    memory of an accelerator = weights + gradients + optimizer states + activations + working memory

The page `buffers` is working memory. The page `stages` has the states and activations of each stage, and answers the
inverse question: how large a micro-batch fits beside the states. The page `fullest_stage` finds the stage that needs
most, and adds up its parts. The page `host` is what is offloaded.
"""

PAGES = ("buffers", "stages", "fullest_stage", "host")
