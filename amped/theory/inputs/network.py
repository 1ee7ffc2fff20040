"""The shape of the network: how many layers of what kind, what a layer is made of, and which scores it computes."""

import numpy as np

from amped.theory.quantity import NETWORK, parameter, quantity, selector


@parameter("count", category=NETWORK)
def layers():
    """Number of transformer layers. Source: definition."""


@parameter("count", category=NETWORK)
def dimensionality():
    """Width of the residual stream (hidden size, d_model). Source: definition."""


@parameter("count", category=NETWORK)
def attention_heads():
    """Number of query heads of a layer. Source: definition."""


@quantity("count", category=NETWORK)
def key_value_heads(attention_heads):
    """Number of key and value heads; as many as query heads unless they are shared. Source: arXiv 2305.13245 (GQA)."""
    return attention_heads


@quantity("count", category=NETWORK)
def head_dimension(dimensionality, attention_heads):
    """Width of one query or key head. Source: arXiv 1706.03762, section 3.2.2."""
    return dimensionality / attention_heads


@quantity("count", category=NETWORK)
def value_head_dimension(head_dimension):
    """Width of one value head; that of the keys except in multi-head latent attention. Source: arXiv 2405.04434."""
    return head_dimension


@selector("multi_head", "grouped_query", "multi_latent", category=NETWORK)
def attention_kind():
    """Kind of attention; multi_latent takes queries, keys and values from low-rank vectors. Source: definition."""
    return "multi_head"


@selector("grouped_query", category=NETWORK, when_given=("key_value_heads",))
def attention_kind__shared_keys():
    """Grouped-query attention where the number of key heads is given (multi-head is the case of as many).

    Source: arXiv 2305.13245 (GQA).
    """
    return "grouped_query"


@selector("multi_latent", category=NETWORK, when_given=("key_value_latent_dimension",), even_with=("key_value_heads",))
def attention_kind__latent():
    """Multi-head latent attention where the width of its latent vector is given. Source: arXiv 2405.04434."""
    return "multi_latent"


@parameter("count", category=NETWORK, at_least=0)
def query_latent_dimension():
    """Rank of the compressed queries of multi-head latent attention; 0: not compressed. Source: arXiv 2405.04434."""
    return 0


@parameter("count", category=NETWORK)
def key_value_latent_dimension():
    """Rank of the compressed keys and values of multi-head latent attention. Source: arXiv 2405.04434."""


@parameter("count", category=NETWORK)
def rotary_head_dimension():
    """Part of a query or key head that carries the position in multi-head latent attention.

    Source: arXiv 2405.04434.
    """


@parameter("boolean", category=NETWORK)
def absorbed_latent_attention():
    """Whether queries and outputs are multiplied by the keys' and values' up projections, and latent vectors attended to.

    Source: arXiv 2405.04434, section 2.1.2. Assumes that training does not: it is for long contexts and few queries.
    """
    return 0


@quantity("boolean")
def latent_projections():
    """Whether keys and values are projected from a latent vector: no. Source: definition."""
    return 0


@quantity("boolean", choice="attention_kind", value="multi_latent")
def latent_projections__multi_latent():
    """Whether keys and values are projected from a latent vector: yes. Source: arXiv 2405.04434."""
    return 1


@quantity("count")
def query_key_width(head_dimension):
    """Width over which a query meets a key: that of a head. Source: arXiv 1706.03762, eq. 1."""
    return head_dimension


@quantity("count", choice="attention_kind", value="multi_latent")
def query_key_width__multi_latent(
    head_dimension, absorbed_latent_attention, key_value_latent_dimension, rotary_head_dimension
):
    """Width over which a query meets a key: that of a head, or of the latent vector. Source: arXiv 2405.04434, eq. 9–19."""
    latent = key_value_latent_dimension + rotary_head_dimension
    return np.where(absorbed_latent_attention > 0, latent, head_dimension)


@quantity("count")
def value_width(value_head_dimension):
    """Width of what scores weight: that of a value. Source: arXiv 1706.03762, eq. 1."""
    return value_head_dimension


@quantity("count", choice="attention_kind", value="multi_latent")
def value_width__multi_latent(value_head_dimension, absorbed_latent_attention, key_value_latent_dimension):
    """Width of what scores weight: that of a value, or of the latent vector. Source: arXiv 2405.04434, eq. 9–19."""
    return np.where(absorbed_latent_attention > 0, key_value_latent_dimension, value_head_dimension)


@quantity("count", category=NETWORK)
def feedforward_dimension(dimensionality):
    """Width inside the feed-forward network: four times the residual stream. Source: arXiv 1706.03762, section 3.3."""
    return 4 * dimensionality


@parameter("boolean", category=NETWORK)
def gated_mlp():
    """Whether the feed-forward network has a gate beside its up projection. Source: arXiv 2002.05202 (SwiGLU)."""
    return 0


@parameter("count", category=NETWORK, at_least=0)
def vocabulary_size():
    """Number of tokens in the vocabulary; 0 for a network without one (vision encoders). Source: definition."""


@parameter("count", category=NETWORK)
def context():
    """Sequence length in training, in tokens. Source: definition."""


@parameter("boolean", category=NETWORK)
def tied_embeddings():
    """Whether the output head shares the input embedding's weights. Source: arXiv 1608.05859."""
    return 1


@parameter("count", category=NETWORK)
def number_of_experts():
    """Routed experts of a mixture-of-experts layer; 1: the network is dense. Source: arXiv 1701.06538."""
    return 1


@parameter("count", category=NETWORK)
def experts_per_token():
    """Routed experts that a token visits (top-k). Source: arXiv 1701.06538."""
    return 1


@parameter("count", category=NETWORK, at_least=0)
def number_of_shared_experts():
    """Experts that every token visits. Source: arXiv 2401.06066 (DeepSeekMoE)."""
    return 0


@quantity("count", category=NETWORK)
def expert_feedforward_dimension(feedforward_dimension):
    """Width inside one routed expert; that of the dense layers unless given. Source: definition."""
    return feedforward_dimension


@quantity("count", category=NETWORK, at_least=0)
def shared_experts_feedforward_dimension(number_of_shared_experts, expert_feedforward_dimension):
    """Width of all shared experts of a layer together. Source: arXiv 2401.06066 (DeepSeekMoE)."""
    return number_of_shared_experts * expert_feedforward_dimension


@quantity("boolean", category=NETWORK)
def gated_experts(gated_mlp):
    """Whether an expert has a gate; as the dense layers unless given. Source: definition."""
    return gated_mlp


@quantity("count", category=NETWORK, at_least=0)
def number_of_MoE_layers(layers, number_of_experts):
    """Layers whose feed-forward network is a mixture of experts: all of them unless given. Source: definition."""
    return np.where(number_of_experts > 1, layers, 0 * layers)


@quantity("count", category=NETWORK, at_least=0)
def number_of_attention_layers(layers):
    """Layers that attend to their own sequence: all of them unless given; 0 where a feed-forward network stands alone.

    Source: definition.
    """
    return layers


@parameter("count", category=NETWORK, at_least=0)
def cross_attention_layers():
    """Layers that also attend to the output of an encoder. Source: arXiv 1706.03762, section 3.1."""
    return 0


@parameter("count", category=NETWORK)
def number_of_stacks():
    """Stacks of layers with a final norm each: 2 for an encoder and a decoder. Source: arXiv 1706.03762, section 3.1."""
    return 1


@quantity("count")
def number_of_dense_layers(layers, number_of_MoE_layers):
    """Layers with a plain feed-forward network. Source: definition."""
    return layers - number_of_MoE_layers


@parameter("1", category=NETWORK, at_most=1)
def dropout():
    """Dropout probability; above 0 its masks are kept for the backward pass. Source: Megatron-LM's default."""
    return 0.1


# --- positions, norms and the mask of attention ----------------------------------------------------------------------


@selector("pre", "post", category=NETWORK)
def norm_position():
    """Where a layer normalizes: its branches' inputs (pre) or the sums of branch and residual (post).

    Source: arXiv 2002.04745.
    """
    return "pre"


@selector("learned", "rope", "alibi", "relative_bias", "relative_projection", category=NETWORK)
def positions():
    """How the network knows positions; rope turns queries and keys in every layer. Source: arXiv 2104.09864."""
    return "learned"


@parameter("boolean", category=NETWORK)
def causal():
    """Whether a token attends to earlier tokens only; a fused attention then skips the other half.

    Source: arXiv 2307.08691, section 3.1.
    """
    return 1


@parameter("count", category=NETWORK, at_least=0)
def attention_window():
    """Tokens that a token of a windowed layer attends to, itself among them; 0: no layer has a window.

    Source: arXiv 2310.06825, section 2 (sliding window attention).
    """
    return 0


@quantity("count", category=NETWORK, at_least=0)
def number_of_windowed_layers(layers, attention_window):
    """Layers that attend within a window: all where there is one, unless given. Source: arXiv 2310.06825, section 2."""
    return np.where(attention_window > 0, layers, 0 * layers)


# --- further modules -------------------------------------------------------------------------------------------------


@parameter("count", category=NETWORK, at_least=0)
def multi_token_prediction_layers():
    """Modules that predict tokens further on, each with a projection, a layer of its own, and the shared output head.

    Source: arXiv 2412.19437, section 2.2.
    """
    return 0


# --- shares of the layers --------------------------------------------------------------------------------------------


@quantity("1")
def attentions_per_layer(layers, number_of_attention_layers, cross_attention_layers):
    """Attentions of a layer, on average: 1, and a second where a layer attends to an encoder. Source: definition."""
    return (number_of_attention_layers + cross_attention_layers) / layers


@quantity("1")
def attention_layer_fraction(number_of_attention_layers, layers):
    """Share of the layers that attend to their own sequence. Source: definition."""
    return number_of_attention_layers / layers


@quantity("1")
def dense_fraction(number_of_dense_layers, layers):
    """Share of the layers that have a plain feed-forward network. Source: definition."""
    return number_of_dense_layers / layers


@quantity("1")
def MoE_fraction(number_of_MoE_layers, layers):
    """Share of the layers that have a mixture of experts. Source: definition."""
    return number_of_MoE_layers / layers


@quantity("1")
def shared_expert_fraction(shared_experts_feedforward_dimension):
    """Share of the mixtures that have shared experts: all or none. Source: arXiv 2401.06066."""
    return 1.0 * (shared_experts_feedforward_dimension > 0)


@quantity("1")
def windowed_layer_fraction(number_of_windowed_layers, layers):
    """Share of the layers that attend within a window. Source: arXiv 2503.19786, section 2 (layers mixed 5 to 1)."""
    return number_of_windowed_layers / layers


@selector("dense", "mixture", category=NETWORK)
def feedforward_kind():
    """Whether layers have plain feed-forward networks only. Source: definition."""
    return "dense"


@selector("mixture", category=NETWORK, when_given=("number_of_experts",))
def feedforward_kind__experts():
    """Mixtures of experts where their number is given (a dense network is the case of one). Source: arXiv 1701.06538."""
    return "mixture"


@quantity("boolean")
def has_vocabulary(vocabulary_size):
    """Whether there are an embedding and an output head of words. Source: definition."""
    return 1.0 * (vocabulary_size > 0)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="attention_heads")
def query_heads_divide_by_key_heads(attention_heads, key_value_heads):
    """Each key head serves as many query heads. Source: arXiv 2305.13245."""
    return np.mod(attention_heads, key_value_heads) == 0


@quantity("boolean", constrains="number_of_attention_layers")
def attention_layers_are_layers(number_of_attention_layers, layers):
    """There are no more layers with attention than layers. Source: definition."""
    return number_of_attention_layers <= layers


@quantity("boolean", constrains="number_of_MoE_layers")
def mixture_layers_are_layers(number_of_MoE_layers, layers):
    """There are no more mixture-of-experts layers than layers. Source: definition."""
    return number_of_MoE_layers <= layers


@quantity("boolean", constrains="experts_per_token")
def tokens_choose_experts_that_exist(experts_per_token, number_of_experts):
    """A token visits no more experts than there are. Source: definition."""
    return experts_per_token <= number_of_experts


@quantity("boolean", constrains="number_of_windowed_layers")
def windowed_layers_are_layers(number_of_windowed_layers, layers, attention_window):
    """There are no more windowed layers than layers, and none without a window. Source: definition."""
    return (number_of_windowed_layers <= layers) & ((number_of_windowed_layers == 0) | (attention_window > 0))


@parameter("1", category=NETWORK, at_least=0)
def expert_capacity_factor():
    """Places of an expert for each token that it would have if all had as many; 0: as many as come (dropless).

    Source: arXiv 2006.16668, section 2.2; arXiv 2211.15841 (dropless). Places are computed whether taken or not.
    """
    return 0


@parameter("byte", category=NETWORK, bare="bit", above=0)
def routing_precision():
    """Size of an expert's probability (a bare number is bits). Source: Megatron-LM, --moe-router-dtype; DeepEP (fp32)."""
    return 4
