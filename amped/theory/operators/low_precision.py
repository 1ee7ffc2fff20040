"""Products in fp8 and fp4: the casts before them."""

from amped.theory.kernel_work import Traffic, Work, streamed
from amped.theory.quantity import records
from amped.theory.records import WEIGHTED


@records(choice="matrix_precision", value="fp8")
def quantization_operators__fp8(
    product_operators, fp8_precision, output_width_split_degree, weight_split_degree, tensor_parallel_rows, entry_costs
):
    """Casts to fp8 of an accelerator's inputs and weights of each product, and output's gradient, in both layouts.

    Source: NVIDIA Transformer Engine, fp8 recipes; arXiv 2209.05433. Assumes that weights are cast for each
    micro-batch.
    """
    cast = Traffic(entry_costs[0].flop, entry_costs[0].activation, 2 * fp8_precision)
    return casts(product_operators, cast, output_width_split_degree, weight_split_degree / tensor_parallel_rows)


@records(choice="matrix_precision", value="fp4")
def quantization_operators__fp4(
    product_operators, fp4_precision, output_width_split_degree, weight_split_degree, tensor_parallel_rows, entry_costs
):
    """The same cast to fp4, which reads twice: the largest entry of a tensor scales the scales of its blocks.

    Source: arXiv 2509.25149 (NVFP4). Assumes that weights are cast for each micro-batch. Differs: Hadamard transforms
    are free.
    """
    cast = Traffic(entry_costs[0].flop, 2 * entry_costs[0].activation, 2 * fp4_precision)
    return casts(product_operators, cast, output_width_split_degree, weight_split_degree / tensor_parallel_rows)


def casts(operators, cast, rows, columns):
    """A cast of each product's inputs and weights, and backward of the gradients of its output.

    Source: arXiv 2209.05433.
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
