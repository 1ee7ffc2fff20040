"""Parameters of an encoder layer from `torch.nn.TransformerEncoderLayer`: values are moved, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts.spec import LAYER
from amped.kernels.tensor_layouts.tensors import Tensor
from amped.kernels.torch_import import torch

# torch stacks queries, keys, values; the layer stacks keys, queries, values.
SWAP = [1, 0, 2]
SAME: Mapping[str, str] = LAYER["names_in_torch"]
IN_WEIGHT, IN_BIAS, OUT_WEIGHT = "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight"


def from_state(state: Mapping[str, Tensor], dimensions: Dimensions) -> dict[str, Tensor]:
    """Logical parameters from torch's; row h·p + place of a projection is the given place of head h."""
    heads, width = dimensions.heads, dimensions.hidden
    values = {name: state[key] for name, key in SAME.items()}
    stacked = state[IN_WEIGHT].view(3, heads, width // heads, width)[SWAP]
    values["WKQV"] = stacked.permute(0, 2, 1, 3)
    values["BKQV"] = state[IN_BIAS].view(3, heads, width // heads)[SWAP].permute(0, 2, 1)
    values["WO"] = state[OUT_WEIGHT].view(width, heads, width // heads).permute(2, 1, 0)
    return values


def torch_layer(dimensions: Dimensions, **more: Any) -> Any:
    """Torch's layer of these sizes."""
    return torch.nn.TransformerEncoderLayer(
        dimensions.hidden, dimensions.heads, dimensions.ffn, batch_first=True, norm_first=False, **more
    )
