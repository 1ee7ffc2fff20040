"""Packs eight booleans into a byte, and makes room for those of a tensor."""

from __future__ import annotations

import torch
from torch import Tensor

# A product with this number gathers the lowest bits of eight bytes (0 or 1 each) in the highest byte, the first lowest.
_GATHER = 0x0102040810204080


def pack_bits(mask: Tensor) -> Tensor:
    """The entries of a boolean tensor as bits, eight in a byte; the first entry is the lowest bit, missing ones are 0."""
    flat = torch.nn.functional.pad(mask.reshape(-1), (0, -mask.numel() % 8))
    return ((flat.contiguous().view(torch.int64) * _GATHER) >> 56).to(torch.uint8)


def room_for_bits(x: Tensor, rows: int) -> Tensor:
    """An empty tensor of bytes with `rows` rows, each of which has room for one bit of each entry of `x`."""
    return x.new_empty((rows, (x.numel() + 7) // 8), dtype=torch.uint8)


def unpack_bits(packed: Tensor, shape: torch.Size) -> Tensor:
    """The boolean tensor of this shape whose bits `pack_bits` packed."""
    weights = 1 << torch.arange(8, dtype=torch.uint8, device=packed.device)
    flat = (packed[:, None] & weights) != 0
    return flat.reshape(-1)[: shape.numel()].view(shape)
