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


# --- what releases of libraries bring --------------------------------------------------------------------------------

# The GPUs with an attention kernel newer than FlashAttention-2, and the version of cuDNN since which PyTorch takes it.
# Source: PyTorch, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (check_prefer_cudnn_attention).
NEWER_FROM, NEWER_BELOW, PREFERRED_CUDNN = 9.0, 11.0, 91501


@quantity("1")
def flash_2_preference(cudnn_version, compute_capability):
    """Whether PyTorch takes FlashAttention-2 on an accelerator that has a newer kernel: 1, or 0 if it takes the newest.

    On Hopper and Blackwell it takes FlashAttention-2 before cuDNN 9.15.1, and cuDNN's attention since then.

    Source: PyTorch, sdp_utils.cpp (check_prefer_cudnn_attention; pull requests 138522 and 162073, issue 169849).
    """
    has_newer_kernel = (compute_capability >= NEWER_FROM) & (compute_capability < NEWER_BELOW)
    return 1.0 * (has_newer_kernel & (cudnn_version < PREFERRED_CUDNN))


@quantity("1", choice="attention_kernel", value="sdpa")
def attention_kernel_fraction__sdpa(flash_2_preference, flash_2_attention_fraction):
    """The rate of the attention that PyTorch takes, as a share of the rate of the newest attention kernel.

    Source: PyTorch, sdp_utils.cpp (priority_order).
    """
    return np.where(flash_2_preference > 0, flash_2_attention_fraction, 1.0)


@quantity("1", choice="attention_kernel", value="sdpa")
def kernel_head_ramp__sdpa(flash_2_preference, flash_2_head_ramp, attention_head_ramp):
    """The width of a head at which the exponentials of the attention that PyTorch takes last as long as its products.

    Source: PyTorch, sdp_utils.cpp (priority_order); the row of kernel_efficiencies.
    """
    return np.where(flash_2_preference > 0, flash_2_head_ramp, attention_head_ramp)


@quantity("1", choice="attention_kernel", value="sdpa")
def kernel_backward_head_ramp__sdpa(flash_2_preference, flash_2_backward_head_ramp, attention_backward_head_ramp):
    """The width of a head at which exponentials last as long as products in the backward attention that PyTorch takes.

    Source: PyTorch, sdp_utils.cpp (priority_order); the row of kernel_efficiencies.
    """
    return np.where(flash_2_preference > 0, flash_2_backward_head_ramp, attention_backward_head_ramp)
