"""What a training framework does with the machine: columns of `software_specifications`.

Each parameter is something that a framework does or does not do. Without a row the framework fuses what Megatron-LM
fuses, uses the newest attention kernel of its accelerator, and never keeps the accelerator waiting.
"""

import numpy as np

from amped.theory.language.quantity import quantity

# --- attention -------------------------------------------------------------------------------------------------------


@quantity("1")
def attention_kernel_fraction(deterministic, deterministic_kernel_fraction):
    """The rate of the fused attention as a share of the rate of the newest attention kernel for the accelerator.

    It is 1 or, if all kernels must be deterministic, the share of the newest deterministic attention kernel. Source:
    definition; NVIDIA Transformer Engine, get_attention_backend.
    """
    return np.where(deterministic > 0, deterministic_kernel_fraction, 1.0)


@quantity("1", choice="attention_kernel", value="flex")
def attention_kernel_fraction__flex(flash_2_attention_fraction, flex_attention_fraction):
    """The rate of FlexAttention as a share of the rate of the newest attention kernel for the accelerator.

    Source: PyTorch blog, FlexAttention (2024-08-07).
    """
    return flash_2_attention_fraction * flex_attention_fraction
