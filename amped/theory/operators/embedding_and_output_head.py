"""The operators at the two ends of the network: the embedding, the output head with its loss, and further predictions."""

from amped.theory.quantity import NETWORK, parameter, records
from amped.theory.records import Gemm, contraction, streamed


@records()
def embedding_operators(
    microbatch_tokens,
    residual_tokens,
    dimensionality,
    activation_precision,
    gradient_precision,
    dropout,
    dropout_mask_bytes,
    has_vocabulary,
    flops_per_elementary_operation,
):
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
def output_head_gemms(microbatch_tokens, vocabulary_size, dimensionality, tensor_parallel_rows):
    """The output head, once for a micro-batch. Source: Megatron-LM, parallel output head."""
    return (Gemm("output_head", microbatch_tokens, vocabulary_size / tensor_parallel_rows, dimensionality, 1.0, 1.0),)


@records()
def output_head_operators(
    output_head_gemms, residual_tokens, residual_bytes, dimensionality, final_norm, norm_vectors,
    activation_precision, gradient_precision, logits_precision, has_vocabulary, cross_entropy_kernels,
    fused_cross_entropy, flops_per_multiply_accumulate, flops_per_elementary_operation,
    multi_token_prediction_layers, multi_token_prediction_operators,
):  # fmt: skip
    """Final norm, output head, and the cross-entropy over its share of the vocabulary, in full precision.

    The head keeps 16 bit where layers have fp8. Source: arXiv 2205.05198, section 4.3; Megatron-LM,
    vocab_parallel_cross_entropy; NVIDIA Transformer Engine, fp8 (the output layer stays out). Each keeps its input.
    """
    (head,), flop, times = output_head_gemms, flops_per_elementary_operation, 1 + multi_token_prediction_layers
    norms = final_norm + 3 * multi_token_prediction_layers
    size, weights = residual_tokens * dimensionality, norm_vectors * dimensionality * activation_precision
    norm = (
        (7 * size * flop, residual_bytes + weights, residual_bytes),
        (13 * size * flop, 4 * residual_bytes + weights, residual_bytes + weights),
    )
    logits, wide = head.m * head.n, head.m * head.n * logits_precision
    narrow, passes, apart = logits * activation_precision, cross_entropy_kernels, 1 - fused_cross_entropy
    loss = (
        (passes * logits * flop, narrow + apart * (passes - 2) * wide, apart * (passes - 3) * wide, logits),
        (3 * logits * flop, apart * 3 * wide + fused_cross_entropy * narrow, apart * 2 * wide + narrow, logits),
    )
    entry = (flops_per_multiply_accumulate, activation_precision, activation_precision, gradient_precision)
    return (
        *streamed("final_norm", "normalization", residual_tokens, dimensionality, *norm, residual_bytes, norms),
        *contraction(head, *entry, residual_bytes, has_vocabulary * times, "output_head_contraction"),
        *streamed(
            "cross_entropy",
            "loss",
            head.m,
            head.n,
            *loss,
            apart * wide + fused_cross_entropy * narrow,
            has_vocabulary * times,
        ),
        *multi_token_prediction_operators,
    )


# --- multi-token prediction ------------------------------------------------------------------------------------------


@records()
def multi_token_prediction_gemms(
    microbatch_tokens, dimensionality, tensor_parallel_rows, multi_token_prediction_layers
):
    """Projection of a token's state and the next token's embedding into one. Source: arXiv 2412.19437, eq. 21."""
    width = dimensionality / tensor_parallel_rows
    return (
        Gemm(
            "multi_token_prediction_projection",
            microbatch_tokens,
            width,
            2 * dimensionality,
            1.0,
            multi_token_prediction_layers,
        ),
    )


@records()
def multi_token_prediction_operators(
    multi_token_prediction_gemms,
    residual_bytes,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    flops_per_multiply_accumulate,
):
    """That projection, which keeps both inputs. Source: arXiv 2412.19437, eq. 21."""
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    (projection,) = multi_token_prediction_gemms
    return contraction(projection, *entry, 2 * residual_bytes, projection.count)
