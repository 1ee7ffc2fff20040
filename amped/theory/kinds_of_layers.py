"""Kinds of layers: what a layer of each kind has is what a network of such layers alone would have.

`X__if_KIND` as an argument of a formula is the quantity X of a network all of whose layers are of that kind, and all
else as it is; `X__of_each_kind` are the records X of every kind, one after another. A formula of the step that reads a
quantity per layer reads its mean over the layers of the bottleneck stage. `engine/kinds.py` finds the formulas.
"""

from collections.abc import Callable, Mapping
from typing import Any


def none(layers: Any) -> Any:
    """None of the layers."""
    return 0 * layers


def every(layers: Any) -> Any:
    """All of the layers."""
    return 1 * layers


# How many of the layers are of the kind, by the quantity that counts them, for each value of `kinds_of_layers`.
KINDS: Mapping[str, Mapping[str, Mapping[str, Callable[[Any], Any]]]] = {
    "one": {},
    "dense_and_mixture": {"dense": {"number_of_MoE_layers": none}, "mixture": {"number_of_MoE_layers": every}},
}
IF, OF_EACH_KIND, OF_THE_BOTTLENECK = "if_", "of_each_kind", "of_the_bottleneck"
# Chapters that read quantities per layer as those of the bottleneck stage.
OF_THE_STEP = "step/"
PER_LAYER = "_per_layer"
