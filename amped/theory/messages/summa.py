"""SUMMA: matrix products over a grid of rows × columns of accelerators.

The depth k of a product is cut into panels; a panel is broadcast while the panel before it is multiplied. The forward
product broadcasts its input along the rows and its weight along the columns. Each of the two backward products
broadcasts one of these operands, and reduces the gradient of the other operand, which has equally many bytes. Along a
chain of accelerators a reduction takes as long as a broadcast.
"""

import numpy as np

from amped.theory.language.quantity import quantity, records
from amped.theory.nouns.conditions import INDEXED, SUMMA, SUMMA_SCORES
from amped.theory.nouns.records import Collective, latest, time_of

# What a product, and so the broadcast of its panels, waits for.
KEYS = ("rotary_positions", "query_key_norm")
SCORES = ("attention_scores_inputs reduce", "attention_scores")
PROBABILITIES = ("attention_dropout", "softmax")
BEFORE = {
    "query_key_value": ("attention_norm", "norm_statistics all_reduce"),
    "attention_output": ("head_permutation", "attended_heads all_to_all", "attention_values", "fused_attention"),
    "feedforward_up": ("feedforward_norm", "attention_residual"),
    "feedforward_down": ("activation_function",),
}


@records(**SUMMA)
def tensor_collectives__2d_summa(
    projection_gemms,
    feedforward_gemms,
    score_panels,
    norm_statistic_bytes,
    norms_per_layer,
    matrix_operand_precision,
    attentions_per_layer,
    dense_fraction,
    row_group,
    column_group,
):
    """The collectives of a forward pass of a layer under SUMMA: panels of inputs and of weights, and sums of norms.

        bytes of a panel of inputs = m·k·e / P,  of weights = k·n·e / P,  P calls of each for a product.

    SUMMA computes a product in P steps. Each step needs one panel: a part of the inner dimension, cut from the inputs
    and from the weights. Panels of inputs are broadcast along the rows of the grid, panels of weights along its
    columns. m are the accelerator's tokens, n its columns of the output, k is the whole inner dimension, and e are the
    bytes of an entry.

    Source: arXiv 2410.00273, section 3.
    """
    (rows,), (columns,) = row_group, column_group
    calls = {"query_key_value": attentions_per_layer, "attention_output": attentions_per_layer}
    panels = tuple(
        message
        for gemm in projection_gemms + feedforward_gemms
        for message in panel_messages(
            gemm, matrix_operand_precision, rows, columns, calls.get(gemm.name, dense_fraction)
        )
    )
    sums = Collective(
        "norm_statistics",
        "all_reduce",
        volume=norm_statistic_bytes,
        group=rows,
        count=norms_per_layer,
        after=("embedding_dropout",),
    )
    return (sums, *panels, *score_panels)


def panel_messages(gemm, entry_bytes, row_group, column_group, calls):
    """The two collectives for the forward product of SUMMA: broadcasts of panels of its inputs, and of its weight.

    Panels of inputs are broadcast along the rows of the grid, and panels of the weight along its columns.

    Args:
        gemm: the product.
        entry_bytes: the bytes of an entry of its operands.
        row_group: the accelerators of a row of the grid.
        column_group: the accelerators of a column of the grid.
        calls: the number of times that a layer runs the product.

    Source: van de Geijn and Watts, 1997 (SUMMA).
    """
    inputs = gemm.m * gemm.k * gemm.batch * entry_bytes / gemm.panels
    weights = gemm.k * gemm.n * gemm.batch * entry_bytes / gemm.panels
    calls, after = gemm.panels * calls, BEFORE.get(gemm.name, ())
    return (
        Collective(f"{gemm.name}_inputs", "broadcast", volume=inputs, group=row_group, count=calls, after=after),
        Collective(f"{gemm.name}_weights", "broadcast", volume=weights, group=column_group, count=calls, after=after),
    )


@records(**SUMMA_SCORES)
def score_panels__summa(
    attention_gemms,
    activation_precision,
    attentions_per_layer,
    microbatch_tokens,
    attention_heads,
    key_value_heads,
    context,
    row_group,
    column_group,
):
    """The collectives of attention scores that SUMMA computes in parts (panels).

        bytes of a panel of scores = queries·context·heads·sequences·e / P.

    P is the number of panels, and e are the bytes of an entry. Panels of keys and values are broadcast along the
    columns of the grid. Along the rows, panels of scores are reduced, the sums of the softmax are all-reduced, and
    panels of probabilities are broadcast.

    Source: arXiv 2410.00273, section 3 (sa_2d in its code).
    """
    (scores, values), calls, entry_bytes = attention_gemms, attentions_per_layer, activation_precision
    (rows,), (columns,) = row_group, column_group
    sums = microbatch_tokens * attention_heads * entry_bytes
    score_bytes = scores.m * context * scores.batch * entry_bytes / scores.panels
    key_batch = scores.batch * key_value_heads / attention_heads
    keys, value_panels = (gemm.n * gemm.k * key_batch * entry_bytes / gemm.panels for gemm in (scores, values))
    score_calls, value_calls = scores.panels * calls, values.panels * calls
    return (
        Collective("attention_scores_inputs", "reduce", score_bytes, group=rows, count=score_calls, after=KEYS),
        Collective("attention_scores_weights", "broadcast", keys, group=columns, count=score_calls, after=KEYS),
        Collective("softmax_statistics", "all_reduce", sums, group=rows, count=calls, after=SCORES),
        Collective(
            "attention_values_inputs", "broadcast", score_bytes, group=rows, count=value_calls, after=PROBABILITIES
        ),
        Collective("attention_values_weights", "broadcast", value_panels, group=columns, count=value_calls, after=KEYS),
    )


@quantity("byte")
def norm_statistic_bytes(microbatch_tokens, norm_vectors, activation_precision):
    """The size of the norm statistics of all tokens, which accelerators add up because each has a part of a token.

    The statistics are the mean and the mean square; an RMS norm has only the mean square.

    Source: arXiv 2410.00273, section 3.
    """
    return microbatch_tokens * norm_vectors * activation_precision


@records()
def output_head_panels(
    output_head_gemms,
    matrix_operand_precision,
    has_vocabulary,
    row_group,
    column_group,
):
    """The broadcasts of SUMMA for the forward product of the output head: all of its input, and all of its weight.

    Source: arXiv 2410.00273, section 3.
    """
    (rows,), (columns,) = row_group, column_group
    return panel_messages(output_head_gemms[0], matrix_operand_precision, rows, columns, has_vocabulary)


@quantity("s", **SUMMA)
def vocabulary_parallel_communication_time__2d_summa(output_head_panel_durations):
    """Half of the time of SUMMA's collectives for the output head, for a micro-batch.

    The half is counted twice: with the output head, and with the embedding, which communicates nothing itself. The
    collectives bring the operands of the three products of the output head. They do not overlap computation.

    Source: arXiv 2410.00273, section 3. Differs: the paper's code has no embedding and no output head.
    """
    return 1.5 * time_of(output_head_panel_durations)


@quantity("byte", **SUMMA)
def communication_buffer_bytes__2d_summa(tensor_collectives, layer_input_bytes, pipeline_parallel_degree):
    """The communication buffers of a micro-batch: four panels, and what a stage exchanges with other stages.

    A panel is the part of an operand that SUMMA multiplies at a time. The four panels are, for each of the two operands
    of a product, the panel in use and the next one. Each counts as large as the largest panel.

    Source: arXiv 2410.00273, section 3; Megatron-LM, p2p_communication (stage sends).
    """
    largest = latest(message.volume * (message.group.degree > 1) for message in tensor_collectives)
    return 4 * largest + 2 * layer_input_bytes * (pipeline_parallel_degree > 1)


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="summa_panels", **SUMMA)
def panels_divide_the_width__2d_summa(summa_panels, dimensionality, tensor_parallel_rows, tensor_parallel_columns):
    """The number of SUMMA's panels divides the width of the residual stream, and fits the rows and columns of the grid.

    A panel is the part of an operand that SUMMA multiplies at a time. The rows of the grid are a multiple of the
    panels, or the panels a multiple of the rows; the same holds for the columns.

    Source: van de Geijn and Watts, 1997 (SUMMA).
    """
    width_divides = (np.mod(dimensionality, summa_panels) == 0) & (np.mod(dimensionality, tensor_parallel_rows) == 0)
    rows = (np.mod(summa_panels, tensor_parallel_rows) == 0) | (np.mod(tensor_parallel_rows, summa_panels) == 0)
    columns = np.mod(summa_panels, tensor_parallel_columns) * np.mod(tensor_parallel_columns, summa_panels) == 0
    return width_divides & rows & columns & (np.mod(summa_panels, 1) == 0)


@quantity("boolean", constrains="flash_attention", **SUMMA_SCORES)
def scores_in_panels_are_written__summa(flash_attention):
    """Scores in panels are written to memory: where SUMMA computes the scores in parts, attention is not fused.

    Source: arXiv 2410.00273, section 3.
    """
    return flash_attention == 0


@quantity("boolean", constrains="grid_attention", **SUMMA_SCORES)
def scores_in_panels_need_summa__summa(activations_on_a_grid, context_parallel_degree):
    """SUMMA computes attention scores only with tensor_parallel_strategy 2d_summa, and without context parallelism.

    Source: arXiv 2410.00273, section 3.
    """
    return (activations_on_a_grid > 0) & (context_parallel_degree == 1)


@quantity("boolean", constrains="tensor_parallel_strategy", **SUMMA)
def grids_have_no_experts__2d_summa(number_of_MoE_layers):
    """SUMMA splits only dense feed-forward networks; the other tensor-parallel strategies have experts.

    Source: arXiv 2410.00273, section 3.
    """
    return number_of_MoE_layers == 0


@quantity("boolean", constrains="tensor_parallel_strategy")
def grids_have_no_latent_vectors(latent_projections, activations_on_a_grid):
    """SUMMA splits only ordinary projections; the other tensor-parallel strategies have multi-latent attention.

    Source: arXiv 2410.00273, section 3.
    """
    return (latent_projections == 0) | (activations_on_a_grid == 0)


@quantity("boolean", constrains="tensor_parallel_strategy", **INDEXED)
def grids_have_no_indexers(indexer_heads, activations_on_a_grid):
    """SUMMA splits only ordinary projections, and no indexers. Source: arXiv 2410.00273, section 3."""
    return (indexer_heads == 0) | (activations_on_a_grid == 0)
