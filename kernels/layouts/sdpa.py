"""Fused attention on views: torch's scaled_dot_product_attention, whichever kernel it picks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amped.kernels.layouts.tensors import logical
from amped.kernels.torch_import import torch

if TYPE_CHECKING:
    from amped.kernels.layouts.workspace import Workspace

LOGICAL = {"QQ": "bhjp", "KK": "bhkp", "VV": "bhkp", "GAMMA": "bhjp", "DGAMMA": "bhjp",
           "DQQ": "bhjp", "DKK": "bhkp", "DVV": "bhkp"}  # fmt: skip


def _view(space: Workspace, name: str) -> Any:
    return logical(space.tensor(name), space.layout(name), LOGICAL[name])


def sdpa(space: Workspace) -> None:
    """Attention; torch's own graph is kept for the backward pass."""
    with torch.enable_grad():
        inputs = [_view(space, name).detach().requires_grad_() for name in ("QQ", "KK", "VV")]
        drop = 1.0 - space.choices.keep
        out = torch.nn.functional.scaled_dot_product_attention(*inputs, dropout_p=drop)
    space.attention = inputs, out
    _view(space, "GAMMA").copy_(out.detach())


def sdpa_backward(space: Workspace) -> None:
    """Gradients of queries, keys and values."""
    inputs, out = space.attention
    grads = torch.autograd.grad(out, inputs, _view(space, "DGAMMA"), retain_graph=True)
    for name, grad in zip(("DQQ", "DKK", "DVV"), grads, strict=True):
        _view(space, name).copy_(grad)
