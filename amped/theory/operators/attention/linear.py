"""Linear attention: queries, keys and values, a short convolution, a state that tokens change in turn, a gated norm.

A chunk of tokens is computed as matrix products, and then passes its state on. Each kind has a page with its products:
`gated_delta_net`, `kimi_delta_attention` and `mamba2`. In Mamba-2 the groups are the heads of queries and keys (C and
B), and the heads are those of values. Tensor parallelism splits heads; context parallelism exchanges tokens for heads.

A network without layers of linear attention has none of these operators. What is not modeled: that a state begins anew
with each document of a packed sequence, which makes some chunks shorter.
"""

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import NORM, Traffic, Work, contraction, operator, streamed
from amped.theory.nouns.layer_kinds import IN_LINEAR
from amped.theory.nouns.mixer_work import BACKWARD_TRAFFIC, HALF
from amped.theory.nouns.places import PROJECTION_INPUTS

# An activation x·sigmoid(x): an exponential, a quotient, a sum and a product. Source: arXiv 1702.03118, eq. 5.
SILU = Traffic(flops=2, functions=2)
# The decay of a state: a sum, softplus and an exponential. Source: arXiv 2412.06464, section 3.4.
DECAY = Traffic(flops=6, read=1, written=2, functions=3)
# A norm whose output is multiplied by the SiLU of a gate. Source: arXiv 2412.06464, section 3.4.
GATED_NORM = NORM + Work(Traffic(read=1) + SILU, Traffic(read=1, written=1) + SILU * 2, kept=1)


@family(
    named=("linear_key_bytes", "linear_value_bytes"),
    TENSOR=("key", "value"),
    WIDTH=("linear_key_width", "linear_value_width"),
)
@quantity("byte")
def linear_TENSOR_bytes(microbatch_tokens, WIDTH, tensor_parallel_rows, activation_precision):
    """The size of the TENSORs of linear attention for a micro-batch on one accelerator.

    Source: arXiv 2412.06464, section 3.4.
    """
    return microbatch_tokens * WIDTH / tensor_parallel_rows * activation_precision


@quantity("byte")
def linear_convolved_bytes(linear_key_bytes, linear_value_bytes):
    """The size of what the short convolution passes over: queries, keys and values. Queries are as large as keys.

    Source: arXiv 2412.06464, section 3.4.
    """
    return 2 * linear_key_bytes + linear_value_bytes


@quantity("count")
def linear_state_heads(linear_value_heads, tensor_parallel_rows):
    """The heads of linear attention on one accelerator; each has a state. Source: arXiv 2412.06464, section 3.4."""
    return linear_value_heads / tensor_parallel_rows


@records()
def linear_projection_operators(linear_attention_gemms, linear_input_bytes, linear_attention_fraction, entry_costs):
    """The projection into queries, keys, values and gates, and the one behind the gated norm. Both keep their inputs.

    Source: arXiv 2412.06464, section 3.4.
    """
    (cost,), (into, out), calls = entry_costs, linear_attention_gemms, {"count": linear_attention_fraction}
    kept, after = out.m * out.k * cost.operand, ("linear_gated_norm",)
    return (
        *contraction(into, cost, stash=linear_input_bytes, after=PROJECTION_INPUTS, part=IN_LINEAR, **calls),
        *contraction(out, cost, stash=kept, after=after, part=IN_LINEAR, **calls),
    )


@records()
def linear_convolution_operators(
    microbatch_tokens, linear_convolved_bytes, linear_convolution_width, linear_attention_fraction, entry_costs
):
    """The convolution of queries, keys and values over a few tokens, each channel by itself, with its SiLU.

    It keeps its input. The backward pass reads it, and the gradient of the output.

    Source: arXiv 2412.06464, section 3.4; Dao-AILab/causal-conv1d, causal_conv1d_interface.py (SiLU in the kernel).
    """
    (cost,), taps = entry_costs, Traffic(flops=2 * linear_convolution_width)
    work = Work(taps + SILU + Traffic(read=1, written=1), taps * 2 + SILU * 2 + Traffic(read=2, written=1), kept=1)
    entries = linear_convolved_bytes / cost.activation
    return streamed(
        "linear_convolution",
        "short_convolution",
        microbatch_tokens,
        entries / microbatch_tokens,
        cost.of(work, entries),
        count=linear_attention_fraction,
        after=("linear_projection", "linear_heads all_to_all"),
        part=IN_LINEAR,
    )


@records()
def linear_decay_operators(
    microbatch_tokens, linear_decay_width, tensor_parallel_rows, linear_attention_fraction, entry_costs
):
    """The decay of the states by each token, in single precision, which the scan reads.

    Source: arXiv 2412.06464, section 3.4; arXiv 2405.21060, section 7.1 (parameterization of the decay).
    """
    (cost,), width = entry_costs, linear_decay_width / tensor_parallel_rows
    work = Work(DECAY, DECAY + Traffic(flops=6, read=2), kept=1)
    return streamed(
        "linear_decay",
        "element_wise",
        microbatch_tokens,
        width,
        cost.of(work, microbatch_tokens * width),
        count=linear_attention_fraction,
        after=("linear_projection",),
        part=IN_LINEAR,
    )


@family(
    named=("linear_head_norm_operators__gated_delta_net", "linear_head_norm_operators__kimi_delta_attention"),
    KIND=("gated_delta_net", "kimi_delta_attention"),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_head_norm_operators__KIND(microbatch_tokens, linear_key_bytes, linear_attention_fraction, entry_costs):
    """The norms of queries and keys to the length 1, head by head. They keep their outputs, as the scan does.

    Source: arXiv 2412.06464, section 3.4 (L2 normalization).
    """
    (cost,) = entry_costs
    entries = 2 * linear_key_bytes / cost.activation
    return streamed(
        "linear_head_norm",
        "normalization",
        microbatch_tokens,
        entries / microbatch_tokens,
        cost.of(NORM, entries)._replace(kept=0.0),
        count=linear_attention_fraction,
        after=("linear_convolution",),
        part=IN_LINEAR,
    )


@records()
def linear_scan_operators(
    linear_scan_work,
    linear_convolved_bytes,
    linear_state_heads,
    linear_chunk_tokens,
    microbatch_tokens,
    context,
    linear_attention_fraction,
    entry_costs,
):
    """The scan over chunks: products within each chunk, and a state that one chunk hands on to the next.

    It keeps queries, keys and values, and the scores of each chunk. All its kernels are one operator.

    Source: arXiv 2412.06464, section 3.3; arXiv 2405.21060, section 6; flash-linear-attention 0.4,
    ops/gated_delta_rule/chunk.py.
    """
    (work,), (cost,), heads = linear_scan_work, entry_costs, linear_state_heads
    flop, moved = cost.product / 2, work.moved / HALF * cost.activation
    forward = Traffic(work.flops * flop, read=moved)
    backward = Traffic(work.backward_flops * flop, read=BACKWARD_TRAFFIC * moved)
    kept = linear_convolved_bytes + microbatch_tokens * heads * linear_chunk_tokens * cost.activation
    sides = (context, heads, linear_chunk_tokens, microbatch_tokens / context)
    calls = {"count": linear_attention_fraction, "part": IN_LINEAR}
    after = ("linear_convolution", "linear_head_norm", "linear_decay")
    return (
        operator("linear_scan", "chunked_scan", "forward", sides, forward, stash=kept, after=after, **calls),
        operator("linear_scan", "chunked_scan", "input_gradient", sides, backward, **calls),
    )


@records()
def linear_output_norm_operators(microbatch_tokens, linear_value_bytes, linear_attention_fraction, entry_costs):
    """The norm of what the states give, times the SiLU of the gate. It keeps both.

    Source: arXiv 2412.06464, section 3.4.
    """
    (cost,) = entry_costs
    entries = linear_value_bytes / cost.activation
    return streamed(
        "linear_gated_norm",
        "normalization",
        microbatch_tokens,
        entries / microbatch_tokens,
        cost.of(GATED_NORM, entries),
        count=linear_attention_fraction,
        after=("linear_scan", "linear_outputs all_to_all"),
        part=IN_LINEAR,
    )


@family(
    named=(
        "linear_attention_operators__gated_delta_net",
        "linear_attention_operators__kimi_delta_attention",
        "linear_attention_operators__mamba2",
        "linear_attention_operators__lightning_attention",
    ),
    KIND=("gated_delta_net", "kimi_delta_attention", "mamba2", "lightning_attention"),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_attention_operators__KIND(
    linear_projection_operators,
    linear_convolution_operators,
    linear_decay_operators,
    linear_head_norm_operators,
    linear_scan_operators,
    linear_output_norm_operators,
):
    """The operators of linear attention from its input to its output. Source: arXiv 2412.06464, section 3.4."""
    before = linear_projection_operators + linear_convolution_operators + linear_decay_operators
    return before + linear_head_norm_operators + linear_scan_operators + linear_output_norm_operators
