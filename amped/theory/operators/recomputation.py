"""Recomputation: what of a layer the backward pass computes again rather than keep.

Of alternate products (torchtitan's selective checkpointing by operator) the outputs of attention and of every second
product with a weight are kept; the other products and everything that streams through memory run again.
"""

from amped.theory.quantity import MAPPING, parameter, quantity, selector


@selector("none", "selective", "full", "block", "alternate_products", category=MAPPING)
def activation_recomputation():
    """What the backward pass computes again rather than keep.

    selective: scores, softmax and values; block: some layers in full; alternate_products: all but attention and every
    second product with a weight. Source: arXiv 2205.05198; torchtitan, activation checkpoint mode selective, option op.
    """
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
def recomputed_attention_core_fraction():
    """Share of the layers of which scores, softmax and values run again by themselves: none. Source: definition."""
    return 0


@quantity("1", choice="activation_recomputation", value="selective")
def recomputed_attention_core_fraction__selective():
    """Share of the layers of which scores, softmax and values run again: all. Source: arXiv 2205.05198, section 5."""
    return 1


@quantity("1")
def recomputed_product_fraction():
    """Share of a layer's products with weights that run again by themselves: none. Source: definition."""
    return 0


@quantity("1", choice="activation_recomputation", value="alternate_products")
def recomputed_product_fraction__alternate_products(
    attention_heads, key_value_heads, head_dimension, value_head_dimension, feedforward_dimension, gated_mlp
):
    """Share of a layer's multiply-accumulates with weights in keys, output and gate, which run again.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy: every second mm is recomputed, in the order queries,
    keys, values, output, up, gate, down). Differs: experts are counted as a dense network of their width.
    """
    values, keys = attention_heads * value_head_dimension, key_value_heads * head_dimension
    queries_and_values = attention_heads * head_dimension + key_value_heads * value_head_dimension
    again = keys + values + gated_mlp * feedforward_dimension
    return again / (queries_and_values + keys + values + (2 + gated_mlp) * feedforward_dimension)


@quantity("1")
def recomputed_streaming_fraction():
    """Share of the layers whose norms and element-wise operators run again by themselves: none. Source: definition."""
    return 0


@quantity("1", choice="activation_recomputation", value="alternate_products")
def recomputed_streaming_fraction__alternate_products():
    """Share of the layers whose norms and element-wise operators run again: all. Source: torchtitan, parallelize_llama.py."""
    return 1


@quantity("count")
def communication_rounds(forward_and_backward_passes, recomputed_layer_fraction):
    """Passes that communicate between the shares of a layer, the repeated forward pass too, averaged over the layers.

    Source: arXiv 2104.04473, section 3.5. The attention core, computed again by itself, has no communication.
    """
    return forward_and_backward_passes + recomputed_layer_fraction


@parameter("count")
def forward_and_backward_passes():
    """Passes through a layer in a step that communicate: forward and backward. Source: AMPeD, training time."""
    return 2


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="number_of_recomputed_layers", choice="activation_recomputation", value="block")
def recomputed_layers_are_layers_of_the_stage__block(number_of_recomputed_layers, stage_layers):
    """No more layers of a stage are recomputed than it has. Source: definition."""
    return number_of_recomputed_layers <= stage_layers
