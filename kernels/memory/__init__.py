"""Modules that keep less for their backward pass, and what that costs. The first name that is used imports torch.

>>> from amped.kernels import memory
>>> memory.convert(model, memory.Policy(), batch)       # chooses by bytes saved a microsecond
>>> memory.stash_bytes(model, batch).bytes
>>> memory.revert(model)
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "in_place_activation": ("InplaceGELU", "InplaceSiLU", "inplace_gelu", "inplace_silu"),
    "in_place_norm": ("InplaceLayerNorm", "InplaceRMSNorm", "inplace_layer_norm", "inplace_rms_norm"),
    "attention": ("SoftmaxDropoutMatmul", "softmax_dropout_matmul"),
    "recompute": ("act_linear", "norm_linear", "swiglu_linear"),
    "stash": ("Stash", "stash_bytes"),
    "conversion": ("Policy", "Report", "convert", "revert"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"amped.kernels.memory.{_HOME[name]}"), name)
    raise AttributeError(f"module 'amped.kernels.memory' has no attribute '{name}'")
