"""What a layer, the ends of the network and the optimizer compute, and what is kept for the backward pass."""

PAGES = (
    "tokens",
    "attention",
    "feedforward",
    "layer",
    "encoder",
    "embedding_and_output_head",
    "low_precision",
    "recomputation",
    "memory_policies",
    "saved_activations",
    "optimizers",
    "deepflow",
)
