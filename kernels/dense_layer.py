"""A decoder layer in plain torch: pre-norm, one weight for queries, keys and values, attention, GELU or SwiGLU.

If keys have as many heads as queries, the rows of that weight are ordered by head, as [q|k|v]; else all queries come
first. The ladder, training steps and anchors run this layer. The function for a
product with a weight is an argument, so that fp8 can replace it; attention writes its scores, or is torch's fused
attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from amped.kernels.layer_shape import Shape
from amped.kernels.torch_import import torch

functional: Any = torch.nn.functional
Parameters = Mapping[str, Any]
Linear = Callable[[str, Any, Any, Any], Any]
Attention = Callable[[Any, Any, Any, Shape], Any]
SEED, DEVIATION, EPSILON = 1234, 0.02, 1e-5
# From the axes of the input, with heads, to (batch, heads, sequence, width) and back, if the batch is first or not.
FROM_HEADS = {True: (0, 2, 1, 3), False: (1, 2, 0, 3)}
TO_HEADS = {True: (0, 2, 1, 3), False: (2, 0, 1, 3)}


def parameters(s: Shape, device: str) -> Parameters:
    """The parameters of a layer by name, such as `up_weight` and `up_bias`; every rung gets equal ones.

    Norms start as the identity, biases at zero.
    """
    random = torch.Generator(device=device).manual_seed(SEED)
    options: dict[str, Any] = {"device": device, "dtype": getattr(torch, s.dtype)}
    weights = {name: drawn(shape, random, options["dtype"]) for name, shape in s.shapes.items()}
    weights |= {name: torch.ones(s.hidden, **options) for name in ("norm1", "norm2")}
    parameters_by_name: dict[str, Any] = {}
    for name, weight in weights.items():
        parameters_by_name[f"{name}_weight"] = weight
        parameters_by_name |= {f"{name}_bias": torch.zeros(len(weight), **options)} if s.biased else {}
    return {name: tensor.requires_grad_() for name, tensor in parameters_by_name.items()}


def drawn(shape: tuple[int, ...], random: Any, dtype: Any) -> Any:
    """A weight before training: normal deviates of a small scale."""
    return torch.empty(shape, device=random.device).normal_(0.0, DEVIATION, generator=random).to(dtype)


def inputs(s: Shape, device: str) -> tuple[Any, Any]:
    """The input of a layer, which needs no gradient, and the gradient of its output: normal deviates of equal shape."""
    random = torch.Generator(device=device).manual_seed(SEED + 1)
    sides = (s.batch, s.seq) if s.batch_first else (s.seq, s.batch)
    shape, dtype = (*sides, s.hidden), getattr(torch, s.dtype)
    x, dy = (torch.empty(shape, device=device).normal_(generator=random).to(dtype) for _ in range(2))
    return x, dy


def separated(weight: Any, heads: int) -> tuple[Any, ...]:
    """The weights (or biases) of queries, keys and values, from one tensor that has them ordered by head."""
    return tuple(part.flatten(0, 1) for part in weight.unflatten(0, (heads, 3, -1)).unbind(1))


def plain_linear(_: str, x: Any, weight: Any, bias: Any) -> Any:
    """The product with a weight, in the format of its operands."""
    return functional.linear(x, weight, bias)


def explicit_attention(q: Any, k: Any, v: Any, s: Shape) -> Any:
    """Scores, softmax, dropout and weighted values as separate kernels; each of them writes a tensor of all scores."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(s.head_dimension)
    if s.causal:
        mask = torch.ones(s.seq, s.seq, dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = functional.dropout(scores.softmax(-1), s.dropout)
    return torch.matmul(weights, v)


def fused_attention(q: Any, k: Any, v: Any, s: Shape) -> Any:
    """Scores, softmax, dropout and weighted values as one kernel."""
    attend, shared = functional.scaled_dot_product_attention, s.kept_heads != s.heads
    return attend(q, k, v, dropout_p=s.dropout, is_causal=s.causal, enable_gqa=shared)


def layer(
    x: Any, p: Parameters, s: Shape, attention: Attention, linear: Linear = plain_linear, one_product: bool = True
) -> Any:
    """The output of the whole layer.

    - `p`: the parameters by name.
    - `linear`: computes the product with a weight from the product's name, its input, the weight and the bias.
    - `one_product`: whether one product makes queries, keys and values; else three make them with parts of one weight.
    """

    def product(name: str, x: Any) -> Any:
        return linear(name, x, p[f"{name}_weight"], p.get(f"{name}_bias"))

    def normed(name: str, x: Any) -> Any:
        return functional.layer_norm(x, (s.hidden,), p[f"{name}_weight"], p.get(f"{name}_bias"), EPSILON)

    q, k, v = (
        part.permute(*FROM_HEADS[s.batch_first]) for part in _heads(normed("norm1", x), p, s, linear, one_product)
    )
    attended = attention(q, k, v, s)
    attended = product("projection", attended.permute(*TO_HEADS[s.batch_first]).flatten(2))
    x = x + functional.dropout(attended, s.dropout)
    inner = product("up", normed("norm2", x))
    if s.gated:
        gate, inner = inner.chunk(2, dim=-1)
        inner = functional.silu(gate) * inner
    else:
        inner = functional.gelu(inner, approximate="tanh")
    return x + product("down", inner)


def _heads(x: Any, p: Parameters, s: Shape, linear: Linear, one_product: bool) -> tuple[Any, ...]:
    """Queries, keys and values.

    Their first two axes are those of the input; then come heads and the width of a head.
    """
    weight, bias, sides = p["qkv_weight"], p.get("qkv_bias"), x.shape[:2]
    if not one_product:
        weights, biases = separated(weight, s.heads), separated(bias, s.heads)
        products = (linear("qkv", x, w, b) for w, b in zip(weights, biases, strict=True))
        return tuple(part.view(*sides, s.heads, s.head_dimension) for part in products)
    joined = linear("qkv", x, weight, bias)
    if s.kept_heads == s.heads:
        return tuple(joined.view(*sides, s.heads, 3, s.head_dimension).unbind(3))
    counts = [s.heads, s.kept_heads, s.kept_heads]
    return tuple(joined.view(*sides, -1, s.head_dimension).split(counts, dim=2))
