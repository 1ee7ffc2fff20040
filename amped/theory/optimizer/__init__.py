"""What the optimizer keeps for each parameter, and what an optimizer step runs and sends.

The chapter takes the precisions, and the parameters of one accelerator with their shards. It hands on the bytes of the
states, the kernels of the optimizer step with their times, and its messages.

    states of a parameter = weight / shards + gradient / shards + optimizer states / shards

The page `states` has the bytes of all states, and the number of parameters that one accelerator updates. The page
`update` has the kernels that optimizers have in common. Each other page has what one optimizer does in its own way:
what it keeps, and its kernels and messages if they differ.
"""

PAGES = ("states", "adam", "adafactor", "lamb", "lion", "sgd", "muon", "shampoo", "in_backward", "update")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # states
    "full_precision_copies",
    "optimizer_states_per_parameter",
    "optimizer_bytes_per_parameter",
    "optimizer_states_by_class",
    "model_states",
    "updated_parameters",
    "device_updated_parameters",
    # in_backward
    "kept_gradient_fraction",
    "live_gradient_bytes",
    # update
    "optimizer_operators",
    "optimizer_durations",
    "optimizer_collectives",
)
