"""The operators of a mixture of experts."""

from amped.quantity import quantity, records
from amped.records import activation_work, contraction, streamed


@quantity("1")
def MoE_fraction(number_of_MoE_layers, layers):
    """Share of the layers that have a mixture of experts. Source: definition."""
    return number_of_MoE_layers / layers


@quantity("1")
def shared_expert_fraction(shared_experts_feedforward_dimension):
    """Share of the mixtures that have shared experts: all or none. Source: arXiv 2401.06066."""
    return 1.0 * (shared_experts_feedforward_dimension > 0)


@quantity("1")
def expert_copy_share(expert_tensor_parallel_degree, tensor_parallel_degree):
    """Copies of a visiting token on the shares of an expert, for each share of the dense layers.

    Source: arXiv 2205.05198, section 4.1, for each visit.
    """
    return expert_tensor_parallel_degree / tensor_parallel_degree


@records()
def expert_operators():
    """Operators of mixtures of experts: none in a dense network. Source: definition."""
    return ()


@records(choice="feedforward_kind", value="mixture")
def expert_operators__mixture(
    expert_gemms, linear_input_bytes, activation_precision, matrix_operand_precision, gradient_precision,
    flops_per_multiply_accumulate, flops_per_elementary_operation, kept_expert_activation_input_bytes,
    kept_activation_input_bytes, activation_function_recomputation, activation_mask_bytes, expert_activation_mask_bytes,
    expert_copy_share, MoE_fraction, shared_expert_fraction,
):  # fmt: skip
    """Router, routed experts between a dispatch and a combination of tokens, and shared experts.

    Source: arXiv 2101.03961, section 2; arXiv 2401.06066.
    """
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    router, up, down, shared_up, shared_down = expert_gemms
    rows, flop, e = up.m * up.batch, flops_per_elementary_operation, activation_precision
    copies = rows * up.k * e
    move = (rows * up.k * flop, copies, copies)
    hidden, shared, again = rows * down.k, shared_down.m * shared_down.k, activation_function_recomputation

    ahead, back = activation_work(hidden, rows * up.n * e, e, expert_activation_mask_bytes, again, flop)
    shared_ahead, shared_back = activation_work(
        shared, shared_up.m * shared_up.n * e, e, activation_mask_bytes, again, flop
    )
    kept, calls = 1 - activation_function_recomputation, MoE_fraction
    return (
        *contraction(router, *entry, linear_input_bytes, calls),
        *streamed("expert_permutation", "element_wise", rows, up.k, move, move, 0.0 * copies, 2 * calls),
        *contraction(up, *entry, rows * up.k * matrix_operand_precision * expert_copy_share, calls),
        *streamed("expert_activation_function", "element_wise", rows, down.k, ahead, back,
                  hidden * kept_expert_activation_input_bytes, calls),
        *contraction(down, *entry, hidden * matrix_operand_precision * kept, calls),
        *contraction(shared_up, *entry, 0.0 * copies, calls * shared_expert_fraction),
        *streamed("shared_activation_function", "element_wise", shared_down.m, shared_down.k, shared_ahead,
                  shared_back, shared * kept_activation_input_bytes, calls * shared_expert_fraction),
        *contraction(shared_down, *entry, shared * matrix_operand_precision * kept, calls * shared_expert_fraction),
    )  # fmt: skip
