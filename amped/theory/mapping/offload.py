"""What is offloaded to the host's memory: shares of optimizer states, gradients, weights and activations.

The optimizer of offloaded states runs on the host. A share is one of every layer; the weights of the two ends of the
network travel with the layers, spread evenly over those of their stage; activations of the ends stay.
"""

import numpy as np

from amped.theory.parallelisms import shares
from amped.theory.quantity import MAPPING, quantity


@quantity("1", category=MAPPING, at_most=1, or_boolean=True, when_given=("optimizer_offload",))
def gradient_offload__with_the_states(optimizer_offload, zero_stage, state_replicas):
    """Share of the gradients that the host keeps and adds up: that of the states, where each accelerator has its own.

    Source: arXiv 2101.06840, section 4. Megatron-Core leaves them on the accelerator, which is gradient_offload = 0.
    """
    return np.where(shares("gradient", zero_stage) | (state_replicas == 1), optimizer_offload, 0)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="gradient_offload", when_given=("gradient_offload",))
def gradients_leave_with_their_states__given(gradient_offload, optimizer_offload, zero_stage, state_replicas):
    """Gradients are offloaded with the states they update, and by those who hold no others: from ZeRO 2 on, or alone.

    Source: arXiv 2101.06840, section 4.2.
    """
    alone = shares("gradient", zero_stage) | (state_replicas == 1)
    return (gradient_offload <= optimizer_offload) & (alone | (gradient_offload == 0))


@quantity("boolean", constrains="zero_stage", when_given=("weight_offload",))
def offloaded_weights_are_those_updated__given(weight_offload, zero_stage, state_replicas):
    """Weights are offloaded by those who update them: with ZeRO 3, with ZeRO 0, or where there is one replica.

    Source: DeepSpeed, offload_param (stage 3 alone).
    """
    sharded, updated = shares("weight", zero_stage), ~shares("optimizer_state", zero_stage)
    return (weight_offload == 0) | updated | sharded | (state_replicas == 1)
