"""Memory policies: what of a layer's activations is not kept, and what that costs (arXiv 2210.10246, Tempo)."""

import numpy as np

from amped.theory.quantity import MAPPING, family, parameter, quantity

# A dense network, and a routed expert: the prefix of their names, and whether they have a gate.
EXPERT, GATED = ("", "expert_"), ("gated_mlp", "gated_experts")


@parameter("boolean", category=MAPPING)
def in_place_norm():
    """Whether a norm keeps its output, which the next product keeps anyway, and not its input.

    Source: arXiv 2210.10246, in-place layer norm.
    """
    return 0


@parameter("boolean", category=MAPPING)
def in_place_activation():
    """Whether an ungated activation function keeps a bit for each entry beside its output, and not its input.

    Source: arXiv 2210.10246, in-place GELU.
    """
    return 0


@parameter("boolean", category=MAPPING)
def dropout_recomputation():
    """Whether the dropout of attention scores is computed again from softmax and mask.

    Source: arXiv 2210.10246, dropout recomputation.
    """
    return 0


@parameter("boolean", category=MAPPING)
def activation_function_recomputation():
    """Whether the product behind an activation function computes its input again. Source: arXiv 1604.06174."""
    return 0


@parameter("boolean", category=MAPPING)
def norm_recomputation():
    """Whether the products behind a norm compute their input again. Source: arXiv 1604.06174."""
    return 0


@parameter("byte", above=0)
def packed_mask_precision():
    """Size of what an activation function in place keeps of an entry beside its output: a bit; SiLU in bf16 needs two.

    Source: definition.
    """
    return 1 / 8


@family(EXPERT_=EXPERT, GATED=GATED)
@quantity("byte")
def EXPERT_activation_function_mask_bytes(GATED, in_place_activation, packed_mask_precision):
    """Mask of an activation function for each hidden unit: on which side of its minimum the input was.

    Source: arXiv 2210.10246; none where the function keeps its inputs.
    """
    return np.where((in_place_activation > 0) & (GATED == 0), packed_mask_precision, 0.0 * packed_mask_precision)


@family(EXPERT_=EXPERT, GATED=GATED)
@quantity("byte")
def kept_EXPERT_activation_function_input_bytes(
    GATED, activation_precision, in_place_activation, packed_mask_precision
):
    """Stash of an activation function for each hidden unit: its inputs, a bit where it works in place.

    Source: arXiv 2205.05198, section 4.1; arXiv 2210.10246. A gated function needs both inputs.
    """
    in_place = (in_place_activation > 0) & (GATED == 0)
    return np.where(in_place, packed_mask_precision, (1 + GATED) * activation_precision)


@quantity("boolean", constrains="in_place_norm")
def a_norm_keeps_its_input_or_its_output(in_place_norm, norm_recomputation):
    """A norm works in place, from its output, or its output is computed again, not both. Source: arXiv 2210.10246."""
    return (in_place_norm == 0) | (norm_recomputation == 0)


@quantity("boolean", constrains="in_place_activation")
def an_activation_function_keeps_its_input_or_its_output(in_place_activation, activation_function_recomputation):
    """An activation function works in place, from its output, or its output is computed again, not both.

    Source: arXiv 2210.10246.
    """
    return (in_place_activation == 0) | (activation_function_recomputation == 0)
