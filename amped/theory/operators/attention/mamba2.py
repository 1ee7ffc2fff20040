"""Mamba-2: a state space whose state decays by one number for each token and head (arXiv 2405.21060, section 2.1).

    S = a·S + (Δ·x)·Bᵀ,  y = S·C + D·x.

Keys are B, queries are C, which the heads of a group share, and values are x.
"""

from amped.theory.language.quantity import family, records
from amped.theory.nouns.mixer_work import state_space_bytes, state_space_flops
from amped.theory.nouns.records import Gemm, ScanWork


@records(choice="linear_attention_kind", value="mamba2")
def linear_attention_gemms__mamba2(
    microbatch_tokens,
    dimensionality,
    linear_key_width,
    linear_value_width,
    linear_value_heads,
    tensor_parallel_rows,
):
    """The projection into gates, x, B, C and steps Δ, and the one behind the gated norm.

    Source: arXiv 2405.21060, section 7.1; state-spaces/mamba, modules/mamba2.py (in_proj, out_proj).
    """
    width = 2 * linear_key_width + 2 * linear_value_width + linear_value_heads
    return (
        Gemm("linear_projection", microbatch_tokens, width / tensor_parallel_rows, dimensionality),
        Gemm("linear_attention_output", microbatch_tokens, dimensionality, linear_value_width / tensor_parallel_rows),
    )


@family(
    named=("linear_scan_work__mamba2", "linear_scan_work__lightning_attention"),
    KIND=("mamba2", "lightning_attention"),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_scan_work__KIND(
    microbatch_tokens,
    linear_key_heads,
    linear_state_heads,
    linear_key_head_dimension,
    linear_value_head_dimension,
    linear_chunk_tokens,
    tensor_parallel_rows,
):
    """The operations and the bytes in the chunks of a micro-batch, for all heads and groups on one accelerator.

    Lightning attention has the same products, and a group for each head. The backward pass has the gradients of both
    factors of each product.

    Source: arXiv 2405.21060, section 6 (diagonal blocks, right, center and left factors);
    arXiv 2501.08313, section 2.2.
    """
    groups = linear_key_heads / tensor_parallel_rows
    widths = linear_value_head_dimension, linear_key_head_dimension, groups, linear_chunk_tokens
    flops = state_space_flops(microbatch_tokens, linear_state_heads, *widths)
    moved = state_space_bytes(microbatch_tokens, linear_state_heads, *widths)
    return (ScanWork("scan", flops=flops, backward_flops=2 * flops, moved=moved),)
