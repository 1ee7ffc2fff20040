"""Where a model can keep less: the class of a module is exchanged for one with equal parameters, and back.

The module stays the same object, so that parameters, hooks, names and optimizers do not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from amped.kernels.memory.attention import RecomputedAttention, RecomputedSoftmaxDropoutMatmul, SoftmaxDropoutMatmul
from amped.kernels.memory.in_place_activation import InplaceGELU, InplaceSiLU, inplace_gelu
from amped.kernels.memory.in_place_norm import InplaceLayerNorm, InplaceRMSNorm, in_place_of
from amped.kernels.memory.kin import activation_of, norm_of
from amped.kernels.memory.recompute import RecomputedActivation, RecomputingConv1D, RecomputingLinear
from amped.kernels.memory.transformers_attention import changed_config, writes_its_scores

# Torch's own modules, and those that need no product after them.
ALONE: dict[str, dict[type[nn.Module], type[nn.Module]]] = {
    "in_place_norm": {nn.LayerNorm: InplaceLayerNorm, nn.RMSNorm: InplaceRMSNorm},
    "in_place_activation": {nn.GELU: InplaceGELU, nn.SiLU: InplaceSiLU},
    "dropout_recomputation": {
        nn.MultiheadAttention: RecomputedAttention,
        SoftmaxDropoutMatmul: RecomputedSoftmaxDropoutMatmul,
    },
}
# What other modules become that compute the same: the class, and what it has beside their parameters.
_IN_PLACE: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "gelu": (InplaceGELU, {"approximate": "none"}),
    "gelu_tanh": (InplaceGELU, {"approximate": "tanh"}),
    "silu": (InplaceSiLU, {"inplace": False}),
}
RECOMPUTATION = "activation_function_recomputation"
TECHNIQUES = (*ALONE, RECOMPUTATION)
_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
NO_PRODUCT = "no product takes its output as it is (a dropout, a product with a gate or a cast lies between)"
NOT_ALONE = "it or the product after it is used more than once, or a hook watches it"


@dataclass(frozen=True)
class Seen:
    """The arguments of a module's call, without the graph of autograd before them.

    Attributes:
        first: the first floating-point tensor among the arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    first: Tensor

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Seen | None:
        """The call with these arguments; None if no floating-point tensor is among them."""
        given = (*args, *kwargs.values())
        first = next((t for t in given if isinstance(t, Tensor) and t.is_floating_point()), None)
        return None if first is None else cls(args, kwargs, first)

    @property
    def given(self) -> tuple[Any, ...]:
        """All arguments: those by position, then those by keyword in the order of their names."""
        return (*self.args, *(self.kwargs[name] for name in sorted(self.kwargs)))

    def again(self, module: nn.Module, x: Tensor) -> Any:
        """Calls a module with `x` in place of the first tensor, wherever it was an argument: attention may have it three times."""
        kwargs = {name: x if given is self.first else given for name, given in self.kwargs.items()}
        return module(*(x if given is self.first else given for given in self.args), **kwargs)

    @property
    def kind(self) -> tuple[Any, ...]:
        """A key of the calls that take equal time: shapes, formats, and arguments that are not tensors."""
        same = tuple(argument is self.first for argument in self.given)
        return (*((t.shape, t.dtype) if isinstance(t, Tensor) else t for t in self.given), same)


class Alone(nn.Module):
    """A module that computes one site as a function of the site's first input, so that it can be timed."""

    def __init__(self, site: Site, seen: Seen) -> None:
        super().__init__()
        self.module, self.product, self.seen = site.module, site.product, seen

    def forward(self, x: Tensor) -> Tensor:
        """The output of the site."""
        output = self.seen.again(self.module, x)
        output = output[0] if isinstance(output, tuple) else output
        return output if self.product is None else self.product(output)


@dataclass(frozen=True)
class Site:
    """A place where one technique can be used.

    Attributes:
        module: the module whose input is no longer kept.
        made: the new class of the module.
        own: the further attributes of the module with its new class.
        product: the product after the module, if that product computes the function again.
        together: sites with the same input, which is no longer kept only if all of them are exchanged.
    """

    name: str
    technique: str
    module: nn.Module
    made: type[nn.Module]
    own: dict[str, Any] = field(default_factory=dict)
    product: nn.Module | None = None
    together: tuple[Site, ...] = ()

    @property
    def scale(self) -> Tensor | None:
        """The factor of a norm: its weight, plus the offset of a norm that is not torch's."""
        norm = self.own.get("_computed")
        return self.module.weight + norm.offset if norm else self.module.weight

    def apply(self) -> None:
        """Gives the modules their new classes."""
        _exchange(self.module, self.made, self.own)
        if self.product is not None:
            _exchange(self.product, RecomputingLinear if type(self.product) is nn.Linear else RecomputingConv1D, {})
        for site in self.together:
            site.apply()

    def undo(self) -> None:
        """Gives the modules their earlier classes back."""
        restore(self.module)
        if self.product is not None:
            restore(self.product)
        for site in self.together:
            site.undo()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Gives the modules their new classes while the block runs."""
        self.apply()
        try:
            yield
        finally:
            self.undo()


def _exchange(module: nn.Module, made: type[nn.Module], attributes: dict[str, Any]) -> None:
    """Gives a module another class, and attributes that this class reads.

    The attribute `_before` keeps the earlier class and attributes.
    """
    now = vars(module)
    now["_before"] = type(module), {name: now[name] for name in attributes if name in now}, tuple(attributes)
    now.update(attributes)
    module.__class__ = made


def restore(module: nn.Module) -> bool:
    """Gives a module its earlier class and attributes back; returns whether it was exchanged."""
    now = vars(module)
    if "_before" not in now:
        return False
    kind, values, attributes = now.pop("_before")
    for name in (*attributes, "_passes", "_reason"):
        now.pop(name, None)
    now.update(values)
    module.__class__ = kind
    return True


def sites(model: nn.Module, techniques: tuple[str, ...]) -> Iterator[Site]:
    """All sites in a model for these techniques; subclasses of torch's modules are left alone."""
    for name, module in model.named_modules():
        for technique in techniques:
            made = ALONE.get(technique, {}).get(type(module))
            if made is not None and _is_site(module):
                yield Site(name, technique, module, made)
        if "dropout_recomputation" in techniques and writes_its_scores(module):
            yield Site(name, "dropout_recomputation", module, type(module), {"config": changed_config(module)})
        if "in_place_norm" in techniques and (norm := norm_of(module)):
            yield Site(name, "in_place_norm", module, in_place_of(type(module)), {"_computed": norm})
        if "in_place_activation" in techniques:
            yield from _activations_in_place(name, module)


def _activations_in_place(name: str, module: nn.Module) -> Iterator[Site]:
    """The site of a module for in-place activation functions; none if the module computes none.

    A layer of torch has its activation function as an attribute.
    """
    technique = "in_place_activation"
    if isinstance(module, _LAYERS) and module.activation is nn.functional.gelu:
        yield Site(f"{name}.activation".lstrip("."), technique, module, type(module), {"activation": inplace_gelu})
    elif type(module) not in ALONE[technique] and (made := _IN_PLACE.get(activation_of(module))):
        yield Site(name, technique, module, *made)


class Calls:
    """The calls of a model's sites in one forward pass (under no_grad, so that no graph is kept).

    Attributes:
        first: the first call of each module.
        count: the number of calls of each module.
        pairs: the sites of activation functions whose very output a product takes.
        refused: the reasons, by name, why no product can compute an activation function again.
    """

    def __init__(self, model: nn.Module, found: list[Site], run: Callable[[], Any], recomputing: bool) -> None:
        self.first: dict[nn.Module, Seen] = {}
        self.count: Counter[nn.Module] = Counter()
        self.pairs: list[Site] = []
        self.refused: dict[str, str] = {}
        self._made: dict[int, _Made] = {}
        self._taken: list[tuple[nn.Module, nn.Module]] = []
        named = [(name, m) for name, m in model.named_modules() if recomputing and "_before" not in vars(m)]
        functions = {m: (name, function) for name, m in named if (function := activation_of(m))}
        products = {m for _, m in named if functions and _is_product(m)}
        hooked = {m for m in (*functions, *products) if _has_hooks(m)}
        self._watch({*(site.module for site in found), *functions, *products}, functions, run)
        for module, (name, function) in functions.items():
            self._pair(module, name, function, hooked)

    def _watch(self, modules: Iterable[nn.Module], functions: Iterable[nn.Module], run: Callable[[], Any]) -> None:
        """Runs the model with hooks on these modules.

        Outputs of activation functions stay alive until the end, so that no other tensor has their id.
        """
        with ExitStack() as hooks, torch.random.fork_rng(), torch.no_grad():
            for module in modules:
                hooks.enter_context(module.register_forward_pre_hook(self._before_call, with_kwargs=True))
            for module in functions:
                hooks.enter_context(module.register_forward_hook(self._after_call))
            run()
        self._made.clear()

    def _before_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes a call of a module, and whether its first argument is the unchanged output of an activation function."""
        self.count[module] += 1
        if call := Seen.of(args, kwargs):
            self.first.setdefault(module, call)
        made = self._made.get(id(args[0])) if args else None
        if made is not None and made.versions == (made.x._version, made.y._version) and _is_product(module):
            self._taken.append((made.by, module))

    def _after_call(self, module: nn.Module, args: tuple[Any, ...], y: Any) -> None:
        """Notes the output of an activation function."""
        if args and isinstance(y, Tensor):
            self._made[id(y)] = _Made(module, args[0], y, (args[0]._version, y._version))

    def _pair(self, module: nn.Module, name: str, function: str, hooked: set[nn.Module]) -> None:
        """Adds the site of an activation function and its product, or the reason why there is none."""
        products = [product for by, product in self._taken if by is module]
        is_free = (
            len(products) == 1 == self.count[module] == self.count[products[0]] and not {module, *products} & hooked
        )
        if is_free:
            attributes = {"_function": function}
            self.pairs.append(Site(name, RECOMPUTATION, module, RecomputedActivation, attributes, products[0]))
        else:
            self.refused[name] = NOT_ALONE if products else NO_PRODUCT


@dataclass(frozen=True)
class _Made:
    """An output of an activation function.

    Attributes:
        by: the module of the function.
        x, y: the input and the output.
        versions: how often input and output had been changed in place at the time of the call.
    """

    by: nn.Module
    x: Tensor
    y: Tensor
    versions: tuple[int, int]


def _is_site(module: nn.Module) -> bool:
    """Whether a module is a site; attention without dropout is none, because it keeps its softmax only once."""
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0 and module.bias_k is None and not module.add_zero_attn
    return not isinstance(module, SoftmaxDropoutMatmul) or module.p > 0


def _is_product(module: nn.Module) -> bool:
    """Whether a module is torch's linear module, or transformers' `Conv1D`, which has the weight transposed."""
    kind = type(module)
    return kind is nn.Linear or (kind.__name__ == "Conv1D" and kind.__module__.startswith("transformers."))


def _has_hooks(module: nn.Module) -> bool:
    """Whether a module has hooks."""
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks))
