"""Matrix dimensions of one layer in DeepFlow's order and meaning."""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.records import Gemm


@quantity("count")
def deepflow_rows(batch_size, context, data_parallel_degree, pipeline_parallel_degree):
    """The number of tokens of a batch, divided by the data and pipeline degrees. Source: AMPeD, mat_dims."""
    return batch_size * context / (data_parallel_degree * pipeline_parallel_degree)


@records()
def deepflow_gemms(deepflow_rows, dimensionality, head_dimension, attention_heads, context, feedforward_dimension):
    """The six matrix products of a layer, each with all attention heads together.

    Source: AMPeD, mat_dims, for DeepFlow.
    """
    rows, heads = deepflow_rows, head_dimension * attention_heads
    return (
        Gemm("query_key_value", 3 * rows, dimensionality, heads),
        Gemm("attention_scores", rows, head_dimension, context * attention_heads),
        Gemm("attention_values", rows, context, heads),
        Gemm("attention_output", rows, dimensionality, dimensionality),
        Gemm("feedforward_up", rows, dimensionality, feedforward_dimension),
        Gemm("feedforward_down", rows, feedforward_dimension, dimensionality),
    )
