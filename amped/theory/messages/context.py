"""Context parallelism: what the ranks of a context group send so that each can attend to all keys and values.

On a tensor-parallel grid each column has other tokens, so that its columns gather keys and values as well.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.layer_kinds import IN_LINEAR, OF_GRADIENTS
from amped.theory.nouns.records import Collective, Group

# What the exchange of keys waits for: their rotation and norm, and on a grid the gathering between its columns.
KEYS = ("rotary_positions", "query_key_norm")
HEADS = ("value_absorption", "attention_values", "sink_scaling", "fused_attention")
COLUMNS = ("grid_column_keys_and_values all_gather", *KEYS)


@quantity("byte")
def local_key_value_bytes(key_bytes, value_bytes):
    """The size of the keys and values of an accelerator's own tokens. Source: arXiv 2310.01889, section 3."""
    return key_bytes + value_bytes


@quantity("byte")
def key_value_bytes_per_context_rank(local_key_value_bytes, tensor_parallel_columns):
    """The size of the keys and values of all tokens of one context-parallel rank.

    With a tensor-parallel grid these are the tokens of all columns of the grid.

    Source: arXiv 2310.01889, section 3.
    """
    return local_key_value_bytes * tensor_parallel_columns


@records(choice="context_parallel_kind", value="ring")
def attention_context_collectives__ring(
    key_value_bytes_per_context_rank, context_parallel_degree, context_group, attentions_per_layer, communication_rounds
):
    """The messages that send keys and values around a ring in each pass and, in the backward pass, their gradients.

    Keys and values make one step less than the ring has ranks; the gradients make one step more than these, back to
    their own rank. Assumes that layers with an attention window also send all keys and values on, and that attention
    block by block takes as long as attention to all keys at once.

    Source: arXiv 2310.01889, section 3.
    """
    (group,), payload = context_group, key_value_bytes_per_context_rank
    steps = (context_parallel_degree - 1) * attentions_per_layer * communication_rounds
    home = context_parallel_degree * attentions_per_layer
    return (
        Collective("keys_and_values", "send_receive", volume=payload, group=group, count=steps, after=COLUMNS),
        Collective(
            "key_and_value_gradients", "send_receive", volume=payload, group=group, count=home, part=OF_GRADIENTS
        ),
    )


@records(choice="context_parallel_kind", value="ring", when_given=("split_context_degree",))
def attention_context_collectives__dynamic(
    key_value_bytes_per_context_rank,
    context_parallel_degree,
    context_group,
    intra_node_context_parallel_degree,
    whole_context_fraction,
    split_context_degree,
    split_token_fraction,
    attentions_per_layer,
    communication_rounds,
):
    """The messages of rings of several sizes: as many ranks share a document as its length needs.

    Some documents need the whole context group, others a smaller ring, which is in a fast domain as far as the domain
    has places for the group. Assumes that all smaller rings have their mean size.

    Source: Megatron-Core, parallel_state.py (create_dynamic_dp_cp_groups: adjacent ranks); arXiv 2310.01889, section 3.
    """
    (whole,), payload = context_group, key_value_bytes_per_context_rank
    inside = np.minimum(split_context_degree, intra_node_context_parallel_degree)
    smaller = Group("smaller", intra=inside, inter=np.maximum(split_context_degree / inside, 1))
    rings = (
        ("", whole, context_parallel_degree, whole_context_fraction * attentions_per_layer),
        ("_of_smaller_rings", smaller, split_context_degree, split_token_fraction * attentions_per_layer),
    )
    collectives = []
    for name, group, degree, calls in rings:
        keys, gradients = (f"{what}{name}" for what in ("keys_and_values", "key_and_value_gradients"))
        sent = {"volume": payload, "group": group}
        steps, home = (degree - 1) * calls * communication_rounds, degree * calls
        collectives.append(Collective(keys, "send_receive", **sent, count=steps, after=COLUMNS))
        collectives.append(Collective(gradients, "send_receive", **sent, count=home, part=OF_GRADIENTS))
    return tuple(collectives)


@records(choice="context_parallel_kind", value="all_gather")
def attention_context_collectives__all_gather(
    key_value_bytes_per_context_rank, context_parallel_degree, context_group, attentions_per_layer, communication_rounds
):
    """The all-gather of the keys and values of all ranks in each pass, and the reduce-scatter of their gradients.

    Source: arXiv 2407.21783, section 3.3.2.
    """
    (group,), payload = context_group, key_value_bytes_per_context_rank * context_parallel_degree
    calls = attentions_per_layer * communication_rounds
    return (
        Collective("keys_and_values", "all_gather", volume=payload, group=group, count=calls, after=COLUMNS),
        Collective(
            "key_and_value_gradients",
            "reduce_scatter",
            volume=payload,
            group=group,
            count=attentions_per_layer,
            part=OF_GRADIENTS,
        ),
    )


@records(choice="context_parallel_kind", value="all_to_all")
def attention_context_collectives__all_to_all(
    query_bytes,
    attention_output_bytes,
    local_key_value_bytes,
    context_group,
    attentions_per_layer,
    communication_rounds,
):
    """The all-to-alls before and after attention, in each pass (Ulysses).

    Before the first all-to-all a rank has all heads of its own tokens; afterwards it has all tokens of its own heads.
    The second all-to-all sends the output back.

    Source: arXiv 2309.14509, section 3.
    """
    (group,), calls = context_group, attentions_per_layer * communication_rounds
    exchanged = query_bytes + local_key_value_bytes
    return (
        Collective("heads", "all_to_all", volume=exchanged, group=group, count=calls, after=COLUMNS),
        Collective(
            "attended_heads", "all_to_all", volume=attention_output_bytes, group=group, count=calls, after=HEADS
        ),
    )


@records(choice="context_parallel_kind", value="hierarchical")
def attention_context_collectives__hierarchical(
    query_bytes,
    attention_output_bytes,
    local_key_value_bytes,
    key_value_bytes_per_context_rank,
    context_levels,
    attentions_per_layer,
    communication_rounds,
):
    """The all-to-alls among neighbors, and between them the ring of keys and values, with their gradients.

    After the first all-to-all a rank has fewer heads of more tokens; its keys and values are as large as before.

    Source: NVIDIA Transformer Engine, dot_product_attention/context_parallel.py (AttnFuncWithCPAndKVP2P with two
    groups); arXiv 2405.07719, section 3 (both together).
    """
    (neighbors, ring), calls = context_levels, attentions_per_layer * communication_rounds
    exchanged, payload = query_bytes + local_key_value_bytes, key_value_bytes_per_context_rank
    steps, home = (ring.degree - 1) * calls, ring.degree * attentions_per_layer
    heads, keys = "heads", "keys_and_values"
    return (
        Collective(heads, "all_to_all", volume=exchanged, group=neighbors, count=calls, after=COLUMNS),
        Collective(keys, "send_receive", volume=payload, group=ring, count=steps, after=("heads all_to_all",)),
        Collective(
            "key_and_value_gradients", "send_receive", volume=payload, group=ring, count=home, part=OF_GRADIENTS
        ),
        Collective(
            "attended_heads", "all_to_all", volume=attention_output_bytes, group=neighbors, count=calls, after=HEADS
        ),
    )


@records()
def context_collectives(attention_context_collectives, linear_context_collectives):
    """The messages of context parallelism in a layer, averaged over the layers: of attention and of linear attention.

    Source: arXiv 2310.01889, section 3.
    """
    return attention_context_collectives + linear_context_collectives


@family(
    named=(
        "linear_context_collectives__gated_delta_net",
        "linear_context_collectives__kimi_delta_attention",
        "linear_context_collectives__mamba2",
        "linear_context_collectives__lightning_attention",
        "linear_context_collectives__mamba1",
        "linear_context_collectives__gated_recurrence",
        "linear_context_collectives__short_convolution",
    ),
    KIND=(
        "gated_delta_net",
        "kimi_delta_attention",
        "mamba2",
        "lightning_attention",
        "mamba1",
        "gated_recurrence",
        "short_convolution",
    ),
)
@records(choice="linear_attention_kind", value="KIND")
def linear_context_collectives__KIND(
    linear_convolved_bytes,
    linear_value_bytes,
    context_group,
    linear_attention_fraction,
    communication_rounds,
):
    """The all-to-alls before and after linear attention, in each pass: a rank has all tokens of its own heads between.

    The second one brings values and gates to their tokens.

    Source: Megatron-Core, ssm/mamba_context_parallel.py (pre_conv_ssm, post_conv_ssm).
    """
    (group,), calls = context_group, linear_attention_fraction * communication_rounds
    states, outputs = linear_convolved_bytes + linear_value_bytes, linear_value_bytes
    sent = {"group": group, "count": calls, "part": IN_LINEAR}
    return (
        Collective("linear_heads", "all_to_all", volume=states, after=("linear_projection",), **sent),
        Collective("linear_outputs", "all_to_all", volume=outputs, after=("linear_scan",), **sent),
    )


# --- columns of a grid -----------------------------------------------------------------------------------------------


@records()
def grid_column_collectives(
    local_key_value_bytes, tensor_parallel_columns, column_group, gathered_attentions_per_layer, communication_rounds
):
    """The messages of keys and values among the columns of a tensor-parallel grid.

    Each pass has an all-gather of keys and values; the backward pass also has a reduce-scatter of their gradients.

    Source: arXiv 2410.00273, section 3 (2D context).
    """
    (group,), payload = column_group, local_key_value_bytes * tensor_parallel_columns
    calls = gathered_attentions_per_layer * communication_rounds
    return (
        Collective("grid_column_keys_and_values", "all_gather", volume=payload, group=group, count=calls, after=KEYS),
        Collective(
            "grid_column_key_and_value_gradients",
            "reduce_scatter",
            volume=payload,
            group=group,
            count=gathered_attentions_per_layer,
            part=OF_GRADIENTS,
        ),
    )
