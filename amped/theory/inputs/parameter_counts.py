"""The number of parameters of the network; exact for every row of `transformer_network_parameters`."""

import numpy as np

from amped.theory.language.quantity import each_of, quantity, records
from amped.theory.nouns.conditions import BRANCHED, COMPRESSED, HYPER_CONNECTED, INDEXED
from amped.theory.nouns.layer_kinds import COUNTS, PARAMETERS
from amped.theory.nouns.parameter_classes import CLASSES
from amped.theory.nouns.records import total


@quantity("count")
def attention_matrix_parameters(
    dimensionality, attention_heads, projected_key_value_heads, head_dimension, attention_gate_width
):
    """The weights of the query, key, value and output projections of a layer, and of a gate of entries or of heads.

    Source: arXiv 1706.03762, section 3.2.2; arXiv 2505.06708, section 2.2 (gate).
    """
    heads = attention_heads + 2 * projected_key_value_heads
    query_key_value = dimensionality * (head_dimension * heads + attention_gate_width)
    return query_key_value + attention_heads * head_dimension * dimensionality


@quantity("count", choice="attention_kind", value="multi_latent")
def attention_matrix_parameters__multi_latent(
    dimensionality,
    attention_heads,
    head_dimension,
    value_head_dimension,
    query_latent_dimension,
    key_value_latent_dimension,
    rotary_head_dimension,
):
    """The weights of a multi-head latent attention, with the norms of its latent vectors.

    Source: arXiv 2405.04434, eq. 9–19.
    """
    queries = attention_heads * head_dimension
    compressed = query_latent_dimension * (dimensionality + 1 + queries)
    query = np.where(query_latent_dimension > 0, compressed, dimensionality * queries)
    up = attention_heads * (head_dimension - rotary_head_dimension + value_head_dimension)
    key_value = dimensionality * (key_value_latent_dimension + rotary_head_dimension)
    key_value = key_value + key_value_latent_dimension * (1 + up)
    return query + key_value + attention_heads * value_head_dimension * dimensionality


@quantity("count", **COMPRESSED)
def attention_matrix_parameters__compressed(
    dimensionality,
    attention_heads,
    head_dimension,
    query_latent_dimension,
    output_latent_dimension,
    output_groups,
    compressor_parameters,
):
    """The weights of attention to compressed keys, with the norms of its latent vectors and of its key.

    Source: transformers, DeepseekV4Attention.
    """
    queries = attention_heads * head_dimension
    query = query_latent_dimension * (dimensionality + 1 + queries)
    output = output_latent_dimension * (queries + output_groups * dimensionality)
    return query + head_dimension * (dimensionality + 1) + output + compressor_parameters


@quantity("count", **COMPRESSED)
def compressor_parameters(
    dimensionality,
    head_dimension,
    indexers_per_layer,
    heavily_compressed_fraction,
    sparse_compression_ratio,
    heavy_compression_ratio,
):
    """The parameters that make the entries of an average layer: keys, gates, biases of the places in an entry, a norm.

    An entry of a sparsely compressed layer has two of each, as it overlaps with the entry before it.

    Source: transformers, DeepseekV4CSACompressor and DeepseekV4HCACompressor.
    """
    sparse = 4 * dimensionality + 2 * sparse_compression_ratio + 1
    heavy = 2 * dimensionality + heavy_compression_ratio + 1
    return head_dimension * (indexers_per_layer * sparse + heavily_compressed_fraction * heavy)


@quantity("count")
def normalized_heads(attention_heads, projected_key_value_heads, own_keys_fraction, wide_query_key_norm):
    """The heads for whose entries the norms of queries and keys have weights: one of each, or all if norms are wide.

    Source: arXiv 2302.05442, section 2; arXiv 2501.00656, section 3.1 (wide).
    """
    wide, narrow = attention_heads + projected_key_value_heads, 1 + own_keys_fraction
    return np.where(wide_query_key_norm > 0, wide, narrow)


@quantity("count")
def attention_vector_parameters(
    dimensionality,
    attention_heads,
    projected_key_value_heads,
    head_dimension,
    query_key_value_bias,
    attention_output_bias,
    query_key_norm,
    normalized_heads,
    norm_vectors,
    attention_sinks,
):
    """The biases and sinks of one attention of a layer, and its norms of queries and keys.

    Source: definition. Differs: norms of latent vectors count as matrices.
    """
    biases = query_key_value_bias * head_dimension * (attention_heads + 2 * projected_key_value_heads)
    biases = biases + attention_output_bias * dimensionality + attention_sinks * attention_heads
    return biases + query_key_norm * norm_vectors * normalized_heads * head_dimension


@quantity("count", **INDEXED)
def indexer_parameters__indexed(
    dimensionality,
    query_latent_dimension,
    indexer_heads,
    indexer_head_dimension,
    indexer_head_weights,
    indexers_per_layer,
):
    """The parameters of the indexer of an average layer: projections, weights of heads, and two vectors of norms.

    They are a layer norm of its keys, or norms of its queries and of its keys.

    Source: arXiv 2512.02556, eq. 1; DeepSeek-V3.2-Exp, inference/model.py (Indexer); transformers, MiniMaxM3VLIndexer.
    """
    query_source = np.where(query_latent_dimension > 0, query_latent_dimension, dimensionality)
    queries = query_source * indexer_heads * indexer_head_dimension
    key_and_weights = dimensionality * (indexer_head_dimension + indexer_heads * indexer_head_weights)
    return indexers_per_layer * (queries + key_and_weights + 2 * indexer_head_dimension)


@quantity("count", **COMPRESSED)
def indexer_parameters__compressed(
    dimensionality,
    query_latent_dimension,
    indexer_heads,
    indexer_head_dimension,
    indexers_per_layer,
    sparse_compression_ratio,
):
    """The parameters of the indexer of an average layer: queries, weights of heads, and entries of its own.

    Source: transformers, DeepseekV4Indexer and DeepseekV4IndexerScorer.
    """
    queries = query_latent_dimension * indexer_heads * indexer_head_dimension
    entries = indexer_head_dimension * (4 * dimensionality + 2 * sparse_compression_ratio + 1)
    return indexers_per_layer * (queries + dimensionality * indexer_heads + entries)


@quantity("count")
def attention_parameters(
    attention_matrix_parameters,
    attention_vector_parameters,
    indexer_parameters,
    dimensionality,
    attention_heads,
    head_dimension,
    relative_projection,
):
    """The parameters of one attention of a layer: matrices, indexer, projection of relative positions, biases, norms.

    Source: definition.
    """
    positions = relative_projection * dimensionality * attention_heads * head_dimension
    return attention_matrix_parameters + attention_vector_parameters + indexer_parameters + positions


@quantity("count", choice="linear_attention_kind", value="gated_delta_net")
def linear_attention_parameters__gated_delta_net(
    dimensionality,
    linear_key_width,
    linear_value_width,
    linear_value_heads,
    linear_convolution_width,
    linear_attention_vector_parameters,
):
    """The parameters of one gated delta net: projections, convolution, decays and the gated norm.

    Source: transformers, Qwen3NextGatedDeltaNet.
    """
    projections = dimensionality * (2 * linear_key_width + 3 * linear_value_width + 2 * linear_value_heads)
    convolution = linear_convolution_width * (2 * linear_key_width + linear_value_width)
    return projections + convolution + linear_attention_vector_parameters


@quantity("count", choice="linear_attention_kind", value="gated_delta_net")
def linear_attention_vector_parameters__gated_delta_net(linear_value_heads, linear_value_head_dimension):
    """The vectors of one gated delta net: a decay and a bias for each head, and the weights of the norm of a head.

    Source: transformers, Qwen3NextGatedDeltaNet (A_log, dt_bias, norm).
    """
    return 2 * linear_value_heads + linear_value_head_dimension


@quantity("count", choice="linear_attention_kind", value="kimi_delta_attention")
def linear_attention_parameters__kimi_delta_attention(
    dimensionality,
    linear_key_width,
    linear_value_width,
    linear_value_heads,
    linear_gate_rank,
    linear_convolution_width,
    linear_attention_vector_parameters,
):
    """The parameters of one Kimi delta attention: projections, those of decays and gates, convolution and vectors.

    Source: transformers, KimiLinearDeltaAttention and BailingHybridDeltaAttention (gates of full rank).
    """
    projections = dimensionality * (2 * linear_key_width + 2 * linear_value_width + linear_value_heads)
    widths = linear_key_width + linear_value_width
    narrow, whole = linear_gate_rank * (2 * dimensionality + widths), dimensionality * widths
    gates = np.where(linear_gate_rank > 0, narrow, whole)
    convolution = linear_convolution_width * (2 * linear_key_width + linear_value_width)
    return projections + gates + convolution + linear_attention_vector_parameters


@quantity("count", choice="linear_attention_kind", value="kimi_delta_attention")
def linear_attention_vector_parameters__kimi_delta_attention(
    linear_key_width, linear_value_heads, linear_value_head_dimension
):
    """The vectors of one Kimi delta attention: a decay of each head, a bias of each entry of a key, a norm.

    Source: transformers, KimiLinearForgetGate (A_log, dt_bias) and KimiLinearDeltaAttention (o_norm).
    """
    return linear_value_heads + linear_key_width + linear_value_head_dimension


@quantity("count", choice="linear_attention_kind", value="lightning_attention")
def linear_attention_parameters__lightning_attention(
    dimensionality, linear_key_width, linear_value_width, linear_attention_vector_parameters
):
    """The parameters of one lightning attention: projections, and a norm as wide as the values.

    Source: transformers, MiniMaxLightningAttention.
    """
    return dimensionality * (2 * linear_key_width + 3 * linear_value_width) + linear_attention_vector_parameters


@quantity("count", choice="linear_attention_kind", value="mamba2")
def linear_attention_parameters__mamba2(
    dimensionality,
    linear_key_width,
    linear_value_width,
    linear_value_heads,
    linear_convolution_width,
    linear_attention_vector_parameters,
):
    """The parameters of one Mamba-2: projections, convolution with its biases, decays and the gated norm.

    Source: state-spaces/mamba, modules/mamba2.py.
    """
    projections = dimensionality * (2 * linear_key_width + 3 * linear_value_width + linear_value_heads)
    convolution = linear_convolution_width * (2 * linear_key_width + linear_value_width)
    return projections + convolution + linear_attention_vector_parameters


@quantity("count", choice="linear_attention_kind", value="mamba2")
def linear_attention_vector_parameters__mamba2(
    linear_key_width, linear_value_width, linear_value_heads, linear_output_norm
):
    """The vectors of one Mamba-2: biases of the convolution, decay, bias and skip of each head, and the norm.

    Source: state-spaces/mamba, modules/mamba2.py (conv1d.bias, A_log, dt_bias, D, norm).
    """
    convolution = 2 * linear_key_width + linear_value_width
    return convolution + 3 * linear_value_heads + linear_output_norm * linear_value_width


@quantity("count", **BRANCHED)
def branch_vector_parameters__branched(query_key_norm, norm_vectors, wider_head_entries, own_keys_fraction):
    """The weights of norms of the wider heads of an average layer. Source: arXiv 2302.05442, section 2."""
    return query_key_norm * norm_vectors * (1 + own_keys_fraction) * wider_head_entries


@quantity("count", **BRANCHED)
def branch_parameters__branched(
    branch_weights, layers, dimensionality, wider_projection_entries, branch_vector_parameters
):
    """The parameters of the branches of an average layer, and of what wider heads have more. Source: definition."""
    return branch_weights / layers + dimensionality * wider_projection_entries + branch_vector_parameters


@quantity("count", choice="linear_attention_kind", value="mamba1")
def linear_attention_parameters__mamba1(
    dimensionality,
    linear_value_width,
    linear_key_head_dimension,
    linear_step_rank,
    linear_convolution_width,
    linear_attention_vector_parameters,
):
    """The parameters of one Mamba: projections, those of B, C and steps, convolution and vectors.

    Source: state-spaces/mamba, modules/mamba_simple.py.
    """
    projections = 3 * dimensionality + 2 * linear_step_rank + 2 * linear_key_head_dimension + linear_convolution_width
    return linear_value_width * projections + linear_attention_vector_parameters


@quantity("count", choice="linear_attention_kind", value="mamba1")
def linear_attention_vector_parameters__mamba1(linear_value_width, linear_key_head_dimension):
    """The vectors of one Mamba: biases of the convolution and of steps, the skip, and A for each entry of a state.

    Source: state-spaces/mamba, modules/mamba_simple.py (conv1d.bias, dt_proj.bias, D, A_log).
    """
    return linear_value_width * (3 + linear_key_head_dimension)


@quantity("count", choice="linear_attention_kind", value="gated_recurrence")
def linear_attention_parameters__gated_recurrence(
    dimensionality,
    linear_value_width,
    linear_value_head_dimension,
    linear_convolution_width,
    linear_attention_vector_parameters,
):
    """The parameters of one gated linear recurrence: projections, gates in blocks, convolution and vectors.

    Source: arXiv 2402.19427, section 2.4; transformers, RecurrentGemmaRecurrentBlock.
    """
    projections = 3 * dimensionality + 2 * linear_value_head_dimension + linear_convolution_width
    return linear_value_width * projections + linear_attention_vector_parameters


@quantity("count", choice="linear_attention_kind", value="gated_recurrence")
def linear_attention_vector_parameters__gated_recurrence(dimensionality, linear_value_width):
    """The vectors of one gated recurrence: biases of all products and of the convolution, and a decay of each entry.

    Source: transformers, RecurrentGemmaRecurrentBlock and RecurrentGemmaRglru.
    """
    return 6 * linear_value_width + dimensionality


@quantity("count", choice="linear_attention_kind", value="short_convolution")
def linear_attention_parameters__short_convolution(dimensionality, linear_value_width, linear_convolution_width):
    """The parameters of one short convolution between gates: projections and taps.

    Source: transformers, Lfm2ShortConv.
    """
    return linear_value_width * (4 * dimensionality + linear_convolution_width)


@quantity("count")
def cross_attention_parameters(cross_attention_layers, attention_parameters, norm_vectors, dimensionality):
    """The parameters of all cross-attentions and their norms. Source: arXiv 1706.03762, section 3.1."""
    return cross_attention_layers * (attention_parameters + norm_vectors * dimensionality)


@quantity("count")
def relative_position_parameters(relative_position_buckets, attention_heads, relative_position_tables):
    """The parameters of all tables of relative positions: one for each bucket and head.

    Source: arXiv 1910.10683, section 2.1.
    """
    return relative_position_buckets * attention_heads * relative_position_tables


@quantity("count", **HYPER_CONNECTED)
def connection_parameters__hyper_connections(
    dimensionality, residual_streams, mixer_layer_fraction, network_layer_fraction
):
    """The parameters of the hyper-connections of an average layer: one for each block.

    Each has a matrix from all streams to the weights that read, write and mix them, their biases, and three scales.

    Source: arXiv 2512.24880, eq. 7; transformers, DeepseekV4HyperConnection.
    """
    weights = residual_streams * (2 + residual_streams)
    blocks = mixer_layer_fraction + network_layer_fraction
    return blocks * (weights * (residual_streams * dimensionality + 1) + 3)


@quantity("count", **HYPER_CONNECTED)
def stream_collapse_parameters__hyper_connections(dimensionality, residual_streams):
    """The parameters of the sum of residual streams behind the last layer: a matrix, its biases, and a scale.

    Source: transformers, DeepseekV4HyperHead.
    """
    return residual_streams * (residual_streams * dimensionality + 1) + 1


@each_of(COUNTS=COUNTS, PARAMETERS=PARAMETERS)
@quantity("count")
def non_expert_layer_parameters(
    COUNTS, PARAMETERS, layers, norm_parameters, cross_attention_parameters, relative_position_parameters
):
    """The parameters of all layers, with cross-attentions and their norms, but without the routed experts.

    Source: definition.
    """
    blocks = total(count * parameters for count, parameters in zip(COUNTS, PARAMETERS, strict=True))
    return blocks + layers * norm_parameters + cross_attention_parameters + relative_position_parameters


@quantity("count")
def feedforward_vector_parameters(dimensionality, feedforward_dimension, gated_mlp, mlp_bias):
    """The biases of a dense feed-forward network. Source: arXiv 1706.03762, section 3.3."""
    return mlp_bias * ((1 + gated_mlp) * feedforward_dimension + dimensionality)


@quantity("count")
def feedforward_parameters(dimensionality, feedforward_dimension, gated_mlp, feedforward_vector_parameters):
    """The parameters of a dense feed-forward network.

    Source: arXiv 1706.03762, section 3.3; gate: arXiv 2002.05202, section 2.
    """
    return (2 + gated_mlp) * dimensionality * feedforward_dimension + feedforward_vector_parameters


@quantity("count")
def expert_parameters(expert_width, expert_feedforward_dimension, gated_experts, expert_bias):
    """The parameters of one routed expert. Source: arXiv 1701.06538, section 2."""
    matrices = (2 + gated_experts) * expert_width * expert_feedforward_dimension
    return matrices + expert_bias * ((1 + gated_experts) * expert_feedforward_dimension + expert_width)


@quantity("count")
def router_width(number_of_experts, zero_compute_experts):
    """The number of experts among which a router chooses. Source: arXiv 2509.01322, section 2.1."""
    return number_of_experts + zero_compute_experts


@quantity("count")
def router_vector_parameters(router_width, router_bias):
    """The biases of the router of a mixture of experts. Source: arXiv 2408.15664, section 3."""
    return router_bias * router_width


@quantity("count")
def router_and_shared_expert_parameters(
    dimensionality,
    expert_latent_dimension,
    router_width,
    router_vector_parameters,
    shared_experts_feedforward_dimension,
    gated_mlp,
    shared_expert_gate,
):
    """The parameters of a mixture-of-experts layer that every token uses: router, shared experts, narrowing.

    Source: arXiv 2401.06066 (DeepSeekMoE), section 3.2; transformers, NemotronHMoE (fc1_latent_proj, fc2_latent_proj).
    """
    shared = (2 + gated_mlp) * dimensionality * shared_experts_feedforward_dimension
    narrowing = 2 * expert_latent_dimension
    return dimensionality * (router_width + shared_expert_gate + narrowing) + router_vector_parameters + shared


@quantity("count")
def norm_parameters(norms_per_layer, norm_vectors, dimensionality, connection_parameters, further_parameters, layers):
    """The parameters of all norms and hyper-connections of one layer, and its share of those that no other name counts.

    Source: arXiv 1607.06450, section 3.
    """
    return norms_per_layer * norm_vectors * dimensionality + connection_parameters + further_parameters / layers


@quantity("count")
def further_embedding_parameters(patch_values, dimensionality, further_tables):
    """The parameters before the first layer beside words, positions and segments: patches of images, further tables.

    Source: arXiv 2010.11929, section 3.1 (patches).
    """
    return np.where(patch_values > 0, (patch_values + 2) * dimensionality, 0) + further_tables


@quantity("count")
def embedding_parameters(
    vocabulary_size,
    embedding_dimension,
    dimensionality,
    position_table,
    token_types,
    embedding_norm,
    norm_vectors,
    number_of_stacks,
    narrow_embeddings,
    further_embedding_parameters,
):
    """The parameters before the first layer: tables, image patches, and the embedding norm.

    An encoder and a decoder share the words; each has positions and a norm of its own.

    Source: definition; arXiv 1910.13461 (BART), section 2.
    """
    words = vocabulary_size * embedding_dimension
    narrow, is_projected = narrow_embeddings > 0, embedding_dimension != dimensionality
    weights = np.where(narrow, (embedding_dimension + 1), 2 * embedding_dimension) * dimensionality
    projections = np.where(is_projected, weights, 0)
    rows = token_types + number_of_stacks * (position_table + embedding_norm * norm_vectors)
    tables = rows * np.where(narrow, embedding_dimension, dimensionality)
    return words + projections + further_embedding_parameters + tables


@quantity("count")
def output_head_parameters(
    vocabulary_size,
    dimensionality,
    tied_embeddings,
    final_norm,
    number_of_stacks,
    norm_vectors,
    output_bias,
    pooler,
    stream_collapse_parameters,
    multi_token_prediction_parameters,
):
    """The parameters after the last layer: final norms, an untied output head, a pooler, multi-token prediction.

    The routed experts of multi-token prediction are counted separately. Source: definition.
    """
    head = (1 - tied_embeddings) * vocabulary_size * dimensionality + output_bias * vocabulary_size
    norms = final_norm * number_of_stacks * norm_vectors * dimensionality
    before = norms + pooler * (dimensionality + 1) * dimensionality + stream_collapse_parameters
    return head + before + multi_token_prediction_parameters


@quantity("count")
def number_of_parameters(
    non_expert_layer_parameters,
    number_of_MoE_layers,
    number_of_experts,
    expert_parameters,
    embedding_parameters,
    output_head_parameters,
    multi_token_prediction_expert_parameters,
    tower_parameters,
    tower_projector_parameters,
):
    """The number of parameters of the whole network, with its tower. Source: definition."""
    experts = number_of_MoE_layers * number_of_experts * expert_parameters + multi_token_prediction_expert_parameters
    decoder = non_expert_layer_parameters + experts + embedding_parameters + output_head_parameters
    return decoder + tower_parameters + tower_projector_parameters


@quantity("count")
def active_parameters(
    number_of_parameters,
    number_of_MoE_layers,
    multi_token_prediction_MoE_layers,
    number_of_experts,
    experts_per_token,
    expert_parameters,
):
    """The number of parameters that one token uses: all except the routed experts to which it does not go.

    Source: arXiv 2101.03961, section 2.1.
    """
    mixtures = number_of_MoE_layers + multi_token_prediction_MoE_layers
    return number_of_parameters - mixtures * (number_of_experts - experts_per_token) * expert_parameters


# --- classes of parameters -------------------------------------------------------------------------------------------


@records()
def parameter_classes(weight_precision, tower_classes):
    """The classes of parameters, with the bytes of a weight: training changes all of them, except perhaps of a tower.

    Source: arXiv 1910.02054, section 3.1.
    """
    return (*(parameters.having(precision=weight_precision) for parameters in CLASSES), *tower_classes)


# --- multi-token prediction ------------------------------------------------------------------------------------------


@quantity("count")
def multi_token_prediction_MoE_layers(multi_token_prediction_layers, number_of_MoE_layers):
    """The number of layers of multi-token prediction modules that have a mixture of experts.

    It is the number of all these layers if the network has mixtures of experts, else zero. Source: arXiv 2412.19437,
    section 2.2.
    """
    return multi_token_prediction_layers * (number_of_MoE_layers > 0)


@quantity("count")
def multi_token_prediction_dense_layers(multi_token_prediction_layers, multi_token_prediction_MoE_layers):
    """The number of layers of multi-token prediction modules that have a dense feed-forward network.

    Source: arXiv 2412.19437, section 2.2.
    """
    return multi_token_prediction_layers - multi_token_prediction_MoE_layers


@quantity("count")
def multi_token_prediction_parameters(
    multi_token_prediction_layers,
    multi_token_prediction_MoE_layers,
    multi_token_prediction_dense_layers,
    dimensionality,
    norm_vectors,
    attention_parameters,
    norm_parameters,
    feedforward_parameters,
    router_and_shared_expert_parameters,
):
    """The parameters of all multi-token prediction modules, without their routed experts.

    The modules share the embedding and the output head of the network. Each module consists of two norms, a projection
    of the two normalized vectors into one, a layer, and a final norm.

    Source: arXiv 2412.19437, eq. 21–23.
    """
    norms = 3 * norm_vectors * dimensionality
    shared = 2 * dimensionality * dimensionality + norms + attention_parameters + norm_parameters
    mixtures = multi_token_prediction_MoE_layers * router_and_shared_expert_parameters
    return (
        multi_token_prediction_layers * shared + multi_token_prediction_dense_layers * feedforward_parameters + mixtures
    )


@quantity("count")
def multi_token_prediction_expert_parameters(multi_token_prediction_MoE_layers, number_of_experts, expert_parameters):
    """The parameters of the routed experts of all multi-token prediction modules.

    Source: arXiv 2412.19437, section 2.2.
    """
    return multi_token_prediction_MoE_layers * number_of_experts * expert_parameters
