"""The operators at the two ends of the network, and of the optimizer: what a step does outside its layers."""

from amped.quantity import NETWORK, parameter, quantity, records
from amped.records import Operator, contraction, streamed

# Of one parameter's update: a root, and the quotients by it and by the bias. Source: arXiv 1412.6980, algorithm 1.
UPDATE_FUNCTIONS = 3


@quantity("boolean")
def has_vocabulary(vocabulary_size):
    """Whether there are an embedding and an output head of words. Source: definition."""
    return 1.0 * (vocabulary_size > 0)


@records()
def embedding_operators(
    microbatch_tokens, residual_tokens, dimensionality, activation_precision, gradient_precision, dropout,
    dropout_mask_bytes, has_vocabulary, flops_per_elementary_operation,
):  # fmt: skip
    """Rows of the embedding looked up and dropped out; backward, their gradients added to the table's.

    Source: arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.3.
    """
    entries, kept = microbatch_tokens * dimensionality, residual_tokens * dimensionality
    size, rows, flop = entries * activation_precision, entries * gradient_precision, flops_per_elementary_operation
    drops, mask, through = has_vocabulary * (dropout > 0), kept * dropout_mask_bytes, kept * activation_precision
    lookup = ((entries * flop, 2 * size, size), (entries * flop, size + rows, rows))
    drop = ((kept * flop, through, through + mask, 0.0 * kept, kept), (kept * flop, through + mask, through))
    return (
        *streamed("embedding", "element_wise", microbatch_tokens, dimensionality, *lookup, 0.0 * mask, has_vocabulary),
        *streamed("embedding_dropout", "element_wise", residual_tokens, dimensionality, *drop, mask, drops),
    )


@parameter("count", category=NETWORK, at_least=0)
def cross_entropy_kernels():
    """Kernels of a cross-entropy forward, each over all logits: cast, maximum, difference, exponential, sum, logarithm.

    Source: Megatron-LM, vocab_parallel_cross_entropy.
    """
    return 6


@records()
def head_operators(
    head_gemms, residual_tokens, residual_bytes, dimensionality, final_norm, norm_vectors, activation_precision,
    gradient_precision, logits_precision, has_vocabulary, cross_entropy_kernels, fused_cross_entropy,
    flops_per_multiply_accumulate, flops_per_elementary_operation, multi_token_prediction_layers, prediction_operators,
):  # fmt: skip
    """Final norm, output head, and the cross-entropy over its share of the vocabulary, in full precision.

    The head keeps 16 bit where layers have fp8. Source: arXiv 2205.05198, section 4.3; Megatron-LM,
    vocab_parallel_cross_entropy; NVIDIA Transformer Engine, fp8 (the output layer stays out). Each keeps its input.
    """
    (head,), flop, times = head_gemms, flops_per_elementary_operation, 1 + multi_token_prediction_layers
    norms = final_norm + 3 * multi_token_prediction_layers
    size, weights = residual_tokens * dimensionality, norm_vectors * dimensionality * activation_precision
    norm = ((7 * size * flop, residual_bytes + weights, residual_bytes),
            (13 * size * flop, 4 * residual_bytes + weights, residual_bytes + weights))  # fmt: skip
    logits, wide = head.m * head.n, head.m * head.n * logits_precision
    narrow, passes, apart = logits * activation_precision, cross_entropy_kernels, 1 - fused_cross_entropy
    loss = ((passes * logits * flop, narrow + apart * (passes - 2) * wide, apart * (passes - 3) * wide, logits),
            (3 * logits * flop, apart * 3 * wide + fused_cross_entropy * narrow, apart * 2 * wide + narrow, logits))  # fmt: skip
    entry = (flops_per_multiply_accumulate, activation_precision, activation_precision, gradient_precision)
    return (
        *streamed("final_norm", "normalisation", residual_tokens, dimensionality, *norm, residual_bytes, norms),
        *contraction(head, *entry, residual_bytes, has_vocabulary * times, "head_contraction"),
        *streamed(
            "cross_entropy",
            "loss",
            head.m,
            head.n,
            *loss,
            apart * wide + fused_cross_entropy * narrow,
            has_vocabulary * times,
        ),
        *prediction_operators,
    )


@quantity("count")
def updated_parameters(
    shared_parameters_per_accelerator, expert_parameters_per_accelerator, optimizer_state_shards,
    expert_optimizer_state_shards,
):  # fmt: skip
    """Parameters whose states one accelerator holds, itself or on its host. Source: arXiv 1910.02054, section 5.1."""
    experts = expert_parameters_per_accelerator / expert_optimizer_state_shards
    return shared_parameters_per_accelerator / optimizer_state_shards + experts


@parameter("boolean", category=NETWORK)
def gradient_clipping():
    """Whether gradients are scaled down to a norm of at most some bound, which passes over them twice.

    Source: arXiv 1211.5063; Megatron-LM, --clip-grad 1.0.
    """
    return 1


@records()
def optimizer_operators(
    device_updated_parameters, gradient_precision, optimizer_state_precision, weight_precision,
    optimizer_states_per_parameter, full_precision_copies, flops_per_elementary_operation, gradient_clipping,
):  # fmt: skip
    """An optimizer step in mixed precision: scale undone, norm, clipping, update of the states, weights copied, reset.

    Source: Megatron-LM, Float16OptimizerWithFloat16Params; arXiv 1710.03740. Adam takes about 15 operations a parameter;
    a weight without a copy in full precision is updated itself.
    """
    p, g, s, w = device_updated_parameters, gradient_precision, optimizer_state_precision, weight_precision
    flop, none = flops_per_elementary_operation, 0.0 * gradient_precision
    states = optimizer_states_per_parameter * s + (1 - full_precision_copies) * w
    parts = (
        ("gradient_unscale", 1, g, s, 1.0),
        ("gradient_norm", 2, s, none, gradient_clipping),
        ("gradient_clip", 1, s, s, gradient_clipping),
        ("optimizer_update", 15, s + states, states, 1.0),
        ("weight_copy", 0, s, w, full_precision_copies),
        ("gradient_reset", 0, none, g, 1.0),
    )
    used, functions = 1.0 * (optimizer_states_per_parameter > 0), {"optimizer_update": UPDATE_FUNCTIONS}
    return tuple(
        Operator(name, "element_wise", "update", p, 1.0, 0.0, 1.0, flops * p * flop, p * read, p * written, 0.0 * p * g,
                 1.0, used * calls, functions=functions.get(name, 0.0) * p)
        for name, flops, read, written, calls in parts
    )  # fmt: skip
