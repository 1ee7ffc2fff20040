"""An encoder layer that runs a plan of layouts: one autograd function; parameters are stored in the plan's layouts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from amped.base.errors import ConfigError, quoted
from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts.fused import Choices, kernels_on
from amped.kernels.tensor_layouts.plan import Plan, row_major
from amped.kernels.tensor_layouts.spec import INPUT_ONLY, LAYER, LAYERS, LETTERS
from amped.kernels.tensor_layouts.tensors import Tensor, logical, stored
from amped.kernels.tensor_layouts.workspace import Workspace
from amped.kernels.torch_import import torch

ACTIVATIONS = ("relu", "gelu")
PARAMETERS = ("WKQV", "BKQV", "WO", "BO", "S1", "B1", "LINW1", "LINB1", "LINW2", "LINB2", "S2", "B2")
# The operators of the forward pass and of the backward pass.
PASSES = {
    attention: tuple(tuple(o for o in operators if o.forward is forward) for forward in (True, False))
    for attention, operators in LAYERS.items()
}
# torch stacks queries, keys, values; the layer stacks keys, queries, values.
SWAP = [1, 0, 2]
SAME: Mapping[str, str] = LAYER["names_in_torch"]
IN_WEIGHT, IN_BIAS, OUT_WEIGHT = "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight"


class PlanWarning(UserWarning):
    """The warning that a plan runs, but was measured for something else."""


class _Layer(torch.autograd.Function):
    """The operators of both passes over the tensors of a workspace."""

    @staticmethod
    def forward(ctx: Any, layer: LayoutEncoderLayer, values: Tensor, *parameters: Tensor) -> Tensor:
        space = layer.workspace(values)
        laid = dict(zip(PARAMETERS, parameters, strict=True)) | {"X": layer.laid_out(values, "X")}
        space.tensors |= laid
        for operator in PASSES[layer.plan.attention][0]:
            space.call(operator)()
        ctx.layer, ctx.space = layer, space
        ctx.save_for_backward(*laid.values())  # so that torch notices a weight that changes before the backward pass
        return logical(space.tensors.pop("Y"), space.layout("Y"), "bji")

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        layer = ctx.layer
        space = ctx.space.copied()
        names = (*PARAMETERS, "X")
        space.tensors |= dict(zip(names, ctx.saved_tensors, strict=True)) | {"DY": layer.laid_out(grad, "DY")}
        with_input = ctx.needs_input_grad[1]
        for operator in PASSES[layer.plan.attention][1]:
            if with_input or operator.name not in INPUT_ONLY:
                space.call(operator)()
        return (None, space.view("DX") if with_input else None, *(space.tensors[f"D{name}"] for name in PARAMETERS))


class LayoutEncoderLayer(torch.nn.Module):
    """A post-norm encoder layer with the tensor layouts of a plan; input and output are (batch, sequence, hidden).

    Args:
        dimensions: the sizes of the layer; batch and sequence length may change from call to call.
        plan: the layouts; by default, natural order wherever contractions allow it.
        attention: `explicit` or `sdpa`; by default, that of the plan.

    Raises:
        ConfigError: for a plan of another layer, an unknown activation, a dropout outside [0, 1).
    """

    def __init__(
        self, dimensions: Dimensions, plan: Plan | None = None, *, dropout: float = 0.1, activation: str = "relu",
        epsilon: float = 1e-5, attention: str | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check(dimensions, plan, attention, dropout, activation)
        self.dimensions = dimensions
        self.plan = plan or row_major(dimensions, attention or "explicit")
        self.choices = Choices(1.0 - dropout, epsilon, activation)
        self._warned = False
        for name in PARAMETERS:
            shape = [dimensions.sizes[letter] for letter in self.plan.layout(name)]
            self.register_parameter(name, torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new values for all parameters, as torch's own encoder layer does."""
        self.load_all(torch_layer(self.dimensions))

    def load_all(self, layer: Any) -> None:
        """Sets all parameters to those of an encoder layer of torch."""
        with torch.no_grad():
            for name, values in from_state(layer.state_dict(), self.dimensions).items():
                getattr(self, name).copy_(logical(values, LETTERS[name], self.plan.layout(name)))

    def laid_out(self, values: Tensor, name: str) -> Tensor:
        """Values of shape (batch, sequence, hidden) in the layout of tensor `name`; a copy if their layout is another one."""
        return stored(values, "bji", self.plan.layout(name))

    def workspace(self, values: Tensor) -> Workspace:
        """The workspace for one forward pass of these values."""
        batch, seq, _ = values.shape
        sizes = replace(self.dimensions, batch=batch, seq=seq).sizes
        choices = self.choices if self.training else replace(self.choices, keep=1.0)
        like = {"dtype": values.dtype, "device": values.device}
        return Workspace(sizes, self.plan.layouts, like, choices, kernels_on(values.device.type))

    def forward(self, values: Tensor) -> Tensor:
        """The layer's output as (batch, sequence, hidden), in the layout of its input."""
        if values.dim() != 3 or values.shape[2] != self.dimensions.hidden:
            what = f"the layer takes (batch, sequence, {self.dimensions.hidden}), not {tuple(values.shape)}"
            raise ConfigError(what, "give x with the batch first")
        if values.dtype != self.WO.dtype or values.device != self.WO.device:
            what = f"x is {values.dtype} on {values.device}, the layer {self.WO.dtype} on {self.WO.device}"
            raise ConfigError(what, "move one with .to()")
        self._tell_of_another_measurement(values)
        return _Layer.apply(self, values, *(getattr(self, name) for name in PARAMETERS))

    def _tell_of_another_measurement(self, values: Tensor) -> None:
        """Warns once that the plan was measured at other sizes or on another device."""
        measured = self.plan.measured
        if self._warned or not measured:
            return
        self._warned = True
        sizes = {"batch": values.shape[0], "seq": values.shape[1]}
        timed = vars(self.plan.timed)
        differences = [f"{name} {timed[name]}, not {size}" for name, size in sizes.items() if timed[name] != size]  # fmt: skip
        if measured.get("device_type", values.device.type) != values.device.type:
            differences.append(f"{measured.get('device')}, not {values.device.type}")
        if differences:
            message = (
                f"the plan was measured for {'; '.join(differences)}: results are right, it may not be the fastest"
            )
            warnings.warn(message, PlanWarning, stacklevel=3)


def _check(dimensions: Dimensions, plan: Plan | None, attention: str | None, dropout: float, activation: str) -> None:
    """Refuses options that this layer cannot have.

    Raises:
        ConfigError: with all problems.
    """
    problems = []
    if plan is not None:
        theirs, ours = vars(plan.dimensions), vars(dimensions)
        sizes = ("heads", "hidden", "ffn")
        wrong = [f"{name} {theirs[name]}, not {ours[name]}" for name in sizes if theirs[name] != ours[name]]
        if wrong:
            problems.append(f"the plan is for another layer: {', '.join(wrong)}")
        if attention not in (None, plan.attention):
            problems.append(f"the plan is for {plan.attention} attention, not {attention}")
    if activation not in ACTIVATIONS:
        problems.append(f"{quoted(activation)} is no activation: there are {' and '.join(ACTIVATIONS)}")
    if not 0 <= dropout < 1:
        problems.append(f"dropout {dropout} is not in [0, 1)")
    if problems:
        raise ConfigError("; ".join(problems), "make a plan for this layer: amped layouts bench, amped layouts select")


def from_state(state: Mapping[str, Tensor], dimensions: Dimensions) -> dict[str, Tensor]:
    """The layer's parameters by name, with axes in logical order, from the state of an encoder layer of torch.

    Row h·p + place of a projection of torch is the given place of head h.
    """
    heads, width = dimensions.heads, dimensions.hidden
    values = {name: state[key] for name, key in SAME.items()}
    stacked = state[IN_WEIGHT].view(3, heads, width // heads, width)[SWAP]
    values["WKQV"] = stacked.permute(0, 2, 1, 3)
    values["BKQV"] = state[IN_BIAS].view(3, heads, width // heads)[SWAP].permute(0, 2, 1)
    values["WO"] = state[OUT_WEIGHT].view(width, heads, width // heads).permute(2, 1, 0)
    return values


def torch_layer(dimensions: Dimensions, **more: Any) -> Any:
    """Torch's encoder layer of these sizes, with norms after the blocks; `more` are its further options."""
    return torch.nn.TransformerEncoderLayer(
        dimensions.hidden, dimensions.heads, dimensions.ffn, batch_first=True, norm_first=False, **more
    )


def from_torch(layer: Any, plan: Plan | None = None, batch: int = 1, seq: int = 1) -> LayoutEncoderLayer:
    """The layer with layouts that computes the same as an encoder layer of torch.

    Raises:
        ConfigError: for a layer of another kind: pre-norm, without biases, another activation.
    """
    missing = {"self_attn.in_proj_bias", *SAME.values()} - layer.state_dict().keys()
    if layer.norm_first or missing:
        raise ConfigError("the layer is not a post-norm encoder layer with biases", "norm_first=False, bias=True")
    if not layer.self_attn.batch_first:
        raise ConfigError("the layer takes the sequence first", "make it with batch_first=True")
    dimensions = Dimensions(
        batch, seq, layer.self_attn.num_heads, layer.linear1.in_features, layer.linear1.out_features
    )
    weight = layer.linear1.weight
    converted = LayoutEncoderLayer(
        dimensions, plan, dropout=layer.dropout.p, activation=layer.activation.__name__, epsilon=layer.norm1.eps,
        device=weight.device, dtype=weight.dtype,
    )  # fmt: skip
    converted.load_all(layer)
    return converted
