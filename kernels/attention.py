"""Fused attention as torch runs it: each of its backends, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from amped.kernels.torch_import import torch

# The backends of scaled_dot_product_attention, with their names in torch.
BACKENDS = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION", "math": "MATH"}


def backend(name: str) -> Any:
    """A context in which one backend is used, or torch's own choice if none is named."""
    if name == "default":
        return nullcontext()
    kinds = torch.nn.attention.SDPBackend
    return torch.nn.attention.sdpa_kernel(getattr(kinds, BACKENDS[name]))


def attention(make: Any, p: Any) -> tuple[Callable[[], Any], str]:
    """One call of scaled_dot_product_attention, or of its backward pass only."""
    backward = p["direction"] == "backward"
    heads, few = (p["batch"], p["heads"]), (p["batch"], p["key_value_heads"])
    query = make.normal(*heads, p["queries"], p["head_dimension"], grad=backward)
    key, value = (make.normal(*few, p["keys"], p["head_dimension"], grad=backward) for _ in range(2))
    more = {"enable_gqa": True} if heads != few else {}
    causal = bool(p["causal"]) and p["queries"] > 1

    def forward() -> Any:
        with backend(p["backend"]):
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, dropout_p=p["dropout"], is_causal=causal, **more
            )

    name = f"F.scaled_dot_product_attention, {p['backend']}"
    if not backward:
        return torch.no_grad()(forward), name
    out, grad = forward(), torch.autograd.grad
    gradient = make.normal(*out.shape)
    return (lambda: grad(out, [query, key, value], gradient, retain_graph=True)), f"{name}, autograd"
