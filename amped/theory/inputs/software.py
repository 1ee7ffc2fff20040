"""What a training framework makes of the machine: columns of `software_specifications`.

Each is something that a framework does or leaves undone. Without a row a framework fuses what Megatron-LM fuses, has
the newest attention kernel of its accelerator, and keeps the accelerator busy.
"""

import numpy as np

from amped.theory.quantity import quantity

# --- attention -------------------------------------------------------------------------------------------------------


@quantity("1")
def attention_kernel_fraction(deterministic, deterministic_kernel_fraction):
    """Rate of the fused attention as a share of the newest one's, or of the newest that can be deterministic.

    Source: definition; NVIDIA Transformer Engine, get_attention_backend.
    """
    return np.where(deterministic > 0, deterministic_kernel_fraction, 1.0)


@quantity("1", choice="attention_kernel", value="flex")
def attention_kernel_fraction__flex(flash_2_attention_fraction, flex_attention_fraction):
    """Rate of a compiled attention as a share of the newest kernel's.

    Source: PyTorch blog, FlexAttention (2024-08-07).
    """
    return flash_2_attention_fraction * flex_attention_fraction
