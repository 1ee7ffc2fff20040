"""The operators of feed-forward networks: dense networks and mixtures of experts.

    dense           up projection (with gate), activation function, down projection
    experts         router, routed experts, shared experts, and how many tokens come to each expert
    expert_extras   kernels that some software does not fuse: biases, multiplication with routing probabilities

The chapter takes tokens and widths on one accelerator. It hands on records for `operators/layer.py`.
"""

PAGES = ("dense", "experts", "expert_extras")
