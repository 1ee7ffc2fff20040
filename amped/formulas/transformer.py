"""The shape of the network: what its layers are made of."""

import numpy as np

from amped.quantity import NETWORK, parameter, quantity, selector


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
def score_dimension(head_dimension):
    """Width over which a query meets a key: that of a head. Source: arXiv 1706.03762, eq. 1."""
    return head_dimension


@quantity("count", choice="attention_kind", value="multi_latent")
def score_dimension__multi_latent(
    head_dimension, absorbed_latent_attention, key_value_latent_dimension, rotary_head_dimension
):
    """Width over which a query meets a key: that of a head, or of the latent vector. Source: arXiv 2405.04434, eq. 9–19."""
    latent = key_value_latent_dimension + rotary_head_dimension
    return np.where(absorbed_latent_attention > 0, latent, head_dimension)


@quantity("count")
def weighted_dimension(value_head_dimension):
    """Width of what scores weight: that of a value. Source: arXiv 1706.03762, eq. 1."""
    return value_head_dimension


@quantity("count", choice="attention_kind", value="multi_latent")
def weighted_dimension__multi_latent(value_head_dimension, absorbed_latent_attention, key_value_latent_dimension):
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
