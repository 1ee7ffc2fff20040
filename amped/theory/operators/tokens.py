"""Tokens of a micro-batch on one accelerator, the bytes of its activations, and the cost of one entry of a tensor."""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import EntryCosts


@quantity("count")
def microbatch_tokens(microbatch_size, context, token_split_degree):
    """The number of tokens of a micro-batch on one accelerator. Source: definition."""
    return microbatch_size * context / token_split_degree


@quantity("count")
def residual_tokens(microbatch_tokens, sequence_split_degree):
    """The number of tokens of a micro-batch for which one accelerator computes the norms and the residual additions.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return microbatch_tokens / sequence_split_degree


@quantity("byte")
def residual_bytes(residual_tokens, dimensionality, activation_precision):
    """The size of the residual stream of a micro-batch on one accelerator. Source: definition."""
    return residual_tokens * dimensionality * activation_precision


@quantity("byte")
def microbatch_bytes(microbatch_tokens, dimensionality, activation_precision):
    """The size of the activations of a micro-batch between two layers on one accelerator, without sequence parallelism.

    Source: definition.
    """
    return microbatch_tokens * dimensionality * activation_precision


@family(
    named=("added_gradient_precision__fp8", "added_gradient_precision__fp4"),
    FORMAT=("fp8", "fp4"),
)
@quantity("byte", choice="matrix_precision", value="FORMAT")
def added_gradient_precision__FORMAT(gradient_precision, products_add_gradients):
    """The size of an entry of a weight gradient that a product in FORMAT reads, adds to and writes.

    The multiplications of a tile take half as long as in 16 bits, or less, and are assumed to hide none of these bytes.
    It is 0 if a separate kernel adds the gradients up.

    Source: NVIDIA Transformer Engine, pytorch/module/linear.py (accumulate_wgrad_into_param_main_grad);
    ai-dynamo/aiconfigurator at 095f58a51 (products in fp8 on B200 take as long as if nothing hid their output).
    """
    return gradient_precision * products_add_gradients


@records()
def entry_costs(
    flops_per_multiply_accumulate,
    flops_per_elementary_operation,
    activation_precision,
    matrix_operand_precision,
    gradient_precision,
    added_gradient_precision,
    parameter_classes,
):
    """The number of operations that one operation on an entry counts as, and the bytes of an entry, as one record.

    The record also says which weights have no gradients. Source: definition.
    """
    costs = EntryCosts(
        "entry",
        product=flops_per_multiply_accumulate,
        flop=flops_per_elementary_operation,
        activation=activation_precision,
        operand=matrix_operand_precision,
        gradient=gradient_precision,
        added_to=added_gradient_precision,
        frozen=tuple(c.name for c in parameter_classes if not c.trained),
    )
    return (costs,)


@quantity("byte")
def linear_input_bytes(product_input_tokens, dimensionality, matrix_operand_precision, norm_recomputation):
    """The bytes that a product keeps of its input, if a norm has computed the input; zero if the norm is recomputed.

    Source: arXiv 2205.05198, section 4.1 (2·s·b·h).
    """
    return product_input_tokens * dimensionality * matrix_operand_precision * (1 - norm_recomputation)


@quantity("count")
def product_input_tokens(residual_tokens, microbatch_tokens, gathered_inputs_stay):
    """The tokens of a micro-batch whose entries a product keeps as its input: all, or its share of the sequence.

    Source: arXiv 2205.05198, section 4.2.2 (the share); PyTorch, torch.distributed.tensor (all).
    """
    return np.where(gathered_inputs_stay > 0, microbatch_tokens, residual_tokens)


@quantity("byte")
def dropout_mask_bytes(dropout, dropout_mask_precision):
    """The size of one entry of a dropout mask; zero without dropout. Source: arXiv 2205.05198, section 4.1."""
    return (dropout > 0) * dropout_mask_precision
