"""What one accelerator computes for one micro-batch, and what it keeps for the backward pass.

The chapter takes the network, the precisions and the mapping. It hands on records: each `Operator` has a kind, a pass
(`phase`), a shape, flops, bytes read and written, the bytes that it keeps for the backward pass (`stash`), and the
number of its calls (`count`, on average in a layer).

    layer_operators = norms + attention + residuals + feed-forward network + experts + casts + accumulation

The folders `attention/`, `feedforward/` and `optimizers/` have one kind in each file. The page `encoder` has the layer
that normalizes after its blocks; `embedding_and_output_head` has the two ends of the network. The pages `recomputation`
and `memory_policies` say what is not kept, and `saved_activations` adds up what is kept. The page `deepflow` lists the
products in DeepFlow's order. This chapter has no times.
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
