"""Recomputation: what of a layer the backward pass computes again rather than keep."""

from amped.quantity import MAPPING, parameter, quantity, selector


@selector("none", "selective", "full", "block", category=MAPPING)
def activation_recomputation():
    """What the backward pass computes again rather than keep; block: some layers in full. Source: arXiv 2205.05198."""
    return "none"


@parameter("count", category=MAPPING, at_least=0)
def number_of_recomputed_layers():
    """Layers of a stage that are recomputed in full when recomputation is by block.

    Source: Megatron-LM, --recompute-num-layers.
    """


@quantity("1")
def recomputed_layer_fraction():
    """Share of the layers whose whole forward pass runs again: none. Source: definition."""
    return 0


@quantity("1", choice="activation_recomputation", value="full")
def recomputed_layer_fraction__full():
    """Share of the layers whose whole forward pass runs again: all. Source: arXiv 1604.06174."""
    return 1


@quantity("1", choice="activation_recomputation", value="block")
def recomputed_layer_fraction__block(number_of_recomputed_layers, stage_layers):
    """Share of a stage's layers whose whole forward pass runs again. Source: Megatron-LM, --recompute-method block."""
    return number_of_recomputed_layers / stage_layers


@quantity("1")
def recomputed_core_fraction():
    """Share of the layers of which scores, softmax and values run again by themselves: none. Source: definition."""
    return 0


@quantity("1", choice="activation_recomputation", value="selective")
def recomputed_core_fraction__selective():
    """Share of the layers of which scores, softmax and values run again: all. Source: arXiv 2205.05198, section 5."""
    return 1
