"""The operators of an encoder layer (post-norm, ReLU or GELU), forward and backward, and the tensors between them.

Letters: b batch, j query position, k key position (as many as j), h head, p place in a head, i embedding (h·p),
u feed-forward width, q the stack of keys, queries and values, in that order.
The rows of `encoder_layer.json` are Ivanov et al. 2021, table 1 and their code; names of operators are theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from amped.base.files import shipped_json

# The number of values of each letter; and the layouts of tensors by their names.
Sizes = Mapping[str, int]
Layouts = Mapping[str, str]
STACK = "q"
CONTRACTION, NORMALIZATION, ELEMENTWISE = "contraction", "normalization", "element-wise"
CLASSES = (CONTRACTION, NORMALIZATION, ELEMENTWISE)
# What only the gradient of the layer's input needs.
INPUT_ONLY = ("dXQKV", "bei")
LAYER: Mapping[str, Any] = shipped_json("kernels", "encoder_layer.json")


def keys_of(table: Mapping[str, str]) -> dict[str, str]:
    """The key of each name, by name. In `table`, the names that belong to a key are one text with spaces."""
    return {name: key for key, names in table.items() for name in names.split()}


# The letters of each tensor, in logical order.
LETTERS = keys_of(LAYER["tensors"])
# The three parts of a stack, and of the stack of gradients: the stack, and their place in it.
SLICES = {
    f"{d}{name}": (f"{d}KKQQVV", place) for d in ("", "D") for place, name in enumerate(("KK", "QQ", "VV"))
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Operator:
    """One kernel of the layer.

    Attributes:
        kind: contraction, normalization (over a dimension) or element-wise.
        forward: whether it belongs to the forward pass.
        arguments: the tensors of the call of its fused kernel.
        attention: the kind of attention that has it; empty if both have it.
        scaled: whether the contraction is multiplied by 1/√p.
        flop: unless it is one GEMM, its flop for each value of tensors with these letters.
        unfused: the words of the elementary kernels that a framework would call instead, for each value of these
            letters.
    """

    name: str
    kind: str
    forward: bool
    inputs: Sequence[str]
    outputs: Sequence[str]
    arguments: Sequence[str] = ()
    attention: str = ""
    scaled: bool = False
    flop: Mapping[str, int] = field(default_factory=dict)
    unfused: Mapping[str, int] = field(default_factory=dict)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that the operator reads, and then those that it writes."""
        return (*self.inputs, *self.outputs)

    @cached_property
    def einsum(self) -> str:
        """The einsum of a contraction that is one GEMM, in the letters of its tensors; empty for another operator."""
        if self.kind != CONTRACTION or self.flop:
            return ""
        first, second, out = map(LETTERS.__getitem__, self.tensors)
        return f"{first},{second}->{out}"

    @cached_property
    def kernel(self) -> str:
        """The fused kernel that an operator calls: its name without the number of the block; empty for a GEMM."""
        return "" if self.einsum else self.name.rstrip("12")


OPERATORS = {row["name"]: Operator(**row) for row in LAYER["operators"]}
LAYERS = {
    attention: tuple(o for o in OPERATORS.values() if o.attention in ("", attention))
    for attention in ("explicit", "sdpa")
}
ENCODER, ENCODER_FLASH = LAYERS.values()
