"""Layers that mix tokens entry by entry: the selective scan of Mamba, gated linear recurrences, and short convolutions.

Each has a projection into values and gates, a short convolution of the values, and a projection behind the gates. Two
have a state that each channel changes token by token, without products of chunks:

    Mamba:            s = exp(Δ·A)·s + Δ·x·B,  y = s·C + D·x,  with as many entries of s as B and C have
    gated recurrence: s = a·s + √(1 − a²)·(i·x),  a = exp(−8·r·softplus(Λ)),  with one entry of s

A head of linear attention is a channel of Mamba, or a block of the gates of a recurrence. Tensor parallelism splits
channels; the sum of B, C and the narrow Δ over its ranks is left out.
"""

from amped.theory.language.quantity import family, records
from amped.theory.nouns.kernel_work import Traffic, Work, contraction, streamed
from amped.theory.nouns.layer_kinds import IN_LINEAR
from amped.theory.nouns.places import PROJECTION_INPUTS
from amped.theory.nouns.records import Gemm, ScanWork

# A state is decayed, written and read: a product and a sum each. Source: arXiv 2312.00752, eq. 2.
STATE_FLOPS = 6
# Backward, states are computed again, and both factors of each product have a gradient. Source: definition.
BACKWARD_SCANS = 3
# Operations of a recurrence for an entry: of a root, of products with it and with the input gate, and of the state.
RECURRENCE_FLOPS, RECURRENCE_FUNCTIONS = 8, 2
# The output times an activation function of the gate. Source: arXiv 1702.03118, eq. 5.
GATE = Work(Traffic(4, read=2, written=1, functions=2), Traffic(8, read=3, written=2, functions=2), kept=2)
# Values times a gate before the convolution, and once more behind it. Source: Lfm2ShortConv of transformers.
TWO_GATES = Work(Traffic(2, read=4, written=2), Traffic(4, read=6, written=4), kept=3)


# --- products --------------------------------------------------------------------------------------------------------


@records(choice="linear_attention_kind", value="mamba1")
def linear_attention_gemms__mamba1(
    microbatch_tokens,
    dimensionality,
    linear_value_width,
    linear_key_head_dimension,
    linear_step_rank,
    tensor_parallel_rows,
):
    """The projections into values and gates, into B, C and narrow steps, into steps, and out.

    Source: arXiv 2312.00752, section 3.4; state-spaces/mamba, modules/mamba_simple.py (in_proj, x_proj, dt_proj).
    """
    tokens, channels = microbatch_tokens, linear_value_width / tensor_parallel_rows
    return (
        Gemm("linear_projection", tokens, 2 * channels, dimensionality),
        Gemm("linear_state_projection", tokens, linear_step_rank + 2 * linear_key_head_dimension, channels),
        Gemm("linear_step_projection", tokens, channels, linear_step_rank),
        Gemm("linear_attention_output", tokens, dimensionality, channels),
    )


@records(choice="linear_attention_kind", value="gated_recurrence")
def linear_attention_gemms__gated_recurrence(
    microbatch_tokens, dimensionality, linear_value_head_dimension, linear_state_heads
):
    """The projections into values and gates, two products of each head with a matrix of its own, and the one out.

    Source: arXiv 2402.19427, section 2.4 and appendix A (block-diagonal gates).
    """
    tokens, head = microbatch_tokens, linear_value_head_dimension
    width = linear_state_heads * head
    return (
        Gemm("linear_projection", tokens, 2 * width, dimensionality),
        Gemm("linear_gate_blocks", tokens, 2 * head, head, batch=linear_state_heads),
        Gemm("linear_attention_output", tokens, dimensionality, width),
    )


@records(choice="linear_attention_kind", value="short_convolution")
def linear_attention_gemms__short_convolution(
    microbatch_tokens, dimensionality, linear_value_width, tensor_parallel_rows
):
    """The projection into values and two gates, and the one behind the second gate. Source: Lfm2ShortConv."""
    width = linear_value_width / tensor_parallel_rows
    return (
        Gemm("linear_projection", microbatch_tokens, 3 * width, dimensionality),
        Gemm("linear_attention_output", microbatch_tokens, dimensionality, width),
    )


@family(
    named=(
        "linear_projection_operators__mamba1",
        "linear_projection_operators__gated_recurrence",
        "linear_projection_operators__short_convolution",
    ),
    KIND=("mamba1", "gated_recurrence", "short_convolution"),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_projection_operators__KIND(
    linear_attention_gemms, linear_input_bytes, linear_attention_fraction, entry_costs
):
    """The projection of the input, products of what is convolved, and the projection behind the gate.

    A product keeps its input, unless that is what the scan keeps.

    Source: arXiv 2312.00752, section 3.4; arXiv 2402.19427, section 2.4.
    """
    (cost,), (into, *inner, out) = entry_costs, linear_attention_gemms
    calls, after = {"count": linear_attention_fraction, "part": IN_LINEAR}, ("linear_convolution",)
    operators = contraction(into, cost, stash=linear_input_bytes, after=PROJECTION_INPUTS, **calls)
    for gemm in inner:
        narrow = gemm.m * gemm.k * cost.operand * float(gemm.name == "linear_step_projection")
        operators += contraction(gemm, cost, stash=narrow, after=after, **calls)
        after = (gemm.name,)
    kept = out.m * out.k * cost.operand
    return operators + contraction(out, cost, stash=kept, after=("linear_output_gate",), **calls)


# --- scans and gates -------------------------------------------------------------------------------------------------


@records(choice="linear_attention_kind", value="mamba1")
def linear_scan_work__mamba1(
    microbatch_tokens, linear_value_bytes, linear_state_heads, linear_key_head_dimension, activation_precision
):
    """The operations of the states of all channels, and the bytes of values, steps and outputs.

    Source: arXiv 2312.00752, section 3.3.2; state-spaces/mamba, csrc/selective_scan (one kernel forward, one backward).
    """
    flops = STATE_FLOPS * microbatch_tokens * linear_state_heads * linear_key_head_dimension
    states = 2 * microbatch_tokens * linear_key_head_dimension * activation_precision
    moved = 3 * linear_value_bytes + states
    return (ScanWork("scan", flops=flops, backward_flops=BACKWARD_SCANS * flops, moved=moved),)


@records(choice="linear_attention_kind", value="gated_recurrence")
def linear_scan_work__gated_recurrence(linear_value_bytes, activation_precision):
    """The operations of the state of each entry, and the bytes of values, decays and outputs.

    Source: arXiv 2402.19427, eq. 1 to 4.
    """
    flops = RECURRENCE_FLOPS * linear_value_bytes / activation_precision
    return (ScanWork("scan", flops=flops, backward_flops=BACKWARD_SCANS * flops, moved=3 * linear_value_bytes),)


def scanned(work, functions, value_bytes, tokens, count, cost):
    """The scan over the tokens of each channel, in one kernel that keeps values, and no states.

    Its time is that of its bytes, operations and elementary functions.

    Args:
        work: the operations and the bytes of the scan.
        functions: elementary functions of an entry.
        value_bytes: the bytes of the values.
        tokens: the tokens of a micro-batch.
        count: the number of calls in an average layer.
        cost: the bytes of the entries.

    Source: arXiv 2312.00752, section 3.3.2 (hardware-aware scan); arXiv 2402.19427, section 4.
    """
    entries, third = value_bytes / cost.activation, work.moved / 3
    forward = Traffic(work.flops * cost.flop, 2 * third, third, functions=functions * entries)
    backward = Traffic(work.backward_flops * cost.flop, 4 * third, 2 * third, functions=2 * functions * entries)
    return streamed(
        "linear_scan",
        "element_wise",
        tokens,
        entries / tokens,
        Work(forward, backward, value_bytes),
        count=count,
        after=("linear_convolution", "linear_decay", "linear_state_projection"),
        part=IN_LINEAR,
    )


@records(choice="linear_attention_kind", value="mamba1")
def linear_scan_operators__mamba1(
    linear_scan_work,
    linear_value_bytes,
    linear_key_head_dimension,
    microbatch_tokens,
    linear_attention_fraction,
    entry_costs,
):
    """The selective scan: an exponential for each entry of a state. Source: arXiv 2312.00752, section 3.3.2."""
    (work,), (cost,), states = linear_scan_work, entry_costs, linear_key_head_dimension
    return scanned(work, states, linear_value_bytes, microbatch_tokens, linear_attention_fraction, cost)


@records(choice="linear_attention_kind", value="gated_recurrence")
def linear_scan_operators__gated_recurrence(
    linear_scan_work, linear_value_bytes, microbatch_tokens, linear_attention_fraction, entry_costs
):
    """The scan of a gated recurrence: a root and a sigmoid for each entry. Source: arXiv 2402.19427, eq. 1 to 4."""
    (work,), (cost,) = linear_scan_work, entry_costs
    functions = RECURRENCE_FUNCTIONS
    return scanned(work, functions, linear_value_bytes, microbatch_tokens, linear_attention_fraction, cost)


@family(
    named=(
        "linear_output_norm_operators__mamba1",
        "linear_output_norm_operators__gated_recurrence",
        "linear_output_norm_operators__short_convolution",
    ),
    KIND=("mamba1", "gated_recurrence", "short_convolution"),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_output_norm_operators__KIND(
    microbatch_tokens, linear_value_bytes, linear_attention_fraction, entry_costs, *, kind
):
    """The product with the gate behind the scan, without a norm; in short convolutions both gates.

    Source: arXiv 2312.00752, figure 3; arXiv 2402.19427, figure 2; Lfm2ShortConv of transformers.
    """
    (cost,), work = entry_costs, {"short_convolution": TWO_GATES}.get(kind, GATE)
    entries = linear_value_bytes / cost.activation
    return streamed(
        "linear_output_gate",
        "element_wise",
        microbatch_tokens,
        entries / microbatch_tokens,
        cost.of(work, entries),
        count=linear_attention_fraction,
        after=("linear_scan", "linear_convolution", "linear_outputs all_to_all"),
        part=IN_LINEAR,
    )


@family(
    named=("linear_attention_operators__mamba1", "linear_attention_operators__gated_recurrence"),
    KIND=("mamba1", "gated_recurrence"),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_attention_operators__KIND(
    linear_projection_operators,
    linear_convolution_operators,
    linear_decay_operators,
    linear_scan_operators,
    linear_output_norm_operators,
):
    """The operators of a recurrence from its input to its output. Source: arXiv 2312.00752, figure 3."""
    before = linear_projection_operators + linear_convolution_operators + linear_decay_operators
    return before + linear_scan_operators + linear_output_norm_operators


@records(choice="linear_attention_kind", value="short_convolution")
def linear_attention_operators__short_convolution(
    linear_projection_operators, linear_convolution_operators, linear_output_norm_operators
):
    """The operators of a short convolution between gates. Source: Lfm2ShortConv of transformers."""
    return linear_projection_operators + linear_convolution_operators + linear_output_norm_operators
