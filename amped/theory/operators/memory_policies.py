"""Memory policies: which activations of a layer are not kept, and what that costs.

Source: Tempo, arXiv 2210.10246, sections on in-place GELU, in-place LayerNorm and dropout recomputation.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import ActivationPolicy

# The prefix of names for a dense network and for a routed expert, and the quantity that says whether it has a gate.
EXPERT, GATED = ("", "expert_"), ("gated_mlp", "gated_experts")


@family(
    named=(
        "activation_function_mask_bytes",
        "expert_activation_function_mask_bytes",
    ),
    EXPERT_=EXPERT,
    GATED=GATED,
)
@quantity("byte")
def EXPERT_activation_function_mask_bytes(GATED, in_place_activation, packed_mask_precision):
    """The size of the mask of an in-place activation function for each hidden unit; zero for other functions.

    The mask says on which side of the function's minimum the input was.

    Source: arXiv 2210.10246, section on in-place GELU.
    """
    return np.where((in_place_activation > 0) & (GATED == 0), packed_mask_precision, 0.0)


@family(
    named=(
        "kept_activation_function_input_bytes",
        "kept_expert_activation_function_input_bytes",
    ),
    EXPERT_=EXPERT,
    GATED=GATED,
)
@quantity("byte")
def kept_EXPERT_activation_function_input_bytes(
    GATED, activation_precision, in_place_activation, packed_mask_precision, unfused_gate
):
    """The bytes that an activation function keeps for each hidden unit: its inputs or, if it works in place, its mask.

    A gated function always keeps both inputs. If the product with the gate is a separate kernel, this kernel also keeps
    the output of the function.

    Source: arXiv 2205.05198, section 4.1; arXiv 2210.10246, section on in-place GELU.
    """
    in_place = (in_place_activation > 0) & (GATED == 0)
    return np.where(in_place, packed_mask_precision, (1 + GATED + GATED * unfused_gate) * activation_precision)


@family(
    named=(
        "activation_policy",
        "expert_activation_policy",
    ),
    EXPERT_=EXPERT,
)
@records()
def EXPERT_activation_policy(
    kept_EXPERT_activation_function_input_bytes,
    EXPERT_activation_function_mask_bytes,
    activation_function_recomputation,
):
    """What an activation function keeps for the backward pass, and whether its output is recomputed, as one record.

    Source: arXiv 2210.10246, section on in-place GELU; arXiv 1604.06174, section 4.2.
    """
    policy = ActivationPolicy(
        "policy",
        kept=kept_EXPERT_activation_function_input_bytes,
        mask=EXPERT_activation_function_mask_bytes,
        recomputed=activation_function_recomputation,
    )
    return (policy,)


@quantity("boolean", constrains="in_place_norm")
def a_norm_keeps_its_input_or_its_output(in_place_norm, norm_recomputation):
    """A norm does not both work in place and have its output recomputed.

    Source: arXiv 2210.10246, section on in-place LayerNorm.
    """
    return (in_place_norm == 0) | (norm_recomputation == 0)


@quantity("boolean", constrains="in_place_activation")
def an_activation_function_keeps_its_input_or_its_output(in_place_activation, activation_function_recomputation):
    """An activation function does not both work in place and have its output recomputed.

    Source: arXiv 2210.10246, section on in-place GELU.
    """
    return (in_place_activation == 0) | (activation_function_recomputation == 0)
