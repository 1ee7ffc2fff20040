"""Activation functions that compute in place, each beside torch's own; imported where torch is known to be there."""

import copy

from torch import nn
from torch.nn import functional as F  # noqa: N812

from amped.kernels import memory

IN_PLACE = {
    "gelu": (memory.inplace_gelu, F.gelu),
    "gelu_tanh": (lambda x: memory.inplace_gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "silu": (memory.inplace_silu, F.silu),
}
NORMS = {nn.LayerNorm: memory.InplaceLayerNorm, nn.RMSNorm: memory.InplaceRMSNorm}


def in_place_of(norm: nn.Module) -> nn.Module:
    """A norm in place with the parameters of torch's norm, made as a conversion makes it."""
    made = copy.copy(norm)
    made.__class__ = NORMS[type(norm)]
    return made
