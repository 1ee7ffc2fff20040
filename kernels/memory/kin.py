"""What a module computes, found by running it on a few numbers: other libraries' activation functions and norms.

Torch's own classes are known by their types, and subclasses of them are left alone. Any other module without children
counts as what it computes, if running it does not change it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from amped.kernels.memory.in_place_norm import normalized, widened
from amped.kernels.memory.recompute import TORCH_FUNCTIONS

_TORCH = {nn.SiLU: "silu", nn.ReLU: "relu"}
# Inputs of an activation function: its two forms of GELU are apart by up to 5e-4 between them.
_LEAST, _MOST, _POINTS = -6.0, 6.0, 97
# How far results of one formula may be apart in fp32.
_CLOSE = 1e-5
# Rows of a norm; in the second one, the mean square is about as large as an epsilon.
_ROWS, _SMALL = 2, 1e-3
# What norms call their epsilon, and what those that do not name it have.
_NAMES, _USUAL = ("variance_epsilon", "eps", "epsilon", "norm_eps"), (1e-5, 1e-6)


@dataclass(frozen=True)
class Norm:
    """A layer norm (`centered`) or RMS norm over the last dimension.

    Attributes:
        offset: the norm multiplies by its weight plus this number.
        keeps_format: whether its output has the format of its input, even if its weight has a wider one.
    """

    centered: bool
    eps: float
    offset: float
    keeps_format: bool = True


def activation_of(module: nn.Module) -> str:
    """The name (of `act_linear`) of the activation function that a module computes.

    Empty if the module computes none of them, or if it writes over its input.
    """
    if getattr(module, "inplace", False):
        return ""
    if type(module) is nn.GELU:
        return "gelu_tanh" if module.approximate == "tanh" else "gelu"
    if type(module) in _TORCH:
        return _TORCH[type(module)]
    if not _may_be_kin(module) or any(True for _ in module.parameters()):
        return ""
    x = torch.linspace(_LEAST, _MOST, _POINTS)
    y = _output(module, x)
    if y is None or y.dtype != x.dtype:
        return ""
    return next(
        (name for name, (value, _) in TORCH_FUNCTIONS.items() if torch.allclose(y, value(x), _CLOSE, _CLOSE)), ""
    )


def norm_of(module: nn.Module) -> Norm | None:
    """The norm that a module computes; None if it computes none.

    Its parameters must be a weight and perhaps a bias.
    """
    parameters = dict(module.named_parameters(recurse=False))
    weight, bias = parameters.get("weight"), parameters.get("bias")
    if (
        weight is None
        or len(parameters) > 1 + (bias is not None)
        or weight.dim() != 1
        or not weight.is_floating_point()
        or not _may_be_kin(module)
    ):
        return None
    if bias is not None and bias.shape != weight.shape:
        return None
    x = 1 + torch.randn(_ROWS, len(weight), generator=torch.Generator().manual_seed(0))  # a mean tells both norms apart
    x = (x * torch.tensor([[1.0], [_SMALL]])).to(weight.device, weight.dtype)
    y = _output(module, x)
    within = max(_CLOSE, 4 * torch.finfo(weight.dtype).eps)
    kinds = itertools.product((False, True), _epsilons(module), (0.0, 1.0)) if y is not None else ()
    for kind in itertools.starmap(Norm, kinds):
        exact = normalized(x, widened(weight.detach()) + kind.offset, bias, kind.eps, kind.centered)
        if torch.allclose(widened(y), widened(exact), within, within):
            narrow = _output(module, x.to(torch.bfloat16))
            return replace(kind, keeps_format=narrow is None or narrow.dtype == torch.bfloat16)
    return None


def _epsilons(module: nn.Module) -> Iterator[float]:
    """The values that a module's epsilon may have: those of its attributes, then the usual ones."""
    named = (getattr(module, name, None) for name in _NAMES)
    yield from (eps for eps in named if isinstance(eps, float))
    yield from _USUAL


def _may_be_kin(module: nn.Module) -> bool:
    """Whether a module may be run to find what it computes: its class is not torch's, and it has no buffers or submodules."""
    kinds = type(module).__mro__
    outside_torch = all(kind is nn.Module or not kind.__module__.startswith("torch.nn.") for kind in kinds)
    return outside_torch and not module._buffers and not module._modules


@torch.no_grad()
def _output(module: nn.Module, x: Tensor) -> Tensor | None:
    """The output of a module for a tensor; None if it fails, has another shape, or changes the module."""
    before = dict(vars(module))
    with torch.random.fork_rng(), torch.autocast(x.device.type, enabled=False):
        try:
            y = type(module).forward(module, x.clone())
        except Exception:  # whatever a stranger's module says to it: it is no kin
            return None
    is_changed = any(before.get(name, module) is not value for name, value in vars(module).items())
    return y if isinstance(y, Tensor) and y.shape == x.shape and not is_changed else None
