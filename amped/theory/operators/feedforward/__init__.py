"""The operators of feed-forward networks: dense ones, and mixtures of experts.

    dense           up (with gate), activation function, down
    experts         router, routed experts, shared experts, and how many tokens come to each
    expert_extras   what some software leaves to kernels of their own: biases, the probabilities of tokens

Takes tokens and widths on one accelerator. Hands on records for `operators/layer.py`.
"""

PAGES = ("dense", "experts", "expert_extras")
