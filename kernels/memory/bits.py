"""Packs eight booleans into a byte, and makes room for those of a tensor."""

from __future__ import annotations

import torch
from torch import Tensor

# A product with this number gathers the lowest bits of eight bytes (0 or 1 each) in the highest byte, the first lowest.
_GATHER = 0x0102040810204080


def pack_bits(mask: Tensor) -> Tensor:
    """The bits of a boolean tensor in the order of its indices, eight in a byte, the first one lowest; zero-padded."""
    flat = torch.nn.functional.pad(mask.reshape(-1), (0, -mask.numel() % 8))
    return ((flat.contiguous().view(torch.int64) * _GATHER) >> 56).to(torch.uint8)


def room_for_bits(x: Tensor, rows: int) -> Tensor:
    """Bytes for `rows` bits of each entry of a tensor: a row for each of these bits, eight entries in a byte."""
    return x.new_empty((rows, (x.numel() + 7) // 8), dtype=torch.uint8)


def unpack_bits(packed: Tensor, shape: torch.Size) -> Tensor:
    """The boolean tensor of this shape that `pack_bits` has packed."""
    weights = 1 << torch.arange(8, dtype=torch.uint8, device=packed.device)
    flat = (packed[:, None] & weights) != 0
    return flat.reshape(-1)[: shape.numel()].view(shape)
