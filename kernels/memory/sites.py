"""Where a model can keep less: the class of a module is exchanged for one with equal parameters, and back.

The module stays the same object, so that parameters, hooks, names and optimizers do not change.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from amped.kernels.memory.attention import RecomputedAttention, RecomputedSoftmaxDropoutMatmul, SoftmaxDropoutMatmul
from amped.kernels.memory.in_place_activation import InplaceGELU, InplaceSiLU, inplace_gelu
from amped.kernels.memory.in_place_norm import InplaceLayerNorm, InplaceRMSNorm
from amped.kernels.memory.recompute import act_linear


class _Deferred(nn.Module):
    """Passes its input on; the product after it applies the function."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns the input."""
        return x


class DeferredGELU(_Deferred, nn.GELU):
    """GELU, applied by the product after it."""


class DeferredSiLU(_Deferred, nn.SiLU):
    """SiLU, applied by the product after it."""


class DeferredReLU(_Deferred, nn.ReLU):
    """ReLU, applied by the product after it."""


class ActLinear(nn.Linear):
    """`nn.Linear` after an activation function, which it computes again in the backward pass."""

    act = "gelu"

    def forward(self, x: Tensor) -> Tensor:
        """The product with the activation function of the input."""
        return act_linear(x, self.weight, self.bias, self.act)


ALONE: dict[str, dict[type[nn.Module], type[nn.Module]]] = {
    "in_place_norm": {nn.LayerNorm: InplaceLayerNorm, nn.RMSNorm: InplaceRMSNorm},
    "in_place_activation": {nn.GELU: InplaceGELU, nn.SiLU: InplaceSiLU},
    "dropout_recomputation": {
        nn.MultiheadAttention: RecomputedAttention,
        SoftmaxDropoutMatmul: RecomputedSoftmaxDropoutMatmul,
    },
}
_DEFERRED: dict[type[nn.Module], type[nn.Module]] = {
    nn.GELU: DeferredGELU, nn.SiLU: DeferredSiLU, nn.ReLU: DeferredReLU,
}  # fmt: skip
_SWAPS: tuple[dict[Any, Any], ...] = (*ALONE.values(), _DEFERRED, {nn.Linear: ActLinear})
_BEFORE = {made: original for swaps in _SWAPS for original, made in swaps.items()}
TECHNIQUES = (*ALONE, "activation_function_recomputation")


@dataclass(frozen=True)
class Seen:
    """What a module was called with; gradients stop at these tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    first: Tensor

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Seen | None:
        """A call with at least one tensor that a gradient can flow to; the first such tensor counts."""
        first = next(filter(has_gradient, (*args, *kwargs.values())), None)
        return None if first is None else cls(args, kwargs, first)

    def with_first(self, x: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call with another tensor in all places of the first one: attention may have it three times."""
        kwargs = {name: x if given is self.first else given for name, given in self.kwargs.items()}
        return tuple(x if given is self.first else given for given in self.args), kwargs

    @property
    def kind(self) -> tuple[Any, ...]:
        """What the time of the call depends on: shapes, formats, and arguments that are not tensors."""
        given = (*self.args, *(self.kwargs[name] for name in sorted(self.kwargs)))
        same = tuple(each is self.first for each in given)
        return (*((t.shape, t.dtype) if isinstance(t, Tensor) else t for t in given), same)


class _Alone(nn.Module):
    def __init__(self, module: nn.Module, product: nn.Linear | None, seen: Seen) -> None:
        super().__init__()
        self.module, self.product, self.seen = module, product, seen

    def forward(self, x: Tensor) -> Tensor:
        args, kwargs = self.seen.with_first(x)
        found = self.module(*args, **kwargs)
        found = found[0] if isinstance(found, tuple) else found
        return found if self.product is None else self.product(found)


@dataclass(frozen=True)
class Site:
    """A place where one technique can be used.

    Attributes:
        module: the module whose input is no longer kept.
        product: the linear module after it, if that one computes the function again.
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
            self.module.__class__ = ALONE[self.technique][type(self.module)]
        else:
            self.product.act = _act_name(self.module)
            self.product.__class__ = ActLinear
            self.module.__class__ = _DEFERRED[type(self.module)]

    def undo(self) -> None:
        """Gives the modules their classes in torch back."""
        for module in (self.module, self.product):
            if module is not None:
                restore(module)

    def alone(self, seen: Seen) -> nn.Module:
        """What this place computes from its first input, as a module that shares its parameters and can be timed."""
        return _Alone(self.module, self.product, seen)


def restore(module: nn.Module) -> bool:
    """Gives a module its earlier class back; the result says whether it had another one."""
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
            if type(module) in ALONE.get(technique, {}) and _drops(module):
                yield Site(name, technique, module)
        layer = isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer)
        if layer and "in_place_activation" in techniques and module.activation is nn.functional.gelu:
            yield Site(f"{name}.activation".lstrip("."), "in_place_activation", module)
        if type(module) is nn.Sequential and "activation_function_recomputation" in techniques:
            children = list(module.named_children())
            for (first, act), (_, product) in itertools.pairwise(children):
                # a module that is also used elsewhere, or that a hook watches, must not change
                free = all(occurrences[id(each)] == 1 and not _hooked(each) for each in (act, product))
                if type(act) in _DEFERRED and type(product) is nn.Linear and free:
                    yield Site(f"{name}.{first}".lstrip("."), "activation_function_recomputation", act, product)


def _drops(module: nn.Module) -> bool:
    """Whether there is something to compute again: attention without dropout keeps its softmax only once."""
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0 and module.bias_k is None and not module.add_zero_attn
    return not isinstance(module, SoftmaxDropoutMatmul) or module.p > 0


def _hooked(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)


def _act_name(module: nn.Module) -> str:
    if isinstance(module, nn.GELU):
        return "gelu" if module.approximate == "none" else "gelu_tanh"
    return "silu" if isinstance(module, nn.SiLU) else "relu"


def has_gradient(x: object) -> TypeGuard[Tensor]:
    """Whether a value is a tensor that a gradient can flow to."""
    return isinstance(x, Tensor) and torch.is_floating_point(x)
