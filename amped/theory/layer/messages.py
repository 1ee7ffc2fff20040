"""The messages of a micro-batch in one layer, and the kernels beside which they may run.

A second of kernels hides at most one second of messages. Matrix products hide gathers and scatters in chunks. Weight
gradients hide the reduction of input gradients. Attention hides the exchange of keys and values. Each page of a
parallelism says which part of its messages may run beside which kernels; `waits` hands the kernels out.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.layer_kinds import LINEAR
from amped.theory.nouns.layer_records import KindTime, LayerMessages, MessagePart, Messages
from amped.theory.nouns.parallelisms import OF_TOKENS
from amped.theory.nouns.places import REPEATED_GATHERS
from amped.theory.nouns.records import time_of, total
from amped.theory.nouns.resources import positive

GATHER_AND_SCATTER = ("all_gather", "reduce_scatter")

# --- tensor parallelism ----------------------------------------------------------------------------------------------


@quantity("1")
def overlapped_chunk_fraction(tensor_parallel_rows, tensor_chunk_overlap_fraction, inter_node_tensor_parallel_degree):
    """The share of an all-gather or a reduce-scatter that can run beside matrix products.

    The message is cut into as many chunks as the tensor-parallel grid has rows. All chunks but one can overlap. Chunks
    travel over the fast network only: none overlaps if the group spans several nodes.

    Source: NVIDIA Transformer Engine 2, comm_gemm_overlap.cpp (split_overlap_ag, split_overlap_rs), userbuffers (the
    group of a domain that reads one another's memory).
    """
    others = (1 - 1 / tensor_parallel_rows) * tensor_chunk_overlap_fraction
    return others * (inter_node_tensor_parallel_degree <= 1)


@quantity("s")
def chunking_time(tensor_parallel_rows, collective_overhead_time, kernel_overhead_time):
    """The time that a message loses because it is cut into chunks, at most that which runs beside products.

        (rows − 1) · (time of a call of a collective + time of a kernel besides its work)

    Each further chunk is one more message, and one more product that waits for it.

    Source: NVIDIA Transformer Engine 2, comm_gemm_overlap.cpp (an event, a send and a product for each chunk). Differs:
    that smaller products also use the processors less evenly is left out.
    """
    return (tensor_parallel_rows - 1) * (collective_overhead_time + kernel_overhead_time)


@records()
def tensor_messages(
    tensor_durations,
    layer_kinds,
    gathered_gradient_layouts,
    overlapped_chunk_fraction,
    chunking_time,
    overlap_forward_tensor_communication,
    overlap_tensor_communication,
    weight_gradients_hide_reductions,
):
    """The tensor-parallel messages of each pass of a layer of each kind.

    A forward pass hides gathers and scatters in chunks beside its products. A backward pass reduces as much as a
    forward pass; where the forward pass has scattered, it also gathers gradients, in chunks beside the products that
    use them. It gathers the inputs of products again beside any of its kernels, and reduces beside weight gradients.
    Where each projection of a block gathers its input, it also reduces the gradient of the input.

    Source: arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.2.2; Megatron-LM,
    LinearWithGradAccumulationAndAsyncCommunication; NVIDIA Transformer Engine, user buffers (proj_dgrad, fc2_dgrad).
    """
    layers, overlap = [], overlap_tensor_communication
    chunks, in_chunks = overlapped_chunk_fraction, overlap_forward_tensor_communication
    for kind in layer_kinds:
        sent = kind.durations(tensor_durations)
        once = [d for d in sent if d.name not in REPEATED_GATHERS]
        gathers, scatters = (time_of(d for d in once if d.kind == name) for name in GATHER_AND_SCATTER)
        gather_calls, scatter_calls = (total(d.count for d in once if d.kind == name) for name in GATHER_AND_SCATTER)
        whole, gradients = time_of(sent), gathers * gathered_gradient_layouts
        in_passes = positive((gathers + scatters) * chunks - (gather_calls + scatter_calls) * chunking_time)
        of_gradients = positive(gathers * chunks - gather_calls * chunking_time) * gathered_gradient_layouts
        reducing = overlap * weight_gradients_hide_reductions
        gradient_parts = (
            MessagePart("inputs", gathers, window="every", share=1.0, overlap=overlap),
            MessagePart("gradients", of_gradients, window="products", share=1.0, overlap=in_chunks),
            MessagePart(
                "reductions", whole - gathers, window="weight_gradients", share=1.0, overlap=reducing, needed_first=True
            ),
        )
        part = MessagePart("chunks", in_passes, window="products", share=1.0, overlap=in_chunks)
        forward = Messages("tensor", whole, (part,))
        gradient = Messages("tensor", whole + gradients, gradient_parts)
        layers.append(LayerMessages(kind.name, forward=forward, repeated=forward, gradient=gradient))
    return tuple(layers)


@records(choice="tensor_parallel_strategy", value="2d_summa")
def tensor_messages__2d_summa(
    tensor_durations, layer_durations, layer_kinds, summa_panels, overlap_tensor_communication
):
    """The messages of SUMMA in each pass of a layer of each kind; products hide broadcasts and reductions of panels.

    A panel is the part of an operand that SUMMA multiplies at a time. The backward pass sends twice as many panels as
    the forward pass. It all-reduces equally many sums of norms and of the softmax.

    Source: arXiv 2410.00273, section 3.
    """
    whole_time = time_of(tensor_durations)
    sums = time_of(d for d in tensor_durations if d.kind == "all_reduce")

    def panels(phase, window):
        """The panels of one pass that run beside the kernels of a window."""
        time = overlapped_panel_time(phase, tensor_durations, layer_durations, summa_panels)
        return MessagePart("panels", time, window, share=1.0, overlap=overlap_tensor_communication)

    forward = Messages("tensor", whole_time, (panels("forward", "every"),))
    gradients = panels("input_gradient", "every"), panels("weight_gradient", "weight_gradients")
    backward = Messages("tensor", 2 * whole_time - sums, gradients)
    return tuple(LayerMessages(kind.name, forward=forward, repeated=forward, gradient=backward) for kind in layer_kinds)


def overlapped_panel_time(phase, messages, kernels, panels):
    """The time in which SUMMA sends parts of its operands (panels) while products of a pass run.

        time = sum over the products: (P − 1)·min(panel time, time of the product / P)·calls.

    A product has P panels of each operand. While one pair is multiplied, the next one is sent, so all but one overlap.

    Args:
        phase: the pass, as in `Operator`.
        messages: the times of the tensor-parallel collectives.
        kernels: the times of the operators of the layer.
        panels: the number of panels of each operand.

    Source: arXiv 2410.00273, section 3. Differs: the code of the paper waits for one panel more.
    """
    times = {message.name: message.time for message in messages}
    products = [kernel for kernel in kernels if kernel.phase == phase and f"{kernel.name}_inputs" in times]
    panel_times = [times[f"{kernel.name}_inputs"] + times[f"{kernel.name}_weights"] for kernel in products]
    return total(
        (panels - 1) * np.minimum(time, kernel.time / panels) * kernel.count
        for kernel, time in zip(products, panel_times, strict=True)
    )


# --- parallelisms that split the tokens of a sequence ----------------------------------------------------------------


@quantity("1", choice="context_parallel_kind", value="ring")
def context_overlappable_attention_fraction__ring(context_parallel_degree):
    """The share of attention that can run while keys and values travel: all blocks of a ring except the last one.

    Source: arXiv 2310.01889, section 3.
    """
    return (context_parallel_degree - 1) / context_parallel_degree


@family(named=("context_messages",), KIND=OF_TOKENS)
@records()
def KIND_messages(
    KIND_durations, communication_rounds, KIND_overlappable_attention_fraction, overlap_KIND_communication, *, kind
):
    """The KIND-parallel messages of each pass of a layer: keys, values and, in a backward pass, their gradients.

    They may run beside attention. Gradients make one more step around the ring than keys and values; no attention runs
    beside that step. Linear attention waits for its messages.

    Source: arXiv 2310.01889, section 3.
    """
    share, (sent, beside) = KIND_overlappable_attention_fraction, with_linear_attention_apart(KIND_durations)
    gradients = time_of(d for d in sent if d.part.gradients)
    keys = time_of(d for d in sent if not d.part.gradients) / communication_rounds
    every = keys + beside / communication_rounds
    windows = ("attention_core", share, overlap_KIND_communication)
    forward = Messages(kind, every, (MessagePart("keys", keys, *windows),))
    backward = Messages(kind, every + gradients, (MessagePart("gradients", keys + share * gradients, *windows),))
    return (LayerMessages(kind, forward=forward, repeated=forward, gradient=backward),)


def with_linear_attention_apart(durations):
    """The messages of attention, and the time of those of linear attention. Source: definition."""
    linear = [d for d in durations if d.part.block == LINEAR]
    return [d for d in durations if d.part.block != LINEAR], time_of(linear)


@records(choice="context_parallel_kind", value="ring", when_given=("split_context_degree",))
def context_messages__dynamic(
    context_durations,
    communication_rounds,
    context_parallel_degree,
    split_context_degree,
    whole_context_work_fraction,
    split_work_fraction,
    overlap_context_communication,
):
    """The messages of each pass of a layer on rings of several sizes; those of a ring run beside its own attention.

    A ring of the whole context group has the share `whole_context_work_fraction` of the attention work, and smaller
    rings have `split_work_fraction`. All blocks of a ring except the last one run beside its messages; no attention
    runs beside the last step of the gradients.

    Source: arXiv 2310.01889, section 3; Megatron-Core, datasets/data_schedule.py (DefaultDynamicCPScheduler).
    """
    of_rings, beside = with_linear_attention_apart(context_durations)
    keys, gradients = of_rings[::2], of_rings[1::2]
    blocks = [(degree - 1) / degree for degree in (context_parallel_degree, split_context_degree)]
    whole = whole_context_work_fraction * blocks[0]
    smaller = np.minimum(split_work_fraction * blocks[1] / (1 - whole), 1)  # of what rings of the whole group leave
    windows = [("attention_core", share, overlap_context_communication) for share in (whole, smaller)]
    sent = [time_of((d,)) / communication_rounds for d in keys]
    home = [time_of((d,)) for d in gradients]
    back = [time + block * returned for time, block, returned in zip(sent, blocks, home, strict=True)]
    every = total(sent) + beside / communication_rounds
    forward = Messages("context", every, tuple(map(ring_part, sent, windows)))
    backward = Messages("context", every + total(home), tuple(map(ring_part, back, windows)))
    return (LayerMessages("context", forward=forward, repeated=forward, gradient=backward),)


def ring_part(time, window):
    """The messages of a ring that may run beside attention; `window` has the further fields of `MessagePart`.

    Source: definition.
    """
    return MessagePart("keys", time, *window)


@records(choice="context_parallel_kind", value="hierarchical")
def context_messages__hierarchical(
    context_durations, communication_rounds, context_levels, overlap_context_communication
):
    """The messages of each pass of a layer in a context group of two levels; those of rings may run beside attention.

    Attention waits for the all-to-alls, because it needs the tokens of all neighbors. On the ring, all blocks except
    the last one run beside messages; no attention runs beside the last step of the gradients.

    Source: NVIDIA Transformer Engine, dot_product_attention/context_parallel.py (AttnFuncWithCPAndKVP2P).
    """
    _, ring = context_levels
    share = (ring.degree - 1) / ring.degree
    gradients = time_of(d for d in context_durations if d.part.gradients)
    sent = [d for d in context_durations if not d.part.gradients]
    every = time_of(sent) / communication_rounds
    keys = time_of(d for d in sent if d.kind == "send_receive") / communication_rounds
    windows = ("attention_core", share, overlap_context_communication)
    forward = Messages("context", every, (MessagePart("keys", keys, *windows),))
    backward = Messages("context", every + gradients, (MessagePart("gradients", keys + share * gradients, *windows),))
    return (LayerMessages("context", forward=forward, repeated=forward, gradient=backward),)


# --- grids and experts -----------------------------------------------------------------------------------------------


@family(
    named=(
        "grid_column_gather_time_per_layer__2d_context",
        "grid_column_gather_time_per_layer__2d_summa",
    ),
    STRATEGY=("2d_context", "2d_summa"),
)
@quantity("s", choice="tensor_parallel_strategy", value="STRATEGY")
def grid_column_gather_time_per_layer__STRATEGY(grid_column_durations):
    """The time to gather keys and values over the columns of the grid, for a micro-batch in one layer, in all passes.

    Attention waits for this gather. Source: arXiv 2410.00273, section 3.
    """
    return time_of(grid_column_durations)


@records(choice="feedforward_kind", value="mixture")
def exchange_times__mixture(expert_durations, expert_tensor_durations, layer_kinds):
    """The time to exchange tokens between experts, for a micro-batch in a layer of each kind, in all passes.

    Source: arXiv 2006.16668, section 3.
    """
    return tuple(
        KindTime(kind.name, time_of(kind.durations(expert_durations + expert_tensor_durations))) for kind in layer_kinds
    )


@records()
def exchange_times(layer_kinds):
    """The time to exchange tokens between experts: zero in a dense network. Source: definition."""
    return tuple(KindTime(kind.name, 0.0) for kind in layer_kinds)
