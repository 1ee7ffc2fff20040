"""What one accelerator computes for one micro-batch, and what it keeps for the backward pass.

Takes the network, the precisions and the mapping. Hands on records: each `Operator` has a kind, a pass (`phase`), a
shape, flops, bytes read and written, the bytes it saves (`stash`), and how often it runs (`count`, on average in a
layer).

    layer_operators = norms + attention + residuals + feed-forward network + experts + casts + accumulation

`attention/`, `feedforward/` and `optimizers/` have one kind a file; `encoder` has the layer that normalizes behind its
blocks; `embedding_and_output_head` has the two ends. `recomputation` and `memory_policies` say what is not kept,
`saved_activations` adds up what is. `deepflow` lists the products in DeepFlow's order. There are no times yet.
"""

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
