"""Kinds of layers: a quantity of one kind of layer has the value that a network of only such layers would have.

The argument `X__if_KIND` of a formula is the quantity X of a network in which all layers are of that kind; everything
else is unchanged. The argument `X__of_each_kind` has the records X of all kinds, one after another. A formula of the
chapter step that reads a quantity per layer gets its mean over the layers of the bottleneck stage. `engine/kinds.py`
finds these formulas.
"""

from collections.abc import Callable, Mapping
from typing import Any


def none(layers: Any) -> Any:
    """The number of layers of a kind, if no layer is of this kind: zero."""
    return 0 * layers


def every(layers: Any) -> Any:
    """The number of layers of a kind, if all layers are of this kind."""
    return 1 * layers


# For each value of `kinds_of_layers` and each kind: the quantities that count layers, in a network of only this kind.
KINDS: Mapping[str, Mapping[str, Mapping[str, Callable[[Any], Any]]]] = {
    "one": {},
    "dense_and_mixture": {"dense": {"number_of_MoE_layers": none}, "mixture": {"number_of_MoE_layers": every}},
}
IF, OF_EACH_KIND, OF_THE_BOTTLENECK = "if_", "of_each_kind", "of_the_bottleneck"
# In pages of this chapter, a quantity per layer is the mean over the layers of the bottleneck stage.
OF_THE_STEP = "step/"
PER_LAYER = "_per_layer"
