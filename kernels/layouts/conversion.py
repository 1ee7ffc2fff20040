"""Parameters of an encoder layer from `torch.nn.TransformerEncoderLayer`: values are moved, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amped.base.errors import ConfigError
from amped.kernels.layer_shape import Dimensions
from amped.kernels.layouts.tensors import Tensor
from amped.kernels.torch_import import torch

if TYPE_CHECKING:
    from amped.kernels.layouts.encoder import LayoutEncoderLayer
    from amped.kernels.layouts.plan import Plan

# torch stacks queries, keys, values; the layer stacks keys, queries, values.
SWAP = [1, 0, 2]
SAME = {"BO": "self_attn.out_proj.bias", "S1": "norm1.weight", "B1": "norm1.bias", "LINW1": "linear1.weight",
        "LINB1": "linear1.bias", "LINW2": "linear2.weight", "LINB2": "linear2.bias", "S2": "norm2.weight",
        "B2": "norm2.bias"}  # fmt: skip
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
    made = torch.nn.TransformerEncoderLayer
    return made(dimensions.hidden, dimensions.heads, dimensions.ffn, batch_first=True, norm_first=False, **more)


def from_torch(layer: Any, plan: Plan | None = None, batch: int = 1, seq: int = 1) -> LayoutEncoderLayer:
    """The layer that computes the same as torch's layer.

    Raises:
        ConfigError: for a layer of another kind: pre-norm, without biases, another activation.
    """
    from amped.kernels.layouts.encoder import LayoutEncoderLayer

    activation = layer.activation.__name__
    missing = [name for name in ("linear1", "linear2", "norm1", "norm2") if getattr(layer, name).bias is None]
    if layer.norm_first or missing or layer.self_attn.in_proj_bias is None:
        raise ConfigError("the layer is not a post-norm encoder layer with biases", "norm_first=False, bias=True")
    if not layer.self_attn.batch_first:
        raise ConfigError("the layer takes the sequence first", "make it with batch_first=True")
    dimensions = Dimensions(
        batch, seq, layer.self_attn.num_heads, layer.linear1.in_features, layer.linear1.out_features
    )
    weight = layer.linear1.weight
    made = LayoutEncoderLayer(
        dimensions, plan, dropout=layer.dropout.p, activation=activation, epsilon=layer.norm1.eps,
        device=weight.device, dtype=weight.dtype,
    )  # fmt: skip
    made.load_all(layer)
    return made
