"""What one accelerator computes for one micro-batch, and what it keeps for the backward pass.

The chapter takes the network, the precisions and the mapping. It hands on records: each `Operator` has a kind, a pass
(`phase`), a shape, flops, bytes read and written, the bytes that it keeps for the backward pass (`stash`), and the
number of its calls (`count`, on average in a layer).

    layer_operators = norms + attention + residuals + feed-forward network + experts + branches + casts + accumulation
        + adapters

The folders `attention/` and `feedforward/` have one kind in each file. The page `encoder` has the layer that normalizes
after its blocks, `branches` small products beside the blocks, and `hyper_connections` several residual streams;
`embedding_and_output_head` has the two ends of the network. The pages `recomputation` and `memory_policies` say what is
not kept, and `saved_activations` adds up what is kept. The page `deepflow` lists the products in DeepFlow's order. This
chapter has no times.
"""

PAGES = (
    "tokens",
    "attention",
    "feedforward",
    "branches",
    "layer",
    "encoder",
    "hyper_connections",
    "embedding_and_output_head",
    "tower",
    "adapters",
    "low_precision",
    "recomputation",
    "memory_policies",
    "saved_activations",
    "deepflow",
)

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # tokens
    "fp8_precision",
    "matrix_operand_precision",
    "microbatch_tokens",
    "residual_tokens",
    "residual_bytes",
    "microbatch_bytes",
    "entry_costs",
    # attention/scores
    "effective_attention_window",
    "document_score_fraction",
    "causal_score_fraction",
    "computed_score_fraction",
    # attention/projections
    "rotary_operators",
    "projection_gemms",
    "query_bytes",
    "key_bytes",
    "value_bytes",
    "attention_output_bytes",
    "projection_operators",
    "attention_output_operators",
    "query_key_norm_operators",
    "attention_core_operators",
    # attention/linear
    "linear_attention_gemms",
    "linear_scan_work",
    "linear_value_bytes",
    "linear_convolved_bytes",
    # attention/unfused
    "attention_gemms",
    "attention_head_gemms",
    # attention/fused
    "fused_attention_exists",
    "fused_backward_products",
    # feedforward/dense
    "feedforward_gemms",
    "feedforward_operators",
    # feedforward/experts
    "expert_operators",
    "expert_working_bytes",
    "routed_tokens",
    "dispatched_tokens",
    "expert_gemms",
    "routing_operators",
    "routed_expert_operators",
    "shared_expert_operators",
    # branches
    "branch_gemms",
    # layer
    "norm_operators",
    "product_operators",
    "layer_operators",
    "layer_input_bytes",
    "stage_message_bytes",
    "connection_gemms",
    # embedding_and_output_head
    "embedding_operators",
    "predicted_tokens",
    "output_head_gemms",
    "loss_vocabulary",
    "output_head_operators",
    "multi_token_prediction_gemms",
    # tower
    "tower_operators",
    "tower_layer_gemms",
    "tower_gemms",
    "tower_attention_multiply_accumulates",
    # adapters
    "adapter_pairs",
    "gradient_layer_fraction",
    # low_precision
    "attention_speedup",
    "quantization_operators",
    # recomputation
    "recomputed_layer_fraction",
    "recomputed_attention_core_fraction",
    "recomputed_product_fraction",
    "recomputed_streaming_fraction",
    "recomputed_projection_fraction",
    "communication_rounds",
    # memory_policies
    "packed_mask_precision",
    # saved_activations
    "kept_activations",
    "layer_activation_bytes",
    "score_activation_bytes",
    "kept_activation_bytes_per_layer",
    "embedding_activation_bytes",
    "output_head_activation_bytes",
    # deepflow
    "deepflow_gemms",
)
