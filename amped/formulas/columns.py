"""Columns of a tensor-parallel grid: each has other tokens, and gathers the keys and values of the others."""

from amped.quantity import quantity, records
from amped.records import Collective, total


@quantity("1")
def gathered_attentions_per_layer(attentions_per_layer):
    """Attentions of a layer for which columns gather keys and values: all. Source: arXiv 2410.00273, section 3."""
    return attentions_per_layer


@quantity("1", choice="grid_attention", value="summa")
def gathered_attentions_per_layer__summa():
    """Attentions of a layer for which columns gather keys and values: none, they pass by in panels.

    Source: arXiv 2410.00273, section 3.
    """
    return 0


@records()
def column_collectives(
    key_value_share_bytes, tensor_parallel_columns, gathered_attentions_per_layer, communicating_passes,
    intra_node_tensor_parallel_columns, inter_node_tensor_parallel_columns,
):  # fmt: skip
    """Keys and values of all columns gathered in each pass, their gradients scattered backward.

    Source: arXiv 2410.00273, section 3 (2D context).
    """
    group = (intra_node_tensor_parallel_columns, inter_node_tensor_parallel_columns)
    volume, calls = key_value_share_bytes * tensor_parallel_columns, gathered_attentions_per_layer
    return (
        Collective("column_keys_and_values", "all_gather", volume, *group, calls * communicating_passes),
        Collective("column_key_and_value_gradients", "reduce_scatter", volume, *group, calls),
    )


@quantity("byte")
def column_buffer_bytes(key_value_share_bytes, tensor_parallel_columns, gathered_attentions_per_layer):
    """Keys and values of all columns, while a layer attends to them. Source: arXiv 2410.00273, section 3."""
    gathers = (tensor_parallel_columns > 1) & (gathered_attentions_per_layer > 0)
    return key_value_share_bytes * tensor_parallel_columns * gathers


@quantity("s")
def column_gather_time_per_layer():
    """Keys and values gathered over the columns: none where there is one. Source: arXiv 1909.08053."""
    return 0


@quantity("s", choice="tensor_parallel_strategy", value="2d_context")
def column_gather_time_per_layer__2d_context(column_durations):
    """Keys and values gathered over the columns for a micro-batch in one layer, all passes; attention waits for it.

    Source: arXiv 2410.00273, section 3.
    """
    return total(d.time * d.count for d in column_durations)


@quantity("s", choice="tensor_parallel_strategy", value="2d_summa")
def column_gather_time_per_layer__2d_summa(column_durations):
    """Keys and values gathered over the columns for a micro-batch in one layer, all passes; attention waits for it.

    Source: arXiv 2410.00273, section 3.
    """
    return total(d.time * d.count for d in column_durations)
