"""Products in fp8 and fp4: the casts before them."""

import numpy as np

from amped.theory.kernel_work import Traffic, Work, streamed
from amped.theory.quantity import quantity, records
from amped.theory.records import WEIGHTED


@quantity("1")
def weight_cast_fraction(weights_cast_once_per_step, number_of_microbatches_per_minibatch):
    """The share of the micro-batches of a step in which weights are cast: the first one only, or every one.

    Source: definition.
    """
    return np.where(weights_cast_once_per_step, 1 / number_of_microbatches_per_minibatch, 1.0)


@records(choice="matrix_precision", value="fp8")
def quantization_operators__fp8(
    product_operators,
    fp8_precision,
    output_width_split_degree,
    weight_split_degree,
    tensor_parallel_rows,
    weight_cast_fraction,
    entry_costs,
):
    """The casts to fp8 before each product.

    In the forward pass the inputs and the weights are cast, in the backward pass the gradient of the output. An
    accelerator casts its own share of a tensor, and writes each tensor in two layouts, as it is and transposed. If
    weights are cast only in the first micro-batch of a step, every micro-batch counts an equal share of this cast.

    Source: NVIDIA Transformer Engine, fp8 recipes; arXiv 2209.05433, section 2.
    """
    cast = Traffic(entry_costs[0].flop, entry_costs[0].activation, 2 * fp8_precision)
    columns = weight_split_degree / tensor_parallel_rows
    return casts(product_operators, cast, output_width_split_degree, columns / weight_cast_fraction)


@records(choice="matrix_precision", value="fp4")
def quantization_operators__fp4(
    product_operators,
    fp4_precision,
    output_width_split_degree,
    weight_split_degree,
    tensor_parallel_rows,
    weight_cast_fraction,
    entry_costs,
):
    """The casts to fp4 before each product.

    In the forward pass the inputs and the weights are cast, in the backward pass the gradient of the output. A cast
    reads a tensor twice: first for the largest entry, on which the scales of all blocks depend, then for the cast
    itself. It writes each tensor in two layouts, as it is and transposed. If weights are cast only in the first
    micro-batch of a step, every micro-batch counts an equal share of this cast.

    Source: arXiv 2509.25149, section 2 (NVFP4). Differs: Hadamard transforms take no time.
    """
    cast = Traffic(entry_costs[0].flop, 2 * entry_costs[0].activation, 2 * fp4_precision)
    columns = weight_split_degree / tensor_parallel_rows
    return casts(product_operators, cast, output_width_split_degree, columns / weight_cast_fraction)


def casts(operators, cast, rows, columns):
    """The operators that cast the inputs and weights of each product, and in the backward pass the output's gradient.

    Source: arXiv 2209.05433, section 2.
    """
    products = [o for o in operators if o.kind in WEIGHTED and o.phase == "forward"]
    return tuple(
        operator
        for o in products
        for operator in streamed(
            f"{o.name}_casts",
            "element_wise",
            o.m,
            o.k,
            Work(cast * ((o.m / rows + o.n / columns) * o.k * o.batch), cast * (o.m * o.n * o.batch)),
            count=o.count,
            after=tuple(node for node in o.after if node != f"{o.name}_casts"),
        )
    )
