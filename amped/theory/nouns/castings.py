"""How tensors are cast before products in fp8 and fp4: a row for what has a scale, and when the scale is known."""

from __future__ import annotations

from typing import Any

from amped.base.record import record
from amped.theory.nouns.records import Record


@record
class Casting(Record):
    """How often a cast reads a tensor, and in how many layouts it writes it.

    A cast reads twice if the scale depends on the tensor's own largest entry and no kernel before has found it. It
    reads once if the kernel that made the tensor did, or if the scale is that of earlier steps or of a block.

    Attributes:
        inputs: how often a cast reads the inputs of a product.
        weights: how often it reads the weights.
        gradients: how often it reads the gradient of the output.
        layouts: in how many layouts, at least, it writes an operand that is multiplied along its rows and along its
            columns. A block lies along a row, so that each direction has scales of its own and thus its own cast.
    """

    inputs: Any
    weights: Any
    gradients: Any
    layouts: Any


# For each value of `fp8_scaling`: "tensors" with the scales of earlier steps; "current" with the largest entry of each
# tensor, which norms and activation functions find beside their own work; "blocks". Source: NVIDIA Transformer Engine,
# common/recipe/current_scaling.cu, pull requests 2004 and 2013 (from release 2.7 on), common/cast (MXFP8). Differs: the
# output of attention, which no such kernel makes, is read twice.
FP8_CASTINGS = {
    "tensors": Casting("tensors", inputs=1.0, weights=1.0, gradients=1.0, layouts=1.0),
    "current": Casting("current", inputs=1.0, weights=2.0, gradients=2.0, layouts=1.0),
    "blocks": Casting("blocks", inputs=1.0, weights=1.0, gradients=1.0, layouts=2.0),
}
# Blocks of sixteen numbers whose scales depend on the largest entry of the tensor. Source: arXiv 2509.25149, section 2.
FP4_CASTING = Casting("blocks of sixteen", inputs=2.0, weights=2.0, gradients=2.0, layouts=2.0)
