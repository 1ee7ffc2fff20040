"""Tokens of a micro-batch on one accelerator, the bytes of its activations, and of the entries that products read."""

from amped.theory.quantity import MAPPING, family, parameter, quantity


@quantity("count")
def microbatch_tokens(microbatch_size, context, token_split_degree):
    """Tokens of a micro-batch on one accelerator. Source: definition."""
    return microbatch_size * context / token_split_degree


@quantity("count")
def residual_tokens(microbatch_tokens, sequence_split_degree):
    """Tokens of a micro-batch that one accelerator normalizes and adds up. Source: arXiv 2205.05198, section 4.2.2."""
    return microbatch_tokens / sequence_split_degree


@quantity("byte")
def residual_bytes(residual_tokens, dimensionality, activation_precision):
    """Size of the residual stream of a micro-batch on one accelerator. Source: definition."""
    return residual_tokens * dimensionality * activation_precision


@quantity("byte")
def microbatch_bytes(microbatch_tokens, dimensionality, activation_precision):
    """Size of a micro-batch's activations between two layers. Source: definition."""
    return microbatch_tokens * dimensionality * activation_precision


@quantity("byte")
def matrix_operand_precision(activation_precision):
    """Size of an entry that a weight's product reads: that of an activation. Source: definition."""
    return activation_precision


@parameter("byte", bare="bit", above=0)
def fp8_precision():
    """Size of an fp8 number. Source: arXiv 2209.05433."""
    return 1


@parameter("byte", bare="bit", above=0)
def fp4_precision():
    """Size of an fp4 number with its share of the scale of sixteen. Source: arXiv 2509.25149 (NVFP4)."""
    return 0.5 + 1 / 16


@family(FORMAT=("fp8", "fp4"))
@quantity("byte", choice="matrix_precision", value="FORMAT")
def matrix_operand_precision__FORMAT(FORMAT_precision):
    """Size of an entry that a weight's product reads in FORMAT. Source: arXiv 2209.05433 (fp8); arXiv 2509.25149 (fp4)."""
    return FORMAT_precision


@quantity("byte")
def linear_input_bytes(residual_tokens, dimensionality, matrix_operand_precision, norm_recomputation):
    """Stash of a product's input that comes from a norm: none where that is computed again.

    Source: arXiv 2205.05198, section 4.1 (2·s·b·h).
    """
    return residual_tokens * dimensionality * matrix_operand_precision * (1 - norm_recomputation)


@parameter("byte", category=MAPPING)
def dropout_mask_precision():
    """Size of one entry of a dropout mask. Source: arXiv 2205.05198, section 4.1."""
    return 1


@quantity("byte")
def dropout_mask_bytes(dropout, dropout_mask_precision):
    """Size of one entry of a dropout mask, nothing where there is no dropout. Source: arXiv 2205.05198, section 4.1."""
    return (dropout > 0) * dropout_mask_precision
