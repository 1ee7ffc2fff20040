"""Lightning attention: a state that decays by a constant of its head (arXiv 2501.08313, section 2.2).

It has no convolution.

S = λ·S + k·vᵀ,  o = q·S.
"""

from amped.theory.language.quantity import records
from amped.theory.nouns.records import Gemm


@records(choice="linear_attention_kind", value="lightning_attention")
def linear_attention_gemms__lightning_attention(
    microbatch_tokens, dimensionality, linear_key_width, linear_value_width, tensor_parallel_rows
):
    """The projection into queries, keys, values and gates, and the one behind the gated norm.

    Source: arXiv 2501.08313, section 2.2; transformers, MiniMaxLightningAttention.
    """
    width = 2 * linear_key_width + 2 * linear_value_width
    return (
        Gemm("linear_projection", microbatch_tokens, width / tensor_parallel_rows, dimensionality),
        Gemm("linear_attention_output", microbatch_tokens, dimensionality, linear_value_width / tensor_parallel_rows),
    )
