"""Products in fp8 and fp4: the casts before them."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import Traffic, Work, streamed
from amped.theory.nouns.records import WEIGHTED


@quantity("1")
def weight_cast_fraction(weights_cast_once_per_step, number_of_microbatches_per_minibatch):
    """The share of the micro-batches of a step in which weights are cast: the first one only, or every one.

    Source: definition.
    """
    return np.where(weights_cast_once_per_step, 1 / number_of_microbatches_per_minibatch, 1.0)


# How often a cast reads its tensor: in fp4 first for the largest entry, on which the scales of all blocks depend.
READINGS = {"fp8": 1, "fp4": 2}


@family(
    named=(
        "quantization_operators__fp8",
        "quantization_operators__fp4",
    ),
    NARROW=tuple(READINGS),
    SOURCE=(
        "NVIDIA Transformer Engine, fp8 recipes; arXiv 2209.05433, section 2",
        "arXiv 2509.25149, section 2 (NVFP4). Differs: Hadamard transforms take no time",
    ),
)
@records(choice="matrix_precision", value="NARROW")
def quantization_operators__NARROW(
    product_operators,
    NARROW_precision,
    output_width_split_degree,
    weight_split_degree,
    tensor_parallel_rows,
    weight_cast_fraction,
    entry_costs,
    *,
    narrow,
):
    """The casts to NARROW before each product.

    In the forward pass the inputs and the weights are cast, in the backward pass the gradient of the output. An
    accelerator casts its own share of a tensor, and writes each tensor in two layouts, as it is and transposed. A cast
    to fp4 reads a tensor twice: first for its largest entry. If weights are cast only in the first micro-batch of a
    step, every micro-batch counts an equal share of this cast.

    Source: SOURCE.
    """
    (cost,), columns = entry_costs, weight_split_degree / tensor_parallel_rows / weight_cast_fraction
    cast = Traffic(cost.flop, READINGS[narrow] * cost.activation, 2 * NARROW_precision)
    return tuple(
        operator
        for o in product_operators
        if o.kind in WEIGHTED and o.phase == "forward"
        for operator in streamed(
            f"{o.name}_casts",
            "element_wise",
            o.m,
            o.k,
            Work(
                cast * ((o.m / output_width_split_degree + o.n / columns) * o.k * o.batch),
                cast * (o.m * o.n * o.batch),
            ),
            count=o.count,
            part=o.part,
            after=tuple(name for name in o.after if name != f"{o.name}_casts"),
        )
    )
