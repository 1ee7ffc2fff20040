"""Where a model can keep less: modules whose class is exchanged for one of the same parameters, and back.

The module stays the same object: parameters, hooks, names and optimisers know nothing of it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from amped.kernels.memory.in_place_activation import InplaceGELU, InplaceSiLU, inplace_gelu
from amped.kernels.memory.in_place_norm import InplaceLayerNorm, InplaceRMSNorm
from amped.kernels.memory.recompute import act_linear


class DeferredGELU(nn.GELU):
    """Passes its input on: the product behind it applies the function."""

    def forward(self, x: Tensor) -> Tensor:
        """The input."""
        return x


class DeferredSiLU(nn.SiLU):
    """Passes its input on: the product behind it applies the function."""

    def forward(self, x: Tensor) -> Tensor:
        """The input."""
        return x


class DeferredReLU(nn.ReLU):
    """Passes its input on: the product behind it applies the function."""

    def forward(self, x: Tensor) -> Tensor:
        """The input."""
        return x


class ActLinear(nn.Linear):
    """`nn.Linear` behind an activation function that it computes again backward."""

    act = "gelu"

    def forward(self, x: Tensor) -> Tensor:
        """The product with the function of the input."""
        return act_linear(x, self.weight, self.bias, self.act)


IN_PLACE: dict[str, dict[type[nn.Module], type[nn.Module]]] = {
    "in_place_norm": {nn.LayerNorm: InplaceLayerNorm, nn.RMSNorm: InplaceRMSNorm},
    "in_place_activation": {nn.GELU: InplaceGELU, nn.SiLU: InplaceSiLU},
}
_DEFERRED: dict[type[nn.Module], type[nn.Module]] = {
    nn.GELU: DeferredGELU, nn.SiLU: DeferredSiLU, nn.ReLU: DeferredReLU,
}  # fmt: skip
_BEFORE = {
    made: original
    for swaps in (*IN_PLACE.values(), _DEFERRED, {nn.Linear: ActLinear})
    for original, made in swaps.items()
}
TECHNIQUES = (*IN_PLACE, "activation_function_recomputation")


@dataclass(frozen=True)
class Site:
    """A place where one technique can be used.

    Attributes:
        module: the one whose input is not kept any more; product: the linear behind it, where that computes it again.
    """

    name: str
    technique: str
    module: nn.Module
    product: nn.Linear | None = None

    def apply(self) -> None:
        """Exchanges the classes."""
        if isinstance(self.module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            self.module.activation = inplace_gelu
        elif self.product is None:
            self.module.__class__ = IN_PLACE[self.technique][type(self.module)]
        else:
            self.product.act = _act_name(self.module)
            self.product.__class__ = ActLinear
            self.module.__class__ = _DEFERRED[type(self.module)]

    def undo(self) -> None:
        """The modules as torch has them."""
        for module in (self.module, self.product):
            if module is not None:
                restore(module)

    @property
    def alone(self) -> nn.Module:
        """What this place computes, as a module that shares its parameters and can be timed."""
        return self.module if self.product is None else nn.Sequential(self.module, self.product)


def restore(module: nn.Module) -> bool:
    """Gives a module its class of before; whether it had another."""
    if getattr(module, "activation", None) is inplace_gelu:
        module.activation = nn.functional.gelu
        return True
    if type(module) not in _BEFORE:
        return False
    module.__class__ = _BEFORE[type(module)]
    for own in ("act", "_passes", "_reason"):
        module.__dict__.pop(own, None)
    return True


def sites(model: nn.Module, techniques: tuple[str, ...]) -> Iterator[Site]:
    """Every place where one of the techniques can be used; subclasses of torch's modules are left alone."""
    occurrences = Counter(id(m) for _, m in model.named_modules(remove_duplicate=False))
    for name, module in model.named_modules():
        for technique in techniques:
            if type(module) in IN_PLACE.get(technique, {}):
                yield Site(name, technique, module)
        layer = isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer)
        if layer and "in_place_activation" in techniques and module.activation is nn.functional.gelu:
            yield Site(f"{name}.activation".lstrip("."), "in_place_activation", module)
        if type(module) is nn.Sequential and "activation_function_recomputation" in techniques:
            children = list(module.named_children())
            for (first, act), (_, product) in itertools.pairwise(children):
                # One that is also used elsewhere, or that a hook watches, must go on doing what it does.
                free = (
                    occurrences[id(act)] == occurrences[id(product)] == 1 and not _hooked(act) and not _hooked(product)
                )
                if type(act) in _DEFERRED and type(product) is nn.Linear and free:
                    yield Site(f"{name}.{first}".lstrip("."), "activation_function_recomputation", act, product)


def _hooked(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)


def _act_name(module: nn.Module) -> str:
    if isinstance(module, nn.GELU):
        return "gelu" if module.approximate == "none" else "gelu_tanh"
    return "silu" if isinstance(module, nn.SiLU) else "relu"


def has_gradient(x: object) -> bool:
    """Whether something is a tensor that a gradient can flow to."""
    return isinstance(x, Tensor) and torch.is_floating_point(x)
