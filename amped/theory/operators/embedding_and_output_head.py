"""The operators at the two ends of the network: embedding, output head with its loss, and multi-token prediction."""

import numpy as np

from amped.theory.language.quantity import NETWORK, parameter, quantity, records
from amped.theory.nouns.kernel_work import CROSS_ENTROPY, DROPOUT, EMBEDDING, NORM, Traffic, Work, contraction, streamed
from amped.theory.nouns.parameter_classes import EMBEDDINGS
from amped.theory.nouns.records import Gemm


@records()
def embedding_operators(
    microbatch_tokens,
    residual_tokens,
    dimensionality,
    dropout,
    dropout_mask_bytes,
    has_vocabulary,
    stream_expansion_operators,
    entry_costs,
):
    """The lookup of the rows of the embedding table, and their dropout.

    The backward pass adds the gradients to the gradient of the table, unless the table is frozen.

    Source: arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.3.
    """
    (cost,), entries, residuals = entry_costs, microbatch_tokens * dimensionality, residual_tokens * dimensionality
    positions, gradients, mask = entries * cost.activation, entries * cost.gradient, residuals * dropout_mask_bytes
    lookup = cost.of(EMBEDDING.forward, entries) + Traffic(read=positions)
    gradient = Traffic(EMBEDDING.backward.flops * entries * cost.flop, positions + gradients, gradients)
    dropped = cost.of(DROPOUT, residuals) + Work(Traffic(written=mask), Traffic(read=mask), mask)
    shape, drops = ("element_wise", residual_tokens, dimensionality), has_vocabulary * (dropout > 0)
    backward = {True: None}.get(EMBEDDINGS in cost.frozen, gradient)
    looked_up = ("element_wise", microbatch_tokens, dimensionality, Work(lookup, backward))
    return (
        *streamed("embedding", *looked_up, count=has_vocabulary),
        *streamed("embedding_dropout", *shape, dropped, count=drops, after=("embedding",)),
        *stream_expansion_operators,
    )


@parameter("count", category=NETWORK, at_least=0)
def cross_entropy_kernels():
    """The number of kernels of a forward cross-entropy: cast, maximum, difference, exponential, sum, logarithm.

    Each kernel reads and writes all logits.

    Source: Megatron-LM, vocab_parallel_cross_entropy.
    """
    return CROSS_ENTROPY.forward.flops


@quantity("1")
def predicted_token_fraction(predicted_tokens_per_sequence, context):
    """The share of the tokens that the loss predicts. Source: arXiv 1810.04805, section 3.1 (masked tokens)."""
    return predicted_tokens_per_sequence / context


@quantity("count")
def predicted_tokens(microbatch_tokens, predicted_token_fraction):
    """The tokens of a micro-batch that the loss predicts. Source: arXiv 1810.04805, section 3.1 (masked tokens)."""
    return microbatch_tokens * predicted_token_fraction


@records()
def output_head_gemms(predicted_tokens, vocabulary_size, dimensionality, tensor_parallel_rows):
    """The matrix product of the output head for one micro-batch. Source: Megatron-LM, parallel output head."""
    logits = vocabulary_size / tensor_parallel_rows
    return (Gemm("output_head", predicted_tokens, logits, dimensionality, weights=EMBEDDINGS),)


@quantity("count")
def loss_vocabulary(vocabulary_size, tensor_parallel_rows, gathered_logits):
    """The number of logits of a token on one accelerator: its share of the vocabulary, or all if they are gathered.

    Source: Megatron-LM, vocab_parallel_cross_entropy; PyTorch, ColwiseParallel (output_layouts). Differs: the time to
    gather the logits is left out.
    """
    return np.where(gathered_logits > 0, vocabulary_size, vocabulary_size / tensor_parallel_rows)


@records()
def output_head_operators(
    final_norm_operators,
    output_head_gemms,
    product_input_tokens,
    dimensionality,
    predicted_token_fraction,
    has_vocabulary,
    multi_token_prediction_layers,
    cross_entropy_operators,
    multi_token_prediction_operators,
    entry_costs,
):
    """The final norm, the output head, and the cross-entropy over an accelerator's share of the vocabulary.

    The output head stays in 16 bit even if layers use fp8. Each of these operators keeps its input.

    Source: arXiv 2205.05198, section 4.3; NVIDIA Transformer Engine, fp8 (the output layer stays out).
    """
    (cost,), (product,) = entry_costs, output_head_gemms
    head = contraction(
        product,
        cost,
        kind="output_head_contraction",
        stash=product_input_tokens * dimensionality * predicted_token_fraction * cost.activation,
        count=has_vocabulary * (1 + multi_token_prediction_layers),
        after=("final_norm",),
    )
    return final_norm_operators + head + cross_entropy_operators + multi_token_prediction_operators


@records()
def final_norm_operators(
    residual_tokens,
    dimensionality,
    final_norm,
    norm_vectors,
    multi_token_prediction_layers,
    stream_collapse_operators,
    entry_costs,
):
    """The norm before the output head, behind the sum of residual streams, and three for each module of prediction.

    Source: arXiv 2412.19437, section 2.2.
    """
    (cost,), shape = entry_costs, ("normalization", residual_tokens, dimensionality)
    weights = Traffic(read=norm_vectors * dimensionality * cost.activation)
    norm = cost.of(NORM, residual_tokens * dimensionality) + Work(weights, weights._replace(written=weights.read))
    after = ("stream_collapse", "feedforward_residual", "stage_send send_receive", "multi_token_prediction_projection")
    calls = final_norm + 3 * multi_token_prediction_layers
    return stream_collapse_operators + streamed("final_norm", *shape, norm, count=calls, after=after)


@records()
def cross_entropy_operators(
    predicted_tokens,
    loss_vocabulary,
    logits_precision,
    has_vocabulary,
    cross_entropy_kernels,
    fused_cross_entropy,
    multi_token_prediction_layers,
    entry_costs,
):
    """The cross-entropy over an accelerator's share of the vocabulary.

    A fused kernel reads and writes logits in the precision of activations only. Separate kernels also read and write
    logits in `logits_precision`.

    Source: Megatron-LM, vocab_parallel_cross_entropy.
    """
    (cost,), fused = entry_costs, fused_cross_entropy
    logits, passes = predicted_tokens * loss_vocabulary, cross_entropy_kernels
    narrow, wide = logits * cost.activation, logits * logits_precision * (1 - fused)
    functions, flops = CROSS_ENTROPY.forward.functions * logits, passes * logits * cost.flop
    forward = Traffic(flops, narrow + (passes - 2) * wide, (passes - 3) * wide, functions)
    gradient = cost.of(CROSS_ENTROPY.backward, logits)
    backward = gradient._replace(read=3 * wide + fused * narrow, written=2 * wide + narrow)
    work = Work(forward, backward, CROSS_ENTROPY.kept * (wide + fused * narrow))
    calls = has_vocabulary * (1 + multi_token_prediction_layers)
    return streamed(
        "cross_entropy", "loss", predicted_tokens, loss_vocabulary, work, count=calls, after=("output_head",)
    )


# --- multi-token prediction ------------------------------------------------------------------------------------------


@records()
def multi_token_prediction_gemms(
    microbatch_tokens, dimensionality, tensor_parallel_rows, multi_token_prediction_layers
):
    """The matrix product that projects a token's state and the next token's embedding into one vector.

    Source: arXiv 2412.19437, eq. 21.
    """
    shape = (microbatch_tokens, dimensionality / tensor_parallel_rows, 2 * dimensionality)
    return (Gemm("multi_token_prediction_projection", *shape, count=multi_token_prediction_layers),)


@records()
def multi_token_prediction_operators(multi_token_prediction_gemms, residual_bytes, entry_costs):
    """The projection of a token's state and the next token's embedding into one vector. The operator keeps both inputs.

    Source: arXiv 2412.19437, eq. 21.
    """
    (projection,), after = multi_token_prediction_gemms, ("feedforward_residual", "stage_send send_receive")
    return contraction(projection, entry_costs[0], stash=2 * residual_bytes, count=projection.count, after=after)
