"""Kimi delta attention: a gated delta net whose state decays at a rate of its own for each entry of a key.

Decays and gates come from projections of a low rank, the width of a head (arXiv 2510.26692, section 3), or of full
rank. The products in a chunk are those of the gated delta net.
"""

import numpy as np

from amped.theory.language.quantity import records
from amped.theory.nouns.kernel_work import contraction
from amped.theory.nouns.layer_kinds import IN_LINEAR
from amped.theory.nouns.places import PROJECTION_INPUTS
from amped.theory.nouns.records import Gemm


@records(choice="linear_attention_kind", value="kimi_delta_attention")
def linear_attention_gemms__kimi_delta_attention(
    microbatch_tokens,
    dimensionality,
    linear_key_width,
    linear_value_width,
    linear_value_heads,
    linear_gate_rank,
    tensor_parallel_rows,
):
    """The projections into queries, keys, values and rates, those of decays and gates, and the one behind the norm.

    Source: arXiv 2510.26692, section 3; transformers, KimiLinearDeltaAttention.
    """
    tokens, rank, rows = microbatch_tokens, linear_gate_rank, tensor_parallel_rows
    width, narrow = (2 * linear_key_width + linear_value_width + linear_value_heads) / rows, rank > 0
    decays, gates = linear_key_width / rows, linear_value_width / rows
    return (
        Gemm("linear_projection", tokens, width, dimensionality),
        Gemm("linear_decay_down", tokens, np.where(narrow, rank, decays), dimensionality),
        Gemm("linear_decay_up", tokens, np.where(narrow, decays, 0), rank),
        Gemm("linear_gate_down", tokens, np.where(narrow, rank, gates), dimensionality),
        Gemm("linear_gate_up", tokens, np.where(narrow, gates, 0), rank),
        Gemm("linear_attention_output", tokens, dimensionality, linear_value_width / rows),
    )


@records(choice="linear_attention_kind", value="kimi_delta_attention")
def linear_projection_operators__kimi_delta_attention(
    linear_attention_gemms, linear_input_bytes, linear_attention_fraction, linear_gate_rank, entry_costs
):
    """The projections of Kimi delta attention. Those that read the input of the layer keep it once.

    Gates of full rank have no second projection: it is counted zero times, with one entry on its sides.

    Source: arXiv 2510.26692, section 3.
    """
    (cost,), (into, decay_down, decay_up, gate_down, gate_up, out) = entry_costs, linear_attention_gemms

    narrow = 1.0 * (linear_gate_rank > 0)

    def projected(gemm, after, stash, share=1.0):
        """The operators of a product that waits for `after`, and keeps `stash` bytes of its input."""
        sides, count = gemm.having(n=np.maximum(gemm.n, 1), k=np.maximum(gemm.k, 1)), linear_attention_fraction * share
        return contraction(sides, cost, stash=stash, count=count, after=after, part=IN_LINEAR)

    kept = [gemm.m * gemm.k * cost.operand for gemm in (decay_up, gate_up, out)]
    return (
        *projected(into, PROJECTION_INPUTS, linear_input_bytes),
        *projected(decay_down, PROJECTION_INPUTS, 0.0),
        *projected(decay_up, ("linear_decay_down",), kept[0], narrow),
        *projected(gate_down, PROJECTION_INPUTS, 0.0),
        *projected(gate_up, ("linear_gate_down",), kept[1], narrow),
        *projected(out, ("linear_gated_norm", "linear_gate_up"), kept[2]),
    )
