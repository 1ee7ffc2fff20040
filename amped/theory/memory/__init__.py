"""What the fullest accelerator holds.

Takes parameters of stages, shards, what a layer saves, and micro-batches in flight. Hands on the bytes by part, whether they
fit, and the largest micro-batch that fits.

    memory of an accelerator = weights + gradients + optimizer states + activations + working memory

`states` and `activations` look at the first, the middle and the last stage each; `fullest_middle_stage` finds the middle one
that needs most, `fullest_stage` the one of all, and adds up its parts. `buffers` is working memory, `host` what is offloaded.
`largest_microbatch` answers the inverse: how large a micro-batch fits beside the states.
"""

PAGES = ("states", "fullest_middle_stage", "activations", "buffers", "fullest_stage", "host", "largest_microbatch")
