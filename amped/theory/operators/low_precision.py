"""Products in fp8 and fp4: the casts before them."""

from amped.theory.quantity import records
from amped.theory.records import WEIGHTED, streamed

# --- casts -----------------------------------------------------------------------------------------------------------


@records()
def quantization_operators():
    """Casts to a narrower format before a product: none where it has the precision of activations. Source: definition."""
    return ()


@records(choice="matrix_precision", value="fp8")
def quantization_operators__fp8(
    projection_operators,
    attention_output_operators,
    feedforward_operators,
    expert_operators,
    activation_precision,
    fp8_precision,
    flops_per_elementary_operation,
    output_width_split_degree,
    weight_split_degree,
    tensor_parallel_rows,
):
    """An accelerator's own inputs and weights of each product cast to fp8, and gradients of its output, in both layouts.

    Source: NVIDIA Transformer Engine, fp8 recipes; arXiv 2209.05433. Assumes that weights are cast for each micro-batch.
    """
    every = projection_operators + attention_output_operators + feedforward_operators + expert_operators
    shares = output_width_split_degree, weight_split_degree / tensor_parallel_rows
    return casts(every, *shares, flops_per_elementary_operation, activation_precision, 2 * fp8_precision)


@records(choice="matrix_precision", value="fp4")
def quantization_operators__fp4(
    projection_operators,
    attention_output_operators,
    feedforward_operators,
    expert_operators,
    activation_precision,
    fp4_precision,
    flops_per_elementary_operation,
    output_width_split_degree,
    weight_split_degree,
    tensor_parallel_rows,
):
    """The same cast to fp4, which reads twice: the largest entry of a tensor scales the scales of its blocks.

    Source: arXiv 2509.25149 (NVFP4). Assumes that weights are cast for each micro-batch. Differs: Hadamard transforms are free.
    """
    every = projection_operators + attention_output_operators + feedforward_operators + expert_operators
    shares = output_width_split_degree, weight_split_degree / tensor_parallel_rows
    return casts(every, *shares, flops_per_elementary_operation, 2 * activation_precision, 2 * fp4_precision)


def casts(operators, rows, columns, flop, read, written):
    """A cast of each product's inputs and weights, and backward of the gradients of its output. Source: arXiv 2209.05433."""
    products = [o for o in operators if o.kind in WEIGHTED and o.phase == "forward"]
    sizes = [(o, (o.m / rows + o.n / columns) * o.k * o.batch, o.m * o.n * o.batch) for o in products]
    return tuple(
        operator
        for o, there, back in sizes
        for operator in streamed(
            f"{o.name}_casts",
            "element_wise",
            o.m,
            o.k,
            (there * flop, there * read, there * written),
            (back * flop, back * read, back * written),
            0.0 * there * written,
            o.count,
        )
    )
