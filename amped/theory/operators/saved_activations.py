"""The bytes that operators keep for the backward pass: of a layer, of the embedding, of the output head.

The sum over a layer is that of arXiv 2205.05198, sections 4.2.1 and 4.2.2, for a feed-forward network of four times the
width, as many key heads as query heads, 2-byte activations and dropout:

    s·b·h·(10 + 24/t + 5·a·s/(h·t))    with tensor parallelism
    s·b·h·(34/t + 5·a·s/(h·t))         with sequence parallelism
"""

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.layer_kinds import average_layer
from amped.theory.nouns.records import stash_of
from amped.theory.nouns.stage_records import Held


@records()
def whole_activations(layer_operators, layer_kinds):
    """The bytes that one layer of each kind keeps of a micro-batch if nothing is recomputed.

        bytes = sum of stash · count over the forward operators of the layer.

    `stash` are the bytes that an operator keeps in one call, and `count` is the number of its calls.

    Source: arXiv 2205.05198, eq. 1 and section 4.2.
    """
    return tuple(Held(kind.name, kind.stash(layer_operators)) for kind in layer_kinds)


@quantity("byte")
def layer_activation_bytes(whole_activations, layer_kinds):
    """The bytes that one layer keeps of a micro-batch if nothing is recomputed, averaged over the layers.

    Source: arXiv 2205.05198, eq. 1 and section 4.2.
    """
    return average_layer(layer_kinds, whole_activations).bytes


@quantity("byte")
def score_activation_bytes(softmax_operators):
    """The bytes that one layer keeps of the attention scores of a micro-batch.

    They are the output of the softmax, the mask of the dropout, and the output of the dropout. A fused attention keeps
    no scores.

    Source: arXiv 2205.05198, section 4.1 (5·a·s²·b).
    """
    return stash_of(softmax_operators)


@quantity("byte")
def kept_activation_bytes_per_layer(kept_activations, layer_kinds):
    """The bytes that one layer keeps of a micro-batch, averaged over the layers; recomputed activations are not kept.

    Source: arXiv 2205.05198, section 5.
    """
    return average_layer(layer_kinds, kept_activations).bytes


@records()
def kept_activations(
    whole_activations,
    score_activation_bytes,
    layer_input_bytes,
    recomputed_layer_fraction,
    recomputed_attention_core_fraction,
    gradient_layer_fraction,
    adapter_operators,
    layer_kinds,
):
    """The bytes that one layer of each kind keeps of a micro-batch; recomputed activations are not kept.

        kept = r·input + (g − r)·all − c·scores,
        r = share of layers recomputed in full, c = share of layers that recompute the attention core,
        g = share of layers that have a backward pass. Of r and c one is 0.

    `all` is what such a layer keeps, with its adapters.

    Source: arXiv 2205.05198, section 5.
    """
    scores = recomputed_attention_core_fraction * score_activation_bytes
    inputs, kept_share = (
        recomputed_layer_fraction * layer_input_bytes,
        gradient_layer_fraction - recomputed_layer_fraction,
    )
    missing = 1 / gradient_layer_fraction - 1  # adapters are counted for the average layer
    return tuple(
        Held(whole.name, inputs + (kept_share * (whole.bytes + missing * kind.stash(adapter_operators)) - scores))
        for whole, kind in zip(whole_activations, layer_kinds, strict=True)
    )


@quantity("byte")
def softmax_statistic_bytes(microbatch_tokens, attention_heads, tensor_parallel_rows, softmax_statistic_precision):
    """The bytes of the softmax statistics of a micro-batch: one number for each token and head.

    Source: arXiv 2205.14135, algorithm 1.
    """
    return microbatch_tokens * attention_heads / tensor_parallel_rows * softmax_statistic_precision


@records(choice="activation_recomputation", value="alternate_products")
def kept_activations__alternate_products(layer_kinds, alternate_product_bytes):
    """The bytes that one layer of any kind keeps of a micro-batch if every second product with a weight is recomputed.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy).
    """
    return tuple(Held(kind.name, alternate_product_bytes) for kind in layer_kinds)


@quantity("byte")
def alternate_product_bytes(
    layer_input_bytes,
    query_bytes,
    value_bytes,
    attentions_per_layer,
    score_activation_bytes,
    microbatch_tokens,
    feedforward_dimension,
    tensor_parallel_rows,
    activation_precision,
    softmax_statistic_bytes,
):
    """The bytes that one layer keeps of a micro-batch if every second product with a weight is recomputed.

    The layer keeps its input, and the outputs of queries, values, attention, up and down projection.

    Source: torchtitan, parallelize_llama.py (_get_custom_policy). Differs: experts count as a dense network of their
    width, and the output of attention as wide as all residual streams.
    """
    up = microbatch_tokens * feedforward_dimension / tensor_parallel_rows * activation_precision
    attention = (
        attentions_per_layer * (2 * query_bytes + value_bytes + softmax_statistic_bytes) + score_activation_bytes
    )
    return 2 * layer_input_bytes + attention + up


@quantity("byte")
def kept_attention_bytes(
    query_bytes,
    key_bytes,
    value_bytes,
    softmax_statistic_bytes,
    attentions_per_layer,
    kept_query_key_value,
    kept_attention_core,
):
    """The bytes that one layer keeps of the outputs of projections and attention core, as the config names them.

    The attention core keeps its output, which is as large as the queries, and the statistics of its softmax.

    Source: JAX, checkpoint_policies.save_only_these_names.
    """
    core = kept_attention_core * (query_bytes + softmax_statistic_bytes)
    return attentions_per_layer * (kept_query_key_value * (query_bytes + key_bytes + value_bytes) + core)


@quantity("byte")
def kept_feedforward_bytes(
    microbatch_tokens,
    feedforward_dimension,
    gated_mlp,
    tensor_parallel_rows,
    activation_precision,
    kept_feedforward_up,
):
    """The bytes that one layer keeps of the output of its up projection and gate, if the config names it.

    Source: JAX, checkpoint_policies.save_only_these_names. Differs: experts count as a dense network of their width.
    """
    width = kept_feedforward_up * (1 + gated_mlp) * feedforward_dimension
    return microbatch_tokens * width / tensor_parallel_rows * activation_precision


@records(choice="activation_recomputation", value="kept_products")
def kept_activations__kept_products(
    layer_kinds,
    layer_input_bytes,
    residual_bytes,
    attentions_per_layer,
    kept_attention_bytes,
    kept_feedforward_bytes,
    kept_attention_output,
    kept_feedforward_down,
):
    """The bytes that one layer of any kind keeps of a micro-batch: its input, and the outputs that the config keeps.

    Source: JAX, checkpoint_policies.save_only_these_names.
    """
    wide = kept_attention_output * attentions_per_layer + kept_feedforward_down
    further_streams = layer_input_bytes - residual_bytes
    kept_bytes = further_streams + (1 + wide) * residual_bytes + kept_attention_bytes + kept_feedforward_bytes
    return tuple(Held(kind.name, kept_bytes) for kind in layer_kinds)


@quantity("byte")
def embedding_activation_bytes(embedding_operators, tower_operators):
    """The bytes that the embedding keeps of a micro-batch: the mask of its dropout, and what a tower before it keeps.

    Source: arXiv 2205.05198, section 4.3.
    """
    return stash_of(embedding_operators) + stash_of(tower_operators)


@quantity("byte")
def output_head_activation_bytes(output_head_operators, kept_activation_bytes_per_layer, predictions_in_output_head):
    """The bytes that the output head keeps of a micro-batch: inputs of the final norm and of the head, and logits.

    The modules of multi-token prediction on the same stage are counted too.

    Source: arXiv 2205.05198, section 4.3 (4·s·b·h/t·(1 + v/h)).
    """
    return stash_of(output_head_operators) + predictions_in_output_head * kept_activation_bytes_per_layer
