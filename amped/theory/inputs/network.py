"""The network: how many layers of which kind it has, the parts of a layer, and the attention scores it computes."""

import numpy as np

from amped.theory.language.quantity import NETWORK, family, quantity, records
from amped.theory.nouns.conditions import BRANCHED, COMPRESSED, INDEXED, MULTI_LATENT
from amped.theory.nouns.layer_kinds import (
    COUNTED,
    COUNTS,
    DENSE,
    DENSE_LINEAR,
    EITHER,
    KINDS,
    MIXTURE,
    SPLIT_NETWORK,
    LayerKind,
)
from amped.theory.nouns.records import total


@quantity("count", category=NETWORK)
def head_dimension(dimensionality, attention_heads):
    """The width of one query or key head. Source: arXiv 1706.03762, section 3.2.2."""
    return dimensionality / attention_heads


@quantity("count", **MULTI_LATENT)
def query_key_width__multi_latent(
    head_dimension, absorbed_latent_attention, key_value_latent_dimension, rotary_head_dimension
):
    """The width of the dot product of a query and a key.

    It is the width of a head, or, in absorbed latent attention, of the latent vector with its rotary part. Source:
    arXiv 2405.04434, eq. 9–19.
    """
    latent = key_value_latent_dimension + rotary_head_dimension
    return np.where(absorbed_latent_attention > 0, latent, head_dimension)


@quantity("boolean", category=NETWORK, **MULTI_LATENT, **INDEXED)
def absorbed_latent_attention__indexed(
    indexed_keys,
    context,
    head_dimension,
    value_head_dimension,
    key_value_latent_dimension,
    rotary_head_dimension,
):
    """Whether latent attention to chosen keys reads latent vectors: if it takes fewer products than masks do.

    Each token has keys of its own, so that a kernel reads them as latent vectors, which all heads share. In a short
    sequence it is faster to compute all scores of the narrower heads, and to mask those that are not chosen.

    Source: arXiv 2512.02556, section 2.1 (the mode of one latent vector for all heads, and masks for short sequences).
    """
    keys = np.minimum(indexed_keys, context)
    chosen, earlier = keys - keys * (keys - 1) / (2 * context), (context + 1) / 2
    latent_width = 2 * key_value_latent_dimension + rotary_head_dimension
    return 1.0 * (chosen * latent_width < earlier * (head_dimension + value_head_dimension))


@quantity("count")
def wider_projection_entries(
    full_attention_head_dimension,
    full_attention_key_value_heads,
    full_attention_values_are_keys,
    head_dimension,
    attention_heads,
    key_value_heads,
    windowed_layer_fraction,
    own_keys_fraction,
):
    """The entries of queries, keys, values and outputs that layers without a window project more, averaged over layers.

    Values that are keys are not projected. Assumes that of layers without a window the same share reads keys of others
    as of those with one.

    Source: definition.
    """
    keys = (2 - full_attention_values_are_keys) * full_attention_key_value_heads * full_attention_head_dimension
    further_keys = own_keys_fraction * (keys - 2 * key_value_heads * head_dimension)
    further_queries = 2 * attention_heads * (full_attention_head_dimension - head_dimension)
    return (1 - windowed_layer_fraction) * (further_queries + further_keys)


@quantity("count")
def wider_head_entries(full_attention_head_dimension, head_dimension, windowed_layer_fraction):
    """The entries of a head that layers without a window have more, averaged over all layers. Source: definition."""
    return (1 - windowed_layer_fraction) * (full_attention_head_dimension - head_dimension)


@quantity("1")
def own_keys_fraction(shared_key_value_layers, number_of_attention_layers):
    """The share of the attentions that project keys and values of their own, and do not read those of an earlier layer.

    Source: arXiv 2405.12981, section 2.
    """
    return 1 - shared_key_value_layers / np.maximum(number_of_attention_layers, 1)


@quantity("count")
def projected_key_value_heads(key_value_heads, own_keys_fraction):
    """The key heads that an attention projects, averaged over the layers. Source: arXiv 2405.12981, section 2.

    Differs: memory and norms count keys and values of each layer, also where layers share them.
    """
    return key_value_heads * own_keys_fraction


@quantity("count")
def value_width(value_head_dimension, differential_attention):
    """The width of the vectors that attention scores weight: that of a value head, or of two whose maps are subtracted.

    Source: arXiv 1706.03762, eq. 1; arXiv 2410.05258, section 2.1.
    """
    return value_head_dimension * (1 + differential_attention)


@quantity("count", **MULTI_LATENT)
def value_width__multi_latent(value_head_dimension, absorbed_latent_attention, key_value_latent_dimension):
    """The width of the vectors that attention scores weight.

    It is the width of a value head, or, in absorbed latent attention, of the latent vector. Source: arXiv 2405.04434,
    eq. 9–19.
    """
    return np.where(absorbed_latent_attention > 0, key_value_latent_dimension, value_head_dimension)


@quantity("count", category=NETWORK)
def feedforward_dimension(dimensionality):
    """The number of hidden units of the feed-forward network: four times the width of the residual stream.

    Source: arXiv 1706.03762, section 3.3.
    """
    return 4 * dimensionality


@quantity("count", category=NETWORK, at_least=0)
def shared_experts_feedforward_dimension(number_of_shared_experts, expert_feedforward_dimension):
    """The number of hidden units of all shared experts of a layer.

    Source: arXiv 2401.06066 (DeepSeekMoE), section 3.2.
    """
    return number_of_shared_experts * expert_feedforward_dimension


@quantity("count")
def expert_width(dimensionality, expert_latent_dimension):
    """The width of the tokens that routed experts receive. Source: transformers, NemotronHMoE (moe_latent_size)."""
    return np.where(expert_latent_dimension > 0, expert_latent_dimension, dimensionality)


@quantity("count", category=NETWORK, at_least=0)
def number_of_MoE_layers(layers, MoE_layer_interval, number_of_experts):
    """The number of layers whose feed-forward network is a mixture of experts.

    Unless given, it is the last layer of each interval if there are several experts, else none. Source: arXiv
    2006.16668 (GShard), section 2.2.
    """
    return np.floor(layers / MoE_layer_interval) * (number_of_experts > 1)


@quantity("count", category=NETWORK, at_least=0)
def number_of_dense_layers(layers, number_of_MoE_layers):
    """The number of layers with a dense feed-forward network: unless given, all that have no mixture of experts.

    Source: definition.
    """
    return layers - number_of_MoE_layers


@quantity("count")
def attention_gate_width(attention_heads, head_dimension, attention_output_gate, attention_head_gate):
    """The entries of the gate of attention for a token: one for each entry of the output, or for each head, or none.

    Source: arXiv 2505.06708, section 2.2.
    """
    return attention_heads * (head_dimension * attention_output_gate + attention_head_gate)


# --- linear attention ------------------------------------------------------------------------------------------------


@quantity("count")
def linear_key_width(linear_key_heads, linear_key_head_dimension):
    """The width of the keys of linear attention; queries are as wide. Source: arXiv 2412.06464, section 3.4."""
    return linear_key_heads * linear_key_head_dimension


@quantity("count")
def linear_value_width(linear_value_heads, linear_value_head_dimension):
    """The width of the values of linear attention, and of its gate. Source: arXiv 2412.06464, section 3.4."""
    return linear_value_heads * linear_value_head_dimension


@quantity("count", category=NETWORK)
def linear_step_rank(dimensionality):
    """The width between the two projections into the steps Δ of Mamba: a sixteenth of the network, rounded up.

    Source: arXiv 2312.00752, section 3.6; state-spaces/mamba, modules/mamba_simple.py (dt_rank "auto").
    """
    return np.ceil(dimensionality / 16)


@quantity("count", category=NETWORK, at_least=0)
def number_of_dense_linear_layers(number_of_dense_layers, number_of_linear_attention_layers):
    """The number of layers with linear attention and a dense feed-forward network.

    Unless given, all dense layers have linear attention, as far as there are so many. Source: definition.
    """
    return np.minimum(number_of_dense_layers, number_of_linear_attention_layers)


# --- positions, norms and the mask of attention ----------------------------------------------------------------------


@quantity("count", category=NETWORK, at_least=0)
def number_of_windowed_layers(layers, attention_window):
    """The number of layers that attend within a window; unless given, all layers if the network has a window.

    Source: arXiv 2310.06825, section 2.
    """
    return layers * (attention_window > 0)


# --- shares of the layers --------------------------------------------------------------------------------------------


@quantity("1")
def attentions_per_layer(layers, number_of_attention_layers, cross_attention_layers):
    """The number of attentions of a layer, averaged over the layers: self-attentions and cross-attentions.

    Source: definition.
    """
    return (number_of_attention_layers + cross_attention_layers) / layers


@quantity("1")
def linear_attention_fraction(number_of_linear_attention_layers, layers):
    """The share of the layers that have linear attention. Source: definition."""
    return number_of_linear_attention_layers / layers


@quantity("1")
def mixers_per_layer(attentions_per_layer, linear_attention_fraction):
    """The number of attentions and linear attentions of a layer, averaged over the layers. Source: definition."""
    return attentions_per_layer + linear_attention_fraction


@quantity("1")
def mixer_layer_fraction(number_of_attention_layers, number_of_linear_attention_layers, layers):
    """The share of the layers whose tokens see each other: by attention or linear attention. Source: definition."""
    return (number_of_attention_layers + number_of_linear_attention_layers) / layers


@quantity("1")
def network_layer_fraction(number_of_dense_layers, number_of_MoE_layers, layers):
    """The share of the layers with a feed-forward network: dense or a mixture of experts. Source: definition."""
    return (number_of_dense_layers + number_of_MoE_layers) / layers


@quantity("1")
def dense_fraction(number_of_dense_layers, layers):
    """The share of the layers that have a dense feed-forward network. Source: definition."""
    return number_of_dense_layers / layers


@quantity("1")
def MoE_fraction(number_of_MoE_layers, layers):
    """The share of the layers that have a mixture of experts. Source: definition."""
    return number_of_MoE_layers / layers


@quantity("1")
def shared_expert_fraction(shared_experts_feedforward_dimension):
    """The share of the mixture-of-experts layers that have shared experts: 1 if the network has shared experts, else 0.

    Source: arXiv 2401.06066, section 3.2.
    """
    return 1.0 * (shared_experts_feedforward_dimension > 0)


@records()
def layer_kinds(MoE_fraction):
    """The kinds of layers of the network: one, the average of all layers. Source: definition."""
    return (LayerKind("layers", share=1.0, mixtures=MoE_fraction),)


@family(
    named=(
        "layer_kinds__dense_and_mixture",
        "layer_kinds__linear_and_attention",
        "layer_kinds__mixers_and_networks",
        "layer_kinds__single_blocks",
    ),
    CHOICE=tuple(KINDS),
    COUNTS=(COUNTS,) * len(KINDS),
)
@records(choice="kinds_of_layers", value="CHOICE")
def layer_kinds__CHOICE(COUNTS, number_of_dense_linear_layers, layers, shared_expert_fraction, *, choice):
    """The kinds of layers of the network, in the order of a layout.

    A kind has one of each block that not all kinds have. Of the other blocks it has as many as an average layer.

    Source: arXiv 2401.06066, section 4.1 (dense layers first); arXiv 2510.26692, section 4 (linear attention).
    """
    counted = zip(COUNTED, (*COUNTS, number_of_dense_linear_layers), strict=True)
    shares, rows = {name: count / layers for name, count in counted}, KINDS[choice]
    averages = {name: shares[name] for name in COUNTED if name != DENSE_LINEAR}
    common = {name for name in averages if all(name in row.blocks for row in rows)}
    of_all = {name: averages[name] for name in common}
    numbers = [dict.fromkeys(row.blocks, 1.0) | of_all for row in rows]
    averages = with_joint_blocks(averages, shared_expert_fraction)
    numbers = [with_joint_blocks(blocks, shared_expert_fraction) for blocks in numbers]
    differing = [
        name for name in averages if is_unequal(rows, (EITHER | {SPLIT_NETWORK: (MIXTURE,)}).get(name, (name,)))
    ]
    return tuple(
        LayerKind(
            row.name,
            share=total(shares[name] for name in row.counted) - total(shares[name] for name in row.besides),
            mixtures=blocks.get(MIXTURE, 0.0),
            blocks=tuple(differing),
            multiples=tuple(relative(blocks.get(name, 0.0), averages[name]) for name in differing),
        )
        for row, blocks in zip(rows, numbers, strict=True)
    )


def is_unequal(rows, blocks):
    """Whether some kinds of layers have more of the given blocks than others. Source: definition."""
    return len({sum(block in row.blocks for block in blocks) for row in rows}) > 1


def with_joint_blocks(numbers, shared_expert_fraction):
    """The number of blocks of a layer, with those that stand for one of several: mixers, and feed-forward networks.

    A further key counts the networks that tensor parallelism splits.

    Args:
        numbers: the number of blocks by name.
        shared_expert_fraction: the share of the mixtures that have shared experts.

    Source: definition.
    """
    joint = {name: total(numbers.get(block, 0.0) for block in blocks) for name, blocks in EITHER.items()}
    split = numbers.get(DENSE, 0.0) + numbers.get(MIXTURE, 0.0) * shared_expert_fraction
    return numbers | joint | {SPLIT_NETWORK: split}


def relative(number, average):
    """The number of a block in a kind of layer, divided by the average number; zero if no layer has the block.

    Source: definition.
    """
    return np.where(average > 0, number / np.where(average > 0, average, 1), 0)


@quantity("1")
def windowed_layer_fraction(number_of_windowed_layers, layers):
    """The share of the layers that attend within a window.

    Source: arXiv 2503.19786, section 2 (layers with and without a window, 5 to 1).
    """
    return number_of_windowed_layers / layers


@quantity("1", **INDEXED)
def windowed_layer_fraction__indexed(number_of_sparse_attention_layers, layers):
    """The share of the layers that read a part of the keys: those for which an indexer chooses them.

    Source: arXiv 2512.02556, section 2.1. A token reads as many keys as in a window of that width.
    """
    return number_of_sparse_attention_layers / layers


@quantity("1", **INDEXED)
def indexers_per_layer(number_of_indexer_layers, layers):
    """The number of indexers of a layer, averaged over the layers. Source: definition."""
    return number_of_indexer_layers / layers


@quantity("1", **COMPRESSED)
def indexers_per_layer__compressed(number_of_sparsely_compressed_layers, layers):
    """The number of indexers of a layer, averaged over the layers. Source: transformers, DeepseekV4CSACompressor."""
    return number_of_sparsely_compressed_layers / layers


@quantity("1")
def heavily_compressed_fraction(number_of_heavily_compressed_layers, layers):
    """The share of the layers that read entries that stand for many tokens. Source: definition."""
    return number_of_heavily_compressed_layers / layers


@quantity("boolean")
def has_vocabulary(vocabulary_size):
    """Whether the network has a vocabulary, and so a word embedding and an output head. Source: definition."""
    return 1.0 * (vocabulary_size > 0)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="attention_heads")
def query_heads_divide_by_key_heads(attention_heads, key_value_heads):
    """Each key head serves equally many query heads. Source: arXiv 2305.13245, section 2.2."""
    return np.mod(attention_heads, key_value_heads) == 0


@quantity("boolean", constrains="full_attention_head_dimension", **BRANCHED)
def full_attention_has_the_wider_heads(full_attention_head_dimension, head_dimension, latent_projections):
    """The heads of layers without a window are at least as wide as others, without latent vectors.

    Source: definition.
    """
    same = full_attention_head_dimension == head_dimension
    return same | ((full_attention_head_dimension > head_dimension) & (latent_projections == 0))


@quantity("boolean", constrains="shared_key_value_layers")
def some_layer_has_the_keys(shared_key_value_layers, number_of_attention_layers):
    """A layer whose keys others share projects them itself. Source: arXiv 2405.12981, section 2."""
    return (shared_key_value_layers == 0) | (shared_key_value_layers < number_of_attention_layers)


@quantity("boolean", constrains="rotary_head_dimension", **MULTI_LATENT)
def heads_are_as_wide_as_their_rotary_part(rotary_head_dimension, head_dimension):
    """The part of a head that carries the position is no wider than the head.

    Source: arXiv 2405.04434, section 2.1.3.
    """
    return rotary_head_dimension <= head_dimension


@quantity("boolean", constrains="indexer_heads", **INDEXED)
def indexers_choose_latent_vectors_or_blocks(indexer_heads, latent_projections, indexed_block_tokens):
    """An indexer chooses keys of multi-head latent attention, or blocks of keys.

    Source: arXiv 2512.02556, section 2.1; transformers, MiniMaxM3VLIndexer (blocks).
    """
    return (indexer_heads == 0) | (latent_projections > 0) | (indexed_block_tokens > 1)


@quantity("boolean", constrains="number_of_indexer_layers", **INDEXED)
def indexer_layers_are_layers(number_of_indexer_layers, number_of_sparse_attention_layers, layers, attention_window):
    """The network has at most as many layers with an indexer as layers with chosen keys, and no attention window.

    Source: definition.
    """
    are_layers = (number_of_indexer_layers <= number_of_sparse_attention_layers) & (
        number_of_sparse_attention_layers <= layers
    )
    return are_layers & (attention_window == 0)


@quantity("boolean", constrains="number_of_indexer_layers", **COMPRESSED)
def indexer_layers_are_layers__compressed(
    number_of_indexer_layers, number_of_sparsely_compressed_layers, number_of_heavily_compressed_layers, layers
):
    """The layers with compressed keys are layers; each has one kind. Source: definition."""
    compressed = number_of_sparsely_compressed_layers + number_of_heavily_compressed_layers
    return (compressed <= layers) & (number_of_indexer_layers <= layers)


@quantity("boolean", constrains="number_of_attention_layers")
def attention_layers_are_layers(number_of_attention_layers, layers):
    """The network has at most as many layers with attention as layers. Source: definition."""
    return number_of_attention_layers <= layers


@quantity("boolean", constrains="number_of_linear_attention_layers", choice="linear_attention_kind", value="none")
def linear_attention_has_a_kind__none(number_of_linear_attention_layers):
    """A network with layers of linear attention says of which kind they are. Source: definition."""
    return number_of_linear_attention_layers == 0


@quantity("boolean", constrains="number_of_MoE_layers")
def mixture_layers_are_layers(number_of_MoE_layers, layers):
    """The number of mixture-of-experts layers is at most the number of layers. Source: definition."""
    return number_of_MoE_layers <= layers


@quantity("boolean", constrains="experts_per_token")
def tokens_choose_experts_that_exist(experts_per_token, number_of_experts):
    """The number of experts of a token is at most the number of experts of a layer. Source: definition."""
    return experts_per_token <= number_of_experts


@quantity("boolean", constrains="feedforward_kind", choice="feedforward_kind", value="dense")
def dense_networks_have_one_expert(number_of_experts):
    """A network whose feed-forward networks are all dense has no further experts. Source: definition."""
    return number_of_experts <= 1


@quantity("boolean", constrains="number_of_MoE_layers", choice="feedforward_kind", value="dense")
def dense_networks_have_no_mixture_layers(number_of_MoE_layers):
    """A network whose number of experts is not given is dense: it has no mixture-of-experts layers.

    Source: definition.
    """
    return number_of_MoE_layers == 0


@quantity("boolean", constrains="number_of_windowed_layers")
def windowed_layers_are_layers(number_of_windowed_layers, layers, attention_window):
    """The number of layers with an attention window is at most the number of layers; without a window it is zero.

    Source: definition.
    """
    return (number_of_windowed_layers <= layers) & ((number_of_windowed_layers == 0) | (attention_window > 0))
