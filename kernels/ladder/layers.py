"""The layer in plain torch: pre-norm, one weight for queries, keys and values, attention, GELU; variants for the rungs.

The rows of that weight are ordered by head, as [q|k|v]. All rungs share one set of parameters. The function for a
product with a weight is an argument, so that fp8 can replace it; attention writes its scores, or is torch's fused
attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from amped.kernels.ladder.shape import Shape
from amped.kernels.torch_import import torch_module

Parameters = Mapping[str, Any]
Linear = Callable[[str, Any, Any, Any], Any]
Attention = Callable[[Any, Any, Any, Shape], Any]
SEED, DEVIATION, EPSILON = 1234, 0.02, 1e-5


def parameters(s: Shape, device: str) -> Parameters:
    """One set of parameters for all rungs; norms start as the identity, biases at zero."""
    torch = torch_module()
    random = torch.Generator(device=device).manual_seed(SEED)
    dtype = getattr(torch, s.dtype)
    shapes = {
        "qkv": (3 * s.hidden, s.hidden),
        "projection": (s.hidden, s.hidden),
        "up": (s.ffn, s.hidden),
        "down": (s.hidden, s.ffn),
    }
    made = {}
    for name, shape in shapes.items():
        weight = torch.empty(shape, device=device).normal_(0.0, DEVIATION, generator=random)
        made[f"{name}_weight"], made[f"{name}_bias"] = (
            weight.to(dtype),
            torch.zeros(shape[0], device=device, dtype=dtype),
        )
    for name in ("norm1", "norm2"):
        made[f"{name}_weight"] = torch.ones(s.hidden, device=device, dtype=dtype)
        made[f"{name}_bias"] = torch.zeros(s.hidden, device=device, dtype=dtype)
    return {name: tensor.requires_grad_() for name, tensor in made.items()}


def inputs(s: Shape, device: str) -> tuple[Any, Any]:
    """The input, without a gradient, and the gradient of the output: normal deviates."""
    torch = torch_module()
    random = torch.Generator(device=device).manual_seed(SEED + 1)
    x, dy = (torch.empty((s.seq, s.batch, s.hidden), device=device).normal_(generator=random) for _ in range(2))
    return x.to(getattr(torch, s.dtype)), dy.to(getattr(torch, s.dtype))


def interleaved(query: Any, key: Any, value: Any, heads: int) -> Any:
    """The rows of three weights as one weight, ordered by head."""
    torch = torch_module()
    parts = [w.view(heads, -1, *w.shape[1:]) for w in (query, key, value)]
    return torch.stack(parts, dim=1).reshape(-1, *query.shape[1:])


def separated(weight: Any, heads: int) -> tuple[Any, ...]:
    """The three weights that are interleaved in one."""
    parts = weight.view(heads, 3, -1, *weight.shape[1:]).unbind(1)
    return tuple(part.reshape(-1, *weight.shape[1:]) for part in parts)


def plain_linear(_: str, x: Any, weight: Any, bias: Any) -> Any:
    """A product with a weight, in the format of its factors."""
    return torch_module().nn.functional.linear(x, weight, bias)


def explicit_attention(q: Any, k: Any, v: Any, s: Shape) -> Any:
    """Scores, softmax, dropout and weighted values; each is a kernel that writes all scores."""
    torch = torch_module()
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(s.head_dimension)
    if s.causal:
        mask = torch.ones(s.seq, s.seq, dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nn.functional.dropout(scores.softmax(-1), s.dropout)
    return torch.matmul(weights, v)


def fused_attention(q: Any, k: Any, v: Any, s: Shape) -> Any:
    """Scores, softmax, dropout and weighted values as one kernel."""
    attend = torch_module().nn.functional.scaled_dot_product_attention
    return attend(q, k, v, dropout_p=s.dropout, is_causal=s.causal)


def layer(
    x: Any, p: Parameters, s: Shape, attention: Attention, linear: Linear = plain_linear, one_product: bool = True
) -> Any:
    """The whole layer; queries, keys and values come from one product, or from three with parts of one weight."""
    functional = torch_module().nn.functional
    normed = functional.layer_norm(x, (s.hidden,), p["norm1_weight"], p["norm1_bias"], EPSILON)
    q, k, v = _heads(normed, p, s, linear, one_product)
    attended = attention(q, k, v, s).permute(2, 0, 1, 3).reshape(s.seq, s.batch, s.hidden)
    attended = linear("projection", attended, p["projection_weight"], p["projection_bias"])
    x = x + functional.dropout(attended, s.dropout)
    normed = functional.layer_norm(x, (s.hidden,), p["norm2_weight"], p["norm2_bias"], EPSILON)
    inner = functional.gelu(linear("up", normed, p["up_weight"], p["up_bias"]), approximate="tanh")
    return x + linear("down", inner, p["down_weight"], p["down_bias"])


def _heads(x: Any, p: Parameters, s: Shape, linear: Linear, one_product: bool) -> tuple[Any, ...]:
    """Queries, keys and values as (batch, heads, sequence, head dimension)."""
    if one_product:
        joined = linear("qkv", x, p["qkv_weight"], p["qkv_bias"])
        parts = joined.view(s.seq, s.batch, s.heads, 3, s.head_dimension).unbind(3)
    else:
        weights, biases = separated(p["qkv_weight"], s.heads), separated(p["qkv_bias"], s.heads)
        parts = tuple(
            linear("qkv", x, w, b).view(s.seq, s.batch, s.heads, s.head_dimension)
            for w, b in zip(weights, biases, strict=True)
        )
    return tuple(part.permute(1, 2, 0, 3) for part in parts)
