"""What is done to queries and keys, head by head, between their projection and attention."""

from amped.quantity import quantity, records
from amped.records import streamed


@records()
def query_key_norm_operators(
    microbatch_tokens, query_bytes, key_bytes, activation_precision, tensor_parallel_rows, attention_heads,
    key_value_heads, head_dimension, query_key_norm, attentions_per_layer, flops_per_elementary_operation,
):  # fmt: skip
    """Norms of each head's query and key, which keep their inputs: 7 operations an entry, 13 backward.

    Source: arXiv 2302.05442, section 3.1.1; arXiv 2007.00072, table 3 (operations of a norm).
    """
    size, flop = query_bytes + key_bytes, flops_per_elementary_operation
    entries, heads = size / activation_precision, (attention_heads + key_value_heads) / tensor_parallel_rows
    forward, backward = (7 * entries * flop, size, size), (13 * entries * flop, 4 * size, size)
    shape = ("query_key_norm", "normalisation", microbatch_tokens * heads, head_dimension)
    return streamed(*shape, forward, backward, size, query_key_norm * attentions_per_layer)


@quantity("count")
def rotary_width(attention_heads, key_value_heads, head_dimension, tensor_parallel_rows):
    """Entries of a token's queries and keys that carry its position, on one accelerator. Source: arXiv 2104.09864."""
    return (attention_heads + key_value_heads) * head_dimension / tensor_parallel_rows


@quantity("count", choice="attention_kind", value="multi_latent")
def rotary_width__multi_latent(attention_heads, rotary_head_dimension, tensor_parallel_rows):
    """Entries of a token's queries, and of the one key beside the latent vector, that carry its position.

    Source: arXiv 2405.04434, eq. 14–15.
    """
    return (attention_heads / tensor_parallel_rows + 1) * rotary_head_dimension


@records()
def rotary_operators():
    """Positions within attention: nothing to do where they were added to the embedding. Source: arXiv 1706.03762."""
    return ()


@records(choice="positions", value="rope")
def rotary_operators__rope(
    microbatch_tokens, rotary_width, activation_precision, attentions_per_layer, flops_per_elementary_operation
):
    """Queries and keys turned by their position: 3 operations an entry. Source: arXiv 2104.09864, eq. 34."""
    size = microbatch_tokens * rotary_width
    work = (3 * size * flops_per_elementary_operation, size * activation_precision, size * activation_precision)
    kind = ("rotary_positions", "element_wise")
    return streamed(
        *kind, microbatch_tokens, rotary_width, work, work, 0.0 * size * activation_precision, attentions_per_layer
    )
