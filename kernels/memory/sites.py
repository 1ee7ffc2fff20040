"""Where a model can keep less: the class of a module is exchanged for one with equal parameters, and back.

The module stays the same object, so that parameters, hooks, names and optimizers do not change.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from amped.kernels.memory.attention import RecomputedAttention, RecomputedSoftmaxDropoutMatmul, SoftmaxDropoutMatmul
from amped.kernels.memory.in_place_activation import InplaceGELU, InplaceSiLU, inplace_gelu
from amped.kernels.memory.in_place_norm import InplaceLayerNorm, InplaceRMSNorm
from amped.kernels.memory.recompute import act_linear


class RecomputingSequential(nn.Sequential):
    """`nn.Sequential` in which some products compute the activation function before them again.

    Its modules stay what they are: one that is called alone, a slice, or one with a hook computes what it says.
    `recomputed` has the names of these activation functions.
    """

    recomputed: Set[str] = frozenset()

    def forward(self, x: Tensor) -> Tensor:
        """The output of the last module."""
        children = list(self._modules.items())
        while children:
            name, module = children.pop(0)
            if name in self.recomputed and children and _is_pair(module, children[0][1]):
                x = _as_one(module, children.pop(0)[1], x)
            else:
                x = module(x)
        return x


ALONE: dict[str, dict[type[nn.Module], type[nn.Module]]] = {
    "in_place_norm": {nn.LayerNorm: InplaceLayerNorm, nn.RMSNorm: InplaceRMSNorm},
    "in_place_activation": {nn.GELU: InplaceGELU, nn.SiLU: InplaceSiLU},
    "dropout_recomputation": {
        nn.MultiheadAttention: RecomputedAttention,
        SoftmaxDropoutMatmul: RecomputedSoftmaxDropoutMatmul,
    },
}
# The activation functions that can be computed again, by the names of `act_linear`.
_RECOMPUTED = {nn.GELU: "gelu", nn.SiLU: "silu", nn.ReLU: "relu"}
_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
_BEFORE = {made: original for swaps in ALONE.values() for original, made in swaps.items()}
_BEFORE[RecomputingSequential] = nn.Sequential
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
        given = (*args, *kwargs.values())
        first = next((t for t in given if isinstance(t, Tensor) and t.is_floating_point()), None)
        return None if first is None else cls(args, kwargs, first)

    def again(self, module: nn.Module, x: Tensor) -> Any:
        """Calls a module with another tensor in all places of the first one: attention may have it three times."""
        kwargs = {name: x if given is self.first else given for name, given in self.kwargs.items()}
        return module(*(x if given is self.first else given for given in self.args), **kwargs)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What the time of the call depends on: shapes, formats, and arguments that are not tensors."""
        given = (*self.args, *(self.kwargs[name] for name in sorted(self.kwargs)))
        same = tuple(each is self.first for each in given)
        return (*((t.shape, t.dtype) if isinstance(t, Tensor) else t for t in given), same)


class Alone(nn.Module):
    """What a site computes from its first input, with its parameters, so that it can be timed."""

    def __init__(self, site: Site, seen: Seen) -> None:
        super().__init__()
        self.module, self.product, self.site, self.seen = site.module, site.product, site, seen

    def forward(self, x: Tensor) -> Tensor:
        """The output of the site."""
        if self.product is not None and self.site.is_recomputed:
            return _as_one(self.module, self.product, x)
        found = self.seen.again(self.module, x)
        found = found[0] if isinstance(found, tuple) else found
        return found if self.product is None else self.product(found)


@dataclass(frozen=True)
class Site:
    """A place where one technique can be used.

    Attributes:
        module: the module whose input is no longer kept.
        product: the linear module after it, if that one computes the function again.
        container: what holds both, and then runs them as one.
    """

    name: str
    technique: str
    module: nn.Module
    product: nn.Linear | None = None
    container: nn.Sequential | None = None

    @property
    def key(self) -> str:
        """The name of the module in its container."""
        return self.name.rpartition(".")[2]

    @property
    def is_recomputed(self) -> bool:
        """Whether the product computes the function again."""
        return self.key in getattr(self.container, "recomputed", ())

    def apply(self) -> None:
        """Exchanges the classes."""
        if isinstance(self.module, _LAYERS):
            self.module.activation = inplace_gelu
        elif self.container is None:
            self.module.__class__ = ALONE[self.technique][type(self.module)]
        else:
            self.container.__class__ = RecomputingSequential
            self.container.__dict__.setdefault("recomputed", set()).add(self.key)

    def undo(self) -> None:
        """Gives the module its class in torch back; a container keeps what it recomputes elsewhere."""
        if self.container is None:
            restore(self.module)
            return
        self.container.recomputed.discard(self.key)
        if not self.container.recomputed:
            restore(self.container)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Exchanges the classes for a while."""
        self.apply()
        try:
            yield
        finally:
            self.undo()


def restore(module: nn.Module) -> bool:
    """Gives a module its earlier class back; the result says whether it had another one."""
    if getattr(module, "activation", None) is inplace_gelu:
        module.activation = nn.functional.gelu
        return True
    if type(module) not in _BEFORE:
        return False
    module.__class__ = _BEFORE[type(module)]
    for own in ("recomputed", "_passes", "_reason"):
        module.__dict__.pop(own, None)
    return True


def sites(model: nn.Module, techniques: tuple[str, ...]) -> Iterator[Site]:
    """Every place where one of the techniques can be used; subclasses of torch's modules are left alone."""
    occurrences = Counter(id(m) for _, m in model.named_modules(remove_duplicate=False))
    for name, module in model.named_modules():
        for technique in techniques:
            if type(module) in ALONE.get(technique, {}) and _drops(module):
                yield Site(name, technique, module)
        replaceable = isinstance(module, _LAYERS) and module.activation is nn.functional.gelu
        if replaceable and "in_place_activation" in techniques:
            yield Site(f"{name}.activation".lstrip("."), "in_place_activation", module)
        if type(module) is nn.Sequential and "activation_function_recomputation" in techniques:
            for (first, act), (_, product) in itertools.pairwise(module.named_children()):
                # a module that is also used elsewhere, or that a hook watches, must not change
                free = occurrences[id(act)] == occurrences[id(product)] == 1
                if free and _is_pair(act, product):
                    yield Site(f"{name}.{first}".lstrip("."), "activation_function_recomputation", act, product, module)


def _drops(module: nn.Module) -> bool:
    """Whether there is something to compute again: attention without dropout keeps its softmax only once."""
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0 and module.bias_k is None and not module.add_zero_attn
    return not isinstance(module, SoftmaxDropoutMatmul) or module.p > 0


def _is_pair(act: nn.Module, product: nn.Module) -> bool:
    """Whether these are an activation function and a product, both torch's own and without hooks, which may be one."""
    return type(act) in _RECOMPUTED and type(product) is nn.Linear and not _hooked(act) and not _hooked(product)


def _hooked(module: nn.Module) -> bool:
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks))


def _as_one(act: nn.Module, product: nn.Linear, x: Tensor) -> Tensor:
    """The output of both, of which the product computes the activation function again."""
    tanh = "_tanh" if getattr(act, "approximate", "none") == "tanh" else ""
    return act_linear(x, product.weight, product.bias, _RECOMPUTED[type(act)] + tanh)
