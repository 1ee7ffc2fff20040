"""Softmax, dropout and product with the values, where dropout is computed again (arXiv 2210.10246, section 3.3).

It is for attention that writes its scores; fused attention (`scaled_dot_product_attention`) keeps none of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from amped.base.errors import ConfigError
from amped.kernels.dense_layer import FROM_HEADS, TO_HEADS
from amped.kernels.memory.function import Function


def _applied(probabilities: Tensor, kept: Tensor | None, p: float) -> Tensor:
    """Probabilities after dropout: those that the mask `kept` keeps are divided by 1 − p; without a mask, all of them."""
    if kept is None:
        return probabilities
    return probabilities * kept * (1 / (1 - p) if p < 1 else 0.0)


class _SoftmaxDropoutMatmul(Function):
    """The weighted values and, if wanted, their weights; softmax and mask are kept for the backward pass."""

    @staticmethod
    def forward(scores: Tensor, values: Tensor, p: float, with_weights: bool) -> tuple[Tensor | None, ...]:
        probabilities = torch.softmax(scores, -1)
        # its mask is drawn with the random numbers of `nn.functional.dropout`
        kept = torch.native_dropout(probabilities, p, True)[1] if p > 0 else None
        weights = _applied(probabilities, kept, p)
        return weights @ values, weights if with_weights else None, probabilities, kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        *_, probabilities, kept = output
        ctx.p, ctx.format = inputs[2], inputs[0].dtype
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(t for t in (probabilities, kept) if t is not None))
        ctx.save_for_backward(probabilities, kept, inputs[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, to_weights: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        probabilities, kept, values = ctx.saved_tensors
        to_values = None
        if gradient is not None:
            weights = _applied(probabilities, kept, ctx.p).to(gradient.dtype)  # autocast has softmax in fp32
            to_values = (weights.transpose(-2, -1) @ gradient).to(values.dtype)
            through = gradient @ values.to(gradient.dtype).transpose(-2, -1)
            to_weights = through if to_weights is None else through + to_weights
        if to_weights is None:
            return None, None, None, None
        inner = _applied(to_weights.to(probabilities.dtype), kept, ctx.p)
        to_scores = torch._softmax_backward_data(inner, probabilities, -1, probabilities.dtype)
        return to_scores.to(ctx.format), to_values, None, None


def softmax_dropout_matmul(scores: Tensor, values: Tensor, p: float = 0.0, training: bool = True) -> Tensor:
    """The result of dropout(softmax(scores)) @ values, whose dropout is computed again in the backward pass.

    Softmax, mask and values are kept (only these values, not a tensor that they are a view of).

    Raises:
        ConfigError: for an impossible probability, and for matrices that do not fit.
    """
    if not 0 <= p <= 1:
        raise ConfigError(f"dropout {p} is no probability", "give one from 0 to 1")
    if scores.shape[:-2] != values.shape[:-2] or scores.shape[-1] != values.shape[-2]:
        shapes = f"{tuple(scores.shape)} and {tuple(values.shape)}"
        raise ConfigError(f"scores and values do not fit: {shapes}", "give (…, queries, keys) and (…, keys, width)")
    return _SoftmaxDropoutMatmul.apply(scores, values.contiguous(), p if training else 0.0, False)[0]


def attended(scores: Tensor, values: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """The weighted values and their weights; gradients flow through both."""
    output, weights, *_ = _SoftmaxDropoutMatmul.apply(scores, values, p, True)
    return output, weights


class SoftmaxDropoutMatmul(nn.Module):
    """Torch's dropout(softmax(scores)) @ values as a module, for your own attention, so that `convert` can find it."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, scores: Tensor, values: Tensor) -> Tensor:
        """The weighted values."""
        return nn.functional.dropout(scores.softmax(-1), self.p, self.training) @ values


class RecomputedSoftmaxDropoutMatmul(SoftmaxDropoutMatmul):
    """`SoftmaxDropoutMatmul` whose dropout is computed again."""

    def forward(self, scores: Tensor, values: Tensor) -> Tensor:
        """The weighted values."""
        return softmax_dropout_matmul(scores, values, self.p, self.training)


class RecomputedAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` that writes its scores and computes dropout again.

    Without dropout, and for calls that it does not support, it is torch's own attention.
    """

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The output and, if needed, the weights of the values; gradients flow through both."""
        plain = not self.training or self.dropout == 0 or self.bias_k is not None or self.add_zero_attn
        if plain or query.is_nested or query.dim() != 3 or (is_causal and attn_mask is None):
            return super().forward(
                query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
        q, k, v = self._heads(query, key, value)
        scores = (q * math.sqrt(1 / self.head_dim)) @ k.transpose(-2, -1)
        for mask in _masks(key_padding_mask, attn_mask, scores):
            scores = scores + mask
        attended_values, weights, *_ = _SoftmaxDropoutMatmul.apply(scores, v, self.dropout, need_weights)
        joined = attended_values.permute(TO_HEADS[self.batch_first]).flatten(2)
        output = nn.functional.linear(joined, self.out_proj.weight, self.out_proj.bias)
        return output, weights.mean(1) if need_weights and average_attn_weights else weights

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values as (batch, heads, sequence, head dimension).

        If all three inputs are one tensor, one product computes them.
        """
        order = FROM_HEADS[self.batch_first]
        if self._qkv_same_embed_dim and query is key is value:
            joined = nn.functional.linear(query, self.in_proj_weight, self.in_proj_bias)
            parts = joined.unflatten(-1, (3, self.num_heads, self.head_dim))
            return parts.permute(2, *(place + (place > 1) for place in order)).contiguous().unbind(0)
        projections = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim else projections
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        products = map(nn.functional.linear, (query, key, value), weights, biases)
        return tuple(p.unflatten(-1, (self.num_heads, -1)).permute(order).contiguous() for p in products)


def _masks(padding: Tensor | None, attention: Tensor | None, scores: Tensor) -> Iterator[Tensor]:
    """The tensors to add to the scores, one for each given mask; a boolean mask gives −inf where it is true."""
    batch, heads, _, keys = scores.shape
    shaped = (
        None if padding is None else padding.view(batch, 1, 1, keys),
        attention if attention is None or attention.dim() == 2 else attention.unflatten(0, (batch, heads)),
    )
    for mask in shaped:
        if mask is not None:
            yield scores.new_zeros(mask.shape).masked_fill_(mask, -math.inf) if mask.dtype == torch.bool else mask
