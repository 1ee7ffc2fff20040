"""One encoder layer (with norms after the blocks, as in BERT) in variants whose memory and time are compared."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from amped.kernels.layer_shape import Dimensions
from amped.kernels.memory.attention import softmax_dropout_matmul
from amped.kernels.memory.in_place_activation import InplaceGELU
from amped.kernels.memory.in_place_norm import InplaceLayerNorm
from amped.kernels.memory.recompute import act_linear

DROPOUT = 0.1


@dataclass(frozen=True)
class Variant:
    """The choices that distinguish a variant of the layer.

    Attributes:
        attention: explicit, dropout_recomputed, or fused (without dropout, which a processor's fused kernel does not
            have).
        activation: plain, in_place or recomputed.
        norm: plain or in_place.
    """

    attention: str = "explicit"
    activation: str = "plain"
    norm: str = "plain"


def dropped(x: Tensor) -> Tensor:
    """A tensor after dropout, whose mask is boolean on every device; that of `nn.functional.dropout` is wider on processors."""
    return torch.native_dropout(x, DROPOUT, True)[0]


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network four times as wide, each followed by dropout, sum and norm."""

    def __init__(self, sizes: Dimensions, variant: Variant) -> None:
        super().__init__()
        hidden = sizes.hidden
        norm = InplaceLayerNorm if variant.norm == "in_place" else nn.LayerNorm
        self.heads, self.variant = sizes.heads, variant
        self.projection, self.attention_output = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.activation = InplaceGELU() if variant.activation == "in_place" else nn.GELU()
        self.attention_norm, self.feedforward_norm = norm(hidden), norm(hidden)

    def attended(self, x: Tensor) -> Tensor:
        """The attention of all heads, as (batch, sequence, hidden)."""
        q, k, v = self.projection(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.variant.attention == "fused":
            values = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
            if self.variant.attention == "dropout_recomputed":
                values = softmax_dropout_matmul(scores, v, DROPOUT, self.training)
            else:
                values = dropped(scores.softmax(-1)) @ v
        return values.transpose(1, 2).flatten(2)

    def fed_forward(self, x: Tensor) -> Tensor:
        """The output of the feed-forward network."""
        inner = self.up(x)
        if self.variant.activation == "recomputed":
            return act_linear(inner, self.down.weight, self.down.bias, "gelu")
        return self.down(self.activation(inner))

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output."""
        x = self.attention_norm(x + dropped(self.attention_output(self.attended(x))))
        return self.feedforward_norm(x + dropped(self.fed_forward(x)))


def stack(sizes: Dimensions, variant: Variant, layers: int) -> nn.Sequential:
    """Several layers of one variant in a row."""
    return nn.Sequential(*(EncoderLayer(sizes, variant) for _ in range(layers)))


def saved_bytes(sizes: Dimensions, width: int, statistic_width: int, bits: int) -> dict[str, float]:
    """The bytes that each technique saves in an `EncoderLayer`, by its name, by the closed forms.

    `width` is the bytes of an entry, `bits` the number of bits that an in-place activation function keeps for each
    entry (`bits_kept`).

    Source: arXiv 2210.10246, sections 3.1 to 3.3, with packed masks. A norm keeps its input, and mean and 1/σ of
    `statistic_width` bytes (4; a processor keeps those of 16-bit tensors in 16 bits); in place, only 1/σ in fp32.
    """
    stream = sizes.batch * sizes.seq * sizes.hidden
    scores = sizes.batch * sizes.heads * sizes.seq**2
    return {
        "in_place_activation": 4 * stream * (width - bits / 8),
        "in_place_norm": 2 * (stream * width + sizes.batch * sizes.seq * (2 * statistic_width - 4)),
        "dropout_recomputation": scores * width,
        "activation_function_recomputation": 4 * stream * width,
    }
