"""The dense feed-forward network: up (with gate), activation function, down."""

from amped.theory.quantity import records
from amped.theory.records import Gemm, activation_work, contraction, streamed


@records()
def feedforward_gemms(
    microbatch_tokens,
    dimensionality,
    feedforward_dimension,
    gated_mlp,
    tensor_parallel_rows,
    input_width_split_degree,
    output_width_split_degree,
    product_panels,
):
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
def feedforward_operators(
    feedforward_gemms,
    linear_input_bytes,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    flops_per_multiply_accumulate,
    flops_per_elementary_operation,
    kept_activation_function_input_bytes,
    dense_fraction,
    activation_function_recomputation,
    activation_function_mask_bytes,
    mlp_bias,
    output_width_split_degree,
):
    """The dense feed-forward network: up (with gate), activation function with its bias, down.

    Source: arXiv 2205.05198, section 4.1; arXiv 2210.10246 (what is not kept).
    """
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    up, down = feedforward_gemms
    units = down.k / output_width_split_degree
    entries, inputs, again = down.m * units, up.m * up.n * activation_precision, activation_function_recomputation
    work = (
        entries,
        inputs,
        activation_precision,
        activation_function_mask_bytes,
        again,
        flops_per_elementary_operation,
    )
    forward, (flops, read, *rest) = activation_work(*work)
    backward, kept = (flops, read + mlp_bias * inputs, *rest), entries * kept_activation_function_input_bytes
    kept_output = entries * matrix_operand_precision * (1 - activation_function_recomputation)
    name = ("activation_function", "element_wise", down.m, units)
    return (
        *contraction(up, *entry, linear_input_bytes, dense_fraction),
        *streamed(*name, forward, backward, kept, dense_fraction),
        *contraction(down, *entry, kept_output, dense_fraction),
    )
