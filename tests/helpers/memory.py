"""Activation functions that compute in place, each beside torch's own; imported where torch is known to be there."""

from torch.nn import functional as F  # noqa: N812

from amped.kernels import memory

IN_PLACE = {
    "gelu": (memory.inplace_gelu, F.gelu),
    "gelu_tanh": (lambda x: memory.inplace_gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "silu": (memory.inplace_silu, F.silu),
}
