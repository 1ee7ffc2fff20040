"""Softmax, dropout and product with the values, whose dropout is computed again (arXiv 2210.10246, section 3.3).

For attention that writes its scores: one that is fused (`scaled_dot_product_attention`) has none of these to keep.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from amped.errors import ConfigError


def _dropped(probabilities: Tensor, p: float) -> Tensor:
    """What is kept (True), drawn as `nn.functional.dropout` draws on the same device."""
    if probabilities.is_cuda:
        return torch.native_dropout(probabilities, p, True)[1]
    return torch.empty_like(probabilities).bernoulli_(1 - p).bool()


def _applied(probabilities: Tensor, kept: Tensor | None, p: float) -> Tensor:
    if kept is None:
        return probabilities
    return probabilities * kept * (1 / (1 - p) if p < 1 else 0.0)


class _SoftmaxDropoutMatmul(torch.autograd.Function):
    @staticmethod
    def forward(scores: Tensor, values: Tensor, p: float) -> tuple[Tensor, Tensor, Tensor | None]:
        probabilities = torch.softmax(scores, -1)
        kept = _dropped(probabilities, p) if p > 0 else None
        return _applied(probabilities, kept, p) @ values, probabilities, kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _, probabilities, kept = output
        ctx.p = inputs[2]
        ctx.mark_non_differentiable(*(t for t in (probabilities, kept) if t is not None))
        ctx.save_for_backward(probabilities, kept, inputs[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor, Tensor, None]:
        probabilities, kept, values = ctx.saved_tensors
        to_values = _applied(probabilities, kept, ctx.p).transpose(-2, -1) @ gradient
        inner = _applied(gradient @ values.transpose(-2, -1), kept, ctx.p)
        return torch._softmax_backward_data(inner, probabilities, -1, probabilities.dtype), to_values, None


def softmax_dropout_matmul(scores: Tensor, values: Tensor, p: float = 0.0, training: bool = True) -> Tensor:
    """dropout(softmax(scores)) @ values, which keeps softmax, mask and values (those alone, not what they are a view of).

    Raises:
        ConfigError: for a probability that is none, and matrices that do not fit.
    """
    if not 0 <= p <= 1:
        raise ConfigError(f"dropout {p} is no probability", "give one from 0 to 1")
    if scores.shape[:-2] != values.shape[:-2] or scores.shape[-1] != values.shape[-2]:
        shapes = f"{tuple(scores.shape)} and {tuple(values.shape)}"
        raise ConfigError(f"scores and values do not fit: {shapes}", "give (…, queries, keys) and (…, keys, width)")
    return _SoftmaxDropoutMatmul.apply(scores, values.contiguous(), p if training else 0.0)[0]
