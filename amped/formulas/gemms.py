"""The matrix products of the forward pass, as one accelerator runs them: the list that everything else reads.

A product's `count` is how often a layer of its kind calls it for one micro-batch; the formulas that follow multiply by
the layers and micro-batches of an accelerator. Dimensions are the accelerator's share; shares that are not whole stay fractions (key heads fewer than the tensor degree).
"""

from amped.quantity import quantity, records
from amped.records import Gemm


@quantity("count")
def microbatch_tokens(microbatch_size, context, token_split_degree):
    """Tokens of a micro-batch on one accelerator. Source: definition."""
    return microbatch_size * context / token_split_degree


@quantity("count")
def stage_layers(layers, pipeline_parallel_degree):
    """Layers of one pipeline stage. Source: arXiv 2104.04473, section 2.2."""
    return layers / pipeline_parallel_degree


@quantity("count")
def dense_stage_layers(number_of_dense_layers, prediction_dense_layers, pipeline_parallel_degree):
    """Dense layers of one pipeline stage, on average. Source: definition."""
    return (number_of_dense_layers + prediction_dense_layers) / pipeline_parallel_degree


@quantity("count")
def MoE_stage_layers(number_of_MoE_layers, prediction_MoE_layers, pipeline_parallel_degree):
    """Mixture-of-experts layers of one pipeline stage, on average. Source: definition."""
    return (number_of_MoE_layers + prediction_MoE_layers) / pipeline_parallel_degree


@quantity("count")
def layer_calls(layers, multi_token_prediction_layers, pipeline_parallel_degree, number_of_microbatches_per_minibatch):
    """Times that an accelerator runs a layer forward in a step, on average over the stages. Source: definition."""
    return (layers + multi_token_prediction_layers) / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@quantity("count")
def attention_calls(
    number_of_attention_layers, cross_attention_layers, multi_token_prediction_layers, pipeline_parallel_degree,
    number_of_microbatches_per_minibatch,
):  # fmt: skip
    """Times that an accelerator runs an attention forward in a step; one over an encoder's output has the same shape.

    Assumes that both stacks see `context` tokens.

    Source: arXiv 1706.03762, section 3.1.
    """
    attentions = number_of_attention_layers + cross_attention_layers + multi_token_prediction_layers
    return attentions / pipeline_parallel_degree * number_of_microbatches_per_minibatch


@records()
def projection_gemms(
    microbatch_tokens, dimensionality, attention_heads, key_value_heads, head_dimension, tensor_parallel_rows,
    input_width_split_degree, output_width_split_degree, product_panels,
):  # fmt: skip
    """Projections of attention, split by heads. Source: arXiv 1909.08053, section 3."""
    query_key_value = head_dimension * (attention_heads + 2 * key_value_heads) / tensor_parallel_rows
    inputs, outputs = (
        attention_heads * head_dimension / input_width_split_degree,
        dimensionality / output_width_split_degree,
    )
    return (
        Gemm("query_key_value", microbatch_tokens, query_key_value, dimensionality, 1.0, 1.0, product_panels),
        Gemm("attention_output", microbatch_tokens, outputs, inputs, 1.0, 1.0, product_panels),
    )


@records(choice="attention_kind", value="multi_latent")
def projection_gemms__multi_latent(
    microbatch_tokens, dimensionality, attention_heads, head_dimension, value_head_dimension, query_latent_dimension,
    key_value_latent_dimension, rotary_head_dimension, tensor_parallel_rows, absorbed_latent_attention,
):  # fmt: skip
    """Projections of multi-head latent attention; the down projections are not split.

    Source: arXiv 2405.04434, eq. 9–19.
    """
    heads, tokens = attention_heads / tensor_parallel_rows, microbatch_tokens
    compressed = 1.0 * (query_latent_dimension > 0)
    down = compressed * query_latent_dimension
    source = down + (1 - compressed) * dimensionality
    key_value = heads * (head_dimension - rotary_head_dimension + value_head_dimension)
    latent, kept = key_value_latent_dimension + rotary_head_dimension, 1.0 * absorbed_latent_attention
    content, rank = head_dimension - rotary_head_dimension, key_value_latent_dimension
    return (
        Gemm("query_down", tokens, down, dimensionality, 1.0, 1.0),
        Gemm("query_up", tokens, heads * head_dimension, source, 1.0, 1.0),
        Gemm("key_value_down", tokens, latent, dimensionality, 1.0, 1.0),
        Gemm("key_value_up", tokens, key_value, rank, 1.0, 1.0 - absorbed_latent_attention),
        Gemm("query_absorption", tokens, rank, content, heads, kept),
        Gemm("value_absorption", tokens, value_head_dimension, rank, heads, kept),
        Gemm("attention_output", tokens, dimensionality, heads * value_head_dimension, 1.0, 1.0),
    )


@records()
def attention_gemms(
    microbatch_size, context, query_split_degree, attention_heads, score_dimension, weighted_dimension,
    tensor_parallel_rows, head_exchange_degree,
):  # fmt: skip
    """Scores and weighted values, over all pairs of positions. Source: arXiv 1706.03762, eq. 1."""
    batch = microbatch_size * attention_heads / (tensor_parallel_rows * head_exchange_degree)
    queries = context / query_split_degree
    return (
        Gemm("attention_scores", queries, context, score_dimension, batch, 1.0),
        Gemm("attention_values", queries, weighted_dimension, context, batch, 1.0),
    )


@records()
def feedforward_gemms(
    microbatch_tokens, dimensionality, feedforward_dimension, gated_mlp, tensor_parallel_rows, input_width_split_degree,
    output_width_split_degree, product_panels,
):  # fmt: skip
    """The dense feed-forward network; a gate lies in one product with the up projection.

    Source: arXiv 1909.08053, section 3.
    """
    up, down = (
        (1 + gated_mlp) * feedforward_dimension / tensor_parallel_rows,
        feedforward_dimension / input_width_split_degree,
    )
    width = dimensionality / output_width_split_degree
    return (
        Gemm("feedforward_up", microbatch_tokens, up, dimensionality, 1.0, 1.0, product_panels),
        Gemm("feedforward_down", microbatch_tokens, width, down, 1.0, 1.0, product_panels),
    )


@records()
def expert_gemms(
    microbatch_tokens, routed_tokens, expert_visits, dimensionality, expert_feedforward_dimension, gated_experts,
    gated_mlp, number_of_experts, shared_experts_feedforward_dimension, tensor_parallel_rows, expert_parallel_degree,
    expert_tensor_parallel_degree,
):  # fmt: skip
    """Router, the accelerator's routed experts (each visit of a token is a row), shared experts.

    Source: arXiv 2101.03961, section 2; Megatron-Core, expert tensor parallelism.
    """
    experts = number_of_experts / expert_parallel_degree
    visits, inner = expert_visits / experts, expert_feedforward_dimension / expert_tensor_parallel_degree
    shared = shared_experts_feedforward_dimension / tensor_parallel_rows
    return (
        Gemm("router", routed_tokens, number_of_experts, dimensionality, 1.0, 1.0),
        Gemm("experts_up", visits, (1 + gated_experts) * inner, dimensionality, experts, 1.0),
        Gemm("experts_down", visits, dimensionality, inner, experts, 1.0),
        Gemm("shared_experts_up", microbatch_tokens, (1 + gated_mlp) * shared, dimensionality, 1.0, 1.0),
        Gemm("shared_experts_down", microbatch_tokens, dimensionality, shared, 1.0, 1.0),
    )


@records()
def head_gemms(microbatch_tokens, vocabulary_size, dimensionality, tensor_parallel_rows):
    """The output head, once for a micro-batch. Source: Megatron-LM, parallel output head."""
    return (Gemm("head", microbatch_tokens, vocabulary_size / tensor_parallel_rows, dimensionality, 1.0, 1.0),)
