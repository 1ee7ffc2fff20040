"""The gated delta net: a token writes its value to the state at its key, after what the state held there is taken out.

    S = α·S·(1 − β·k·kᵀ) + β·v·kᵀ,  o = S·q,

with a decay α and a rate β for each token and head (arXiv 2412.06464, eq. 10).
"""

from amped.theory.language.quantity import family, records
from amped.theory.nouns.records import Gemm


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
    named=("linear_scan_gemms__gated_delta_net", "linear_scan_gemms__kimi_delta_attention"),
    KIND=("gated_delta_net", "kimi_delta_attention"),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_scan_gemms__KIND(
    microbatch_tokens,
    linear_state_heads,
    linear_key_head_dimension,
    linear_value_head_dimension,
    linear_chunk_tokens,
):
    """The products of the delta rule in the chunks of a micro-batch, for all heads on one accelerator.

    Keys times keys give the matrix T that undoes the rank-one changes of a chunk; its inverse is not counted. T weights
    keys (W) and values (U). The new values are U − W·S; the output is q·S and the scores of the chunk times new values.

    Source: arXiv 2412.06464, section 3.3 (eq. 11 to 13).
    """
    chunk, key, value = linear_chunk_tokens, linear_key_head_dimension, linear_value_head_dimension
    each = {"batch": microbatch_tokens / chunk * linear_state_heads}
    return (
        Gemm("linear_keys", chunk, chunk, key, **each),
        Gemm("linear_weighted_keys", chunk, key, chunk, **each),
        Gemm("linear_weighted_values", chunk, value, chunk, **each),
        Gemm("linear_states", chunk, value, key, **each),
        Gemm("linear_scores", chunk, chunk, key, **each),
        Gemm("linear_outputs", chunk, value, key, **each),
        Gemm("linear_values", chunk, value, chunk, **each),
        Gemm("linear_updates", key, value, chunk, **each),
    )
