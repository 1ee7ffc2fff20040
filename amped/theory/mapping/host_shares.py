"""Offload to the memory of the host: which shares of optimizer states, gradients, weights and activations lie there.

The host runs the optimizer of the states that it keeps. A share holds for every layer alike. The weights of the
embedding and the output head are copied together with the layers, spread evenly over the layers of their stage. The
activations of the embedding and the output head stay on the accelerator.
"""

import numpy as np

from amped.theory.language.quantity import MAPPING, quantity
from amped.theory.nouns.shardings import is_sharded


@quantity("1", category=MAPPING, at_most=1, or_boolean=True, when_given=("optimizer_offload",))
def gradient_offload__with_the_states(optimizer_offload, zero_stage, state_replicas):
    """The share of the gradients that the host keeps and adds up.

    It is the offloaded share of the optimizer states if no two accelerators have the same gradients (ZeRO 2 or 3, or a
    single replica), else zero. Source: arXiv 2101.06840, section 4. Megatron-Core leaves gradients on the accelerator;
    give gradient_offload = 0 for it.
    """
    return np.where(is_sharded("gradient", zero_stage) | (state_replicas == 1), optimizer_offload, 0)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="gradient_offload", when_given=("gradient_offload",))
def gradients_leave_with_their_states__given(gradient_offload, optimizer_offload, zero_stage, state_replicas):
    """The offloaded share of the gradients is at most the offloaded share of the optimizer states.

    Gradients are offloaded only if no two accelerators have the same gradients: with ZeRO 2 or 3, or with a single
    replica.

    Source: arXiv 2101.06840, section 4.2.
    """
    alone = is_sharded("gradient", zero_stage) | (state_replicas == 1)
    return (gradient_offload <= optimizer_offload) & (alone | (gradient_offload == 0))


@quantity("boolean", constrains="zero_stage", when_given=("weight_offload",))
def offloaded_weights_are_those_updated__given(weight_offload, zero_stage, state_replicas):
    """An accelerator offloads only weights that it updates itself: with ZeRO 3, with ZeRO 0, or with a single replica.

    Source: DeepSpeed, offload_param (stage 3 only).
    """
    sharded, updated = is_sharded("weight", zero_stage), ~is_sharded("optimizer_state", zero_stage)
    return (weight_offload == 0) | updated | sharded | (state_replicas == 1)
