"""The tensors of one pass through a layer, each in its layout, and how an operator runs on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from amped.kernels.tensor_layouts.fused import MASKS, Choices, Kernels
from amped.kernels.tensor_layouts.spec import LETTERS, SLICES, Layouts, Operator, Sizes
from amped.kernels.tensor_layouts.tensors import Tensor, allocate, contraction, logical
from amped.kernels.tensor_layouts.variables import layout_of
from amped.kernels.torch_import import torch


@dataclass
class Workspace:
    """Tensors by name, in the layouts of a plan.

    Attributes:
        sizes: the size of each letter.
        layouts: the layout of each tensor that chooses one.
        like: the dtype and the device to use.
        kernels: the fused kernels.
        attention: the inputs and the output of torch's fused attention, once it has run.
    """

    sizes: Sizes
    layouts: Layouts
    like: dict[str, Any]
    choices: Choices
    kernels: Kernels
    tensors: dict[str, Tensor] = field(default_factory=dict)
    attention: Any = None

    def copied(self) -> Workspace:
        """A copy of this workspace with the same tensors; others can be added, so that a backward pass can be repeated."""
        return replace(self, tensors=dict(self.tensors))

    def layout(self, name: str) -> str:
        """The letters of a tensor, outermost first."""
        return layout_of(name, self.layouts)

    def tensor(self, name: str) -> Tensor:
        """A tensor as it is stored; it is allocated at its first use. Parts are views of their stack."""
        if name in SLICES:
            stack, place = SLICES[name]
            return self.tensor(stack)[place]
        if name == "ALPHA" and self.choices.keep == 1.0:
            return self.tensor("ATTN_DROP")
        if name not in self.tensors:
            like = self.like
            if name in MASKS.values():
                like = like | {"dtype": torch.bool}
            self.tensors[name] = allocate(self.layout(name), self.sizes, like)
        return self.tensors[name]

    def view(self, name: str) -> Tensor | None:
        """A view of a tensor with axes in logical order; None for a mask if there is no dropout."""
        if self.choices.keep == 1.0 and name in MASKS.values():
            return None
        return logical(self.tensor(name), self.layout(name), LETTERS[name])

    def call(self, operator: Operator) -> Callable[[], None]:
        """A function that runs an operator, with tensors allocated and views made, so that it can be timed."""
        if operator.einsum:
            layouts, tensors = ([*map(of, operator.tensors)] for of in (self.layout, self.tensor))
            return contraction(operator, layouts, tensors, self.sizes)
        fused_attention = {"sdpa": self.sdpa, "sdpa_bwd": self._sdpa_backward}
        return fused_attention.get(operator.kernel) or self._fused(operator)

    def sdpa(self) -> None:
        """Runs torch's fused attention with the kernel that torch chooses; its graph is kept for the backward pass."""
        with torch.enable_grad():
            inputs = [self._by_head(name).detach().requires_grad_() for name in ("QQ", "KK", "VV")]
            out = torch.nn.functional.scaled_dot_product_attention(*inputs, dropout_p=1.0 - self.choices.keep)
        self.attention = inputs, out
        self._by_head("GAMMA").copy_(out.detach())

    def _sdpa_backward(self) -> None:
        """Computes the gradients of queries, keys and values."""
        inputs, out = self.attention
        grads = torch.autograd.grad(out, inputs, self._by_head("DGAMMA"), retain_graph=True)
        for name, grad in zip(("DQQ", "DKK", "DVV"), grads, strict=True):
            self._by_head(name).copy_(grad)

    def _by_head(self, name: str) -> Tensor:
        """A view of a tensor in the order that fused attention needs: batch, heads, tokens, position in a head."""
        return logical(self.tensor(name), self.layout(name), "bhkp" if "k" in LETTERS[name] else "bhjp")

    def _fused(self, operator: Operator) -> Callable[[], None]:
        """A function that runs a fused kernel on views made beforehand.

        If there is dropout, a new mask is drawn first. Without dropout, softmax writes no ALPHA (its result before
        dropout), because that would be the same tensor as ATTN_DROP.
        """
        kernel, names = self.kernels[operator.kernel], operator.arguments
        mask = MASKS.get(operator.name)
        views = [self.view(name) for name in names]
        if operator.name == "softmax" and self.choices.keep == 1.0:
            views[names.index("ALPHA")] = None

        def run() -> None:
            if mask and self.choices.keep < 1.0:
                self.tensor(mask).bernoulli_(self.choices.keep)
            kernel(*views, self.choices)

        return run
