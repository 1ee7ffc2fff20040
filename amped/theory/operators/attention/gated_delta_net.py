"""The gated delta net: a token writes its value to the state at its key, after what the state held there is taken out.

    S = α·S·(1 − β·k·kᵀ) + β·v·kᵀ,  o = S·q,

with a decay α and a rate β for each token and head (arXiv 2412.06464, eq. 10).
"""

from amped.theory.language.quantity import family, records
from amped.theory.nouns.mixer_work import (
    delta_rule_backward_flops,
    delta_rule_flops,
    gated_delta_bytes,
    kimi_delta_bytes,
)
from amped.theory.nouns.records import Gemm, ScanWork


@records(choice="linear_attention_kind", value="gated_delta_net")
def linear_attention_gemms__gated_delta_net(
    microbatch_tokens,
    dimensionality,
    linear_key_width,
    linear_value_width,
    linear_value_heads,
    tensor_parallel_rows,
):
    """The projection into queries, keys, values, gates, decays and rates, and the one behind the gated norm.

    Source: arXiv 2412.06464, section 3.4; transformers, Qwen3NextGatedDeltaNet (in_proj_qkvz, in_proj_ba, out_proj).
    """
    width = 2 * linear_key_width + 2 * linear_value_width + 2 * linear_value_heads
    return (
        Gemm("linear_projection", microbatch_tokens, width / tensor_parallel_rows, dimensionality),
        Gemm("linear_attention_output", microbatch_tokens, dimensionality, linear_value_width / tensor_parallel_rows),
    )


@family(
    named=("linear_scan_work__gated_delta_net", "linear_scan_work__kimi_delta_attention"),
    KIND=("gated_delta_net", "kimi_delta_attention"),
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
    *,
    kind,
):
    """The operations and the bytes of the delta rule in the chunks of a micro-batch, for all heads on one accelerator.

    Source: arXiv 2412.06464, section 3.3 (eq. 11 to 13); arXiv 2510.26692, section 3.1.
    """
    sizes = microbatch_tokens, linear_state_heads
    widths = linear_key_head_dimension, linear_value_head_dimension, linear_chunk_tokens
    groups = linear_key_heads / tensor_parallel_rows
    moved, _ = {
        "gated_delta_net": gated_delta_bytes(*sizes, groups, *widths),
        "kimi_delta_attention": kimi_delta_bytes(*sizes, *widths),
    }[kind]
    flops, backward = delta_rule_flops(*sizes, *widths), delta_rule_backward_flops(*sizes, *widths)
    return (ScanWork("scan", flops=flops, backward_flops=backward, moved=moved),)
