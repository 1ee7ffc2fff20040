"""Activation recomputation: which part of a layer the backward pass computes again instead of keeping it.

With `alternate_products` (torchtitan's selective checkpointing by operator) the outputs of attention and of every
second product with a weight are kept. The other products, the norms and the element-wise operators run again.
With `kept_products` (JAX's policies by name) the config says which outputs are kept.
"""

import numpy as np

from amped.theory.language.quantity import quantity
from amped.theory.nouns.kernel_work import shares_of_products
from amped.theory.nouns.records import WEIGHTED, total


@quantity("1", choice="activation_recomputation", value="block")
def recomputed_layer_fraction__block(number_of_recomputed_layers, stage_layers, gradient_layer_fraction):
    """The share of a stage's layers that are recomputed as a whole: the first ones, if they have a backward pass.

    Source: Megatron-LM, --recompute-method block.
    """
    return np.maximum(number_of_recomputed_layers / stage_layers - (1 - gradient_layer_fraction), 0)


@quantity("1", choice="activation_recomputation", value="alternate_products")
def recomputed_product_fraction__alternate_products(product_operators, recomputed_projection_fraction, gated_mlp):
    """The share of a layer's multiply-accumulates with weights that are recomputed: keys, attention output and gate.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy: every second mm is recomputed, in the order queries,
    keys, values, output, up, gate, down). Differs: the gates of experts are recomputed too.
    """
    shares = shares_of_products(1.0, gated_mlp / (1 + gated_mlp))
    return recomputed_share(product_operators, shares, recomputed_projection_fraction)


@quantity("1", choice="activation_recomputation", value="alternate_products")
def recomputed_projection_fraction__alternate_products(
    attention_heads, key_value_heads, head_dimension, value_head_dimension
):
    """The share of the projection into queries, keys and values that is recomputed: the product of the keys.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy).
    """
    queries, keys = attention_heads * head_dimension, key_value_heads * head_dimension
    return keys / (queries + keys + key_value_heads * value_head_dimension)


@quantity("1", choice="activation_recomputation", value="kept_products")
def recomputed_product_fraction__kept_products(
    product_operators, kept_query_key_value, kept_attention_output, kept_feedforward_up
):
    """The share of a layer's multiply-accumulates with weights that are recomputed: those that are not kept.

    No backward pass needs the output of a down projection, so it is never computed again.

    Source: JAX, checkpoint_policies.save_only_these_names.
    """
    shares = shares_of_products(1 - kept_attention_output, 1 - kept_feedforward_up)
    return recomputed_share(product_operators, shares, 1 - kept_query_key_value)


def recomputed_share(operators, shares, projection_share):
    """The share of the multiply-accumulates with weights that recomputation repeats.

    Args:
        operators: the products of a layer, and other operators, which are not counted.
        shares: the recomputed share of a product by its name.
        projection_share: the recomputed share of the products that `shares` does not name.

    Source: definition.
    """
    products = [o for o in operators if o.kind in WEIGHTED and o.phase == "forward"]
    work = [(o.name, o.m * o.n * o.k * o.batch * o.count) for o in products]
    recomputed_work = total(
        shares.get(name, projection_share) * multiply_accumulates for name, multiply_accumulates in work
    )
    return recomputed_work / total(multiply_accumulates for _, multiply_accumulates in work)


@quantity("1", choice="activation_recomputation", value="kept_products")
def recomputed_attention_core_fraction__kept_products(kept_attention_core):
    """The share of the layers that recompute the attention core: all, unless its output is kept.

    Source: AI-Hypercomputer/maxtext, layers/decoders.py (context).
    """
    return 1 - kept_attention_core


@quantity("count")
def communication_rounds(forward_and_backward_passes, recomputed_layer_fraction, gradient_layer_fraction):
    """The number of passes through a layer that communicate: forward, backward and recomputed passes, on average.

    If only the attention core is recomputed, the recomputation does not communicate.

    Source: arXiv 2104.04473, section 3.5.
    """
    return forward_and_backward_passes - (1 - gradient_layer_fraction) + recomputed_layer_fraction


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="number_of_recomputed_layers", choice="activation_recomputation", value="block")
def recomputed_layers_are_layers_of_the_stage__block(number_of_recomputed_layers, stage_layers):
    """The number of recomputed layers of a stage is at most the number of its layers. Source: definition."""
    return number_of_recomputed_layers <= stage_layers
