"""Memory policies: what of a layer's activations is not kept, and what that costs (arXiv 2210.10246, Tempo)."""

import numpy as np

from amped.theory.kernel_work import ActivationPolicy
from amped.theory.quantity import family, quantity, records

# A dense network, and a routed expert: the prefix of their names, and whether they have a gate.
EXPERT, GATED = ("", "expert_"), ("gated_mlp", "gated_experts")


@family(EXPERT_=EXPERT, GATED=GATED)
@quantity("byte")
def EXPERT_activation_function_mask_bytes(GATED, in_place_activation, packed_mask_precision):
    """Mask of an activation function for each hidden unit: on which side of its minimum the input was.

    Source: arXiv 2210.10246; none where the function keeps its inputs.
    """
    return np.where((in_place_activation > 0) & (GATED == 0), packed_mask_precision, 0.0)


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


@family(EXPERT_=EXPERT)
@records()
def EXPERT_activation_policy(
    kept_EXPERT_activation_function_input_bytes,
    EXPERT_activation_function_mask_bytes,
    activation_function_recomputation,
):
    """What an activation function keeps and computes again, as one record.

    Source: arXiv 2210.10246; arXiv 1604.06174.
    """
    kept, mask = kept_EXPERT_activation_function_input_bytes, EXPERT_activation_function_mask_bytes
    return (ActivationPolicy("policy", kept, mask, activation_function_recomputation),)


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
