"""Context parallelism: how shares of a sequence see the keys and values of the others (`hiding.py`: beside attention)."""

import numpy as np

from amped.quantity import MAPPING, parameter, quantity, records, selector
from amped.records import Collective, total


@selector("ring", "all_gather", "all_to_all", category=MAPPING)
def context_parallel_kind():
    """How shares of a sequence exchange keys and values: passed round, gathered, or for heads (Ulysses).

    Source: arXiv 2310.01889 (ring); arXiv 2407.21783, section 3.3.2 (all_gather); arXiv 2309.14509 (all_to_all).
    """
    return "ring"


@parameter("boolean", category=MAPPING)
def balanced_context_work():
    """Whether each share of a causal sequence has an early and a late block, so that all have as many scores.

    Source: arXiv 2311.09431; Megatron-Core, context parallelism.
    """
    return 1


@quantity("count")
def head_exchange_degree():
    """Accelerators among which heads are exchanged for tokens: one. Source: arXiv 2310.01889."""
    return 1


@quantity("count", choice="context_parallel_kind", value="all_to_all")
def head_exchange_degree__all_to_all(context_parallel_degree):
    """Accelerators among which heads are exchanged for tokens: the context group. Source: arXiv 2309.14509, section 3."""
    return context_parallel_degree


@quantity("count")
def query_split_degree(token_split_degree, head_exchange_degree):
    """Shares of the queries of one head: those of the tokens, unless heads were exchanged for them.

    Source: arXiv 2309.14509, section 3.
    """
    return token_split_degree / head_exchange_degree


@quantity("byte")
def key_value_share_bytes(key_bytes, value_bytes):
    """Keys and values of an accelerator's own tokens. Source: arXiv 2310.01889, section 3."""
    return key_bytes + value_bytes


@quantity("byte")
def context_share_bytes(key_value_share_bytes, tensor_parallel_columns):
    """Keys and values that one member of a context group brings: with what columns of a grid gathered.

    Source: arXiv 2310.01889, section 3.
    """
    return key_value_share_bytes * tensor_parallel_columns


@records(choice="context_parallel_kind", value="ring")
def context_collectives__ring(
    context_share_bytes, context_parallel_degree, intra_node_context_parallel_degree,
    inter_node_context_parallel_degree, attentions_per_layer, communicating_passes,
):  # fmt: skip
    """Keys and values passed round a ring in each pass; backward their gradients beside them, all the way home.

    Source: arXiv 2310.01889, section 3. Assumes that layers with a window pass on everything too, and that attention to
    block after block takes as long as to all at once.
    """
    group = (intra_node_context_parallel_degree, inter_node_context_parallel_degree)
    steps = (context_parallel_degree - 1) * attentions_per_layer * communicating_passes
    home = context_parallel_degree * attentions_per_layer
    return (
        Collective("keys_and_values", "send_receive", context_share_bytes, *group, steps),
        Collective("key_and_value_gradients", "send_receive", context_share_bytes, *group, home),
    )


@records(choice="context_parallel_kind", value="all_gather")
def context_collectives__all_gather(
    context_share_bytes, context_parallel_degree, intra_node_context_parallel_degree,
    inter_node_context_parallel_degree, attentions_per_layer, communicating_passes,
):  # fmt: skip
    """Keys and values gathered from all shares in each pass, their gradients scattered in the backward one.

    Source: arXiv 2407.21783, section 3.3.2.
    """
    group = (intra_node_context_parallel_degree, inter_node_context_parallel_degree)
    volume = context_share_bytes * context_parallel_degree
    return (
        Collective("keys_and_values", "all_gather", volume, *group, attentions_per_layer * communicating_passes),
        Collective("key_and_value_gradients", "reduce_scatter", volume, *group, attentions_per_layer),
    )


@records(choice="context_parallel_kind", value="all_to_all")
def context_collectives__all_to_all(
    query_bytes, attention_output_bytes, key_value_share_bytes, intra_node_context_parallel_degree,
    inter_node_context_parallel_degree, attentions_per_layer, communicating_passes,
):  # fmt: skip
    """Queries, keys and values of own tokens exchanged for those of own heads, and the output back, in each pass.

    Source: arXiv 2309.14509, section 3.
    """
    group = (intra_node_context_parallel_degree, inter_node_context_parallel_degree)
    calls = attentions_per_layer * communicating_passes
    return (
        Collective("heads", "all_to_all", query_bytes + key_value_share_bytes, *group, calls),
        Collective("attended_heads", "all_to_all", attention_output_bytes, *group, calls),
    )


@quantity("byte")
def context_buffer_bytes(context_share_bytes, context_parallel_degree):
    """Buffers of the exchange: the block that attention reads and the one that arrives. Source: arXiv 2310.01889."""
    return 2 * context_share_bytes * (context_parallel_degree > 1)


@quantity("byte", choice="context_parallel_kind", value="all_gather")
def context_buffer_bytes__all_gather(context_share_bytes, context_parallel_degree):
    """Buffers of the exchange: the keys and values of all shares. Source: arXiv 2407.21783, section 3.3.2."""
    return context_share_bytes * context_parallel_degree * (context_parallel_degree > 1)


@quantity("byte", choice="context_parallel_kind", value="all_to_all")
def context_buffer_bytes__all_to_all(
    query_bytes, attention_output_bytes, key_value_share_bytes, context_parallel_degree
):
    """Buffers of the exchange: queries, keys, values and output once more. Source: arXiv 2309.14509, section 3."""
    exchanged = query_bytes + key_value_share_bytes + attention_output_bytes
    return exchanged * (context_parallel_degree > 1)


@quantity("s", choice="performance_model", value="amped")
def exposed_context_communication_time__amped(
    context_collectives, inter_accelerator_bandwidth, inter_accelerator_efficiency, inter_accelerator_latency,
    inter_node_bandwidth_per_accelerator, inter_node_efficiency, inter_node_latency, layer_calls,
):  # fmt: skip
    """Time of context parallelism: its exchanges inside the node and across nodes, one after the other.

    Source: arXiv 2310.01889; arXiv 2309.14509. Differs: AMPeD has none.
    """
    inside = (inter_accelerator_bandwidth * inter_accelerator_efficiency, inter_accelerator_latency)
    across = (inter_node_bandwidth_per_accelerator * inter_node_efficiency, inter_node_latency)
    return layer_calls * total(c.count * CLOSED_TIMES[c.kind](c, inside, across) for c in context_collectives)


def closed_gather_time(c, inside, across):
    """Time to gather or scatter round rings, inside and then across nodes. Source: Thakur et al., IJHPCA 19(1)."""
    near = (c.intra - 1) / c.intra * c.volume / inside[0] + (c.intra - 1) * inside[1]
    return near + (c.inter - 1) / c.inter * c.volume / c.intra / across[0] + (c.inter - 1) * across[1]


def closed_exchange_time(c, inside, across):
    """Time of an all-to-all: the share for other nodes, then the rest inside. Source: AMPeD, expert communication."""
    near = (c.intra - 1) / (c.intra * c.inter) * c.volume / inside[0] + (c.intra - 1) * inside[1]
    return near + (c.inter - 1) / c.inter * c.volume / across[0] + (c.inter - 1) * across[1]


def closed_send_time(c, inside, across):
    """Time to hand a block to a neighbour, across nodes if any neighbour is there. Source: Hockney, 1994 (α–β)."""
    near, far = c.volume / inside[0] + inside[1], c.volume / across[0] + across[1]
    return np.where(c.inter > 1, far, near * (c.intra > 1))


CLOSED_TIMES = {"all_gather": closed_gather_time, "reduce_scatter": closed_gather_time,
                "all_to_all": closed_exchange_time, "send_receive": closed_send_time}  # fmt: skip


# --- in a layer ------------------------------------------------------------------------------------------------------


@quantity("s")
def context_pass_time_per_layer(context_durations, communicating_passes):
    """Exchange for a micro-batch in one layer in one pass, without gradients. Source: arXiv 2310.01889, section 3."""
    every = total(d.time * d.count for d in context_durations if not d.name.endswith("gradients"))
    return every / communicating_passes


@quantity("s")
def context_gradient_time_per_layer(context_durations):
    """Exchange of the gradients of keys and values for a micro-batch in one layer. Source: arXiv 2310.01889, section 3."""
    gradients = [d.time * d.count for d in context_durations if d.name.endswith("gradients")]
    return total([0.0 * context_durations[0].time, *gradients])


@quantity("s")
def context_communication_time_per_layer(
    context_pass_time_per_layer, communicating_passes, context_gradient_time_per_layer
):
    """Keys and values exchanged for a micro-batch in one layer, all passes. Source: arXiv 2310.01889."""
    return context_pass_time_per_layer * communicating_passes + context_gradient_time_per_layer


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="context_parallel_degree")
def balanced_shares_are_two_blocks(
    context, context_parallel_degree, tensor_parallel_columns, causal, balanced_context_work, head_exchange_degree
):
    """Balanced shares of a causal sequence are an early and a late block of as many tokens.

    Source: Megatron-Core, context parallelism (a sequence divides by twice the degree).
    """
    shares = context_parallel_degree * tensor_parallel_columns / head_exchange_degree
    free = (shares == 1) | (causal == 0) | (balanced_context_work == 0)
    return free | (np.mod(context, 2 * shares) == 0)


@quantity("boolean", constrains="context_parallel_degree", choice="context_parallel_kind", value="all_to_all")
def heads_divide_by_the_context_degree__all_to_all(
    attention_heads, key_value_heads, tensor_parallel_rows, context_parallel_degree
):
    """Each accelerator gets as many heads in exchange for tokens, key heads too. Source: arXiv 2309.14509, section 3."""
    shares = tensor_parallel_rows * context_parallel_degree
    keys = (np.mod(key_value_heads, shares) == 0) | (np.mod(shares, key_value_heads) == 0)
    return (np.mod(attention_heads, shares) == 0) & keys


@quantity("boolean", constrains="context_parallel_kind", choice="context_parallel_kind", value="all_to_all")
def latent_vectors_are_not_dealt_out__all_to_all(absorbed_latent_attention, context_parallel_degree):
    """One latent vector serves all heads, so that heads cannot be exchanged for tokens of it. Source: arXiv 2405.04434."""
    return (absorbed_latent_attention == 0) | (context_parallel_degree == 1)
