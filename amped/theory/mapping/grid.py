"""The grid of tensor parallelism: rows share weights and heads, columns share the tokens of a sequence.

In one dimension (Megatron-LM) there is one column. `2d_context` holds a row's weights in every column; `2d_summa` cuts
weights and activations over the whole grid and multiplies them panel by panel (`messages/summa.py`).
"""

import numpy as np

from amped.theory.quantity import MAPPING, parameter, quantity, selector


@selector("1d", "2d_summa", "2d_context", category=MAPPING)
def tensor_parallel_strategy():
    """How accelerators share a layer: rows alone, a grid with SUMMA, or rows of weights and columns of tokens.

    Source: arXiv 1909.08053 (1d); arXiv 2410.00273, section 3 (2d_summa, 2d_context).
    """
    return "1d"


@parameter("boolean", category=MAPPING)
def sequence_parallel():
    """Whether norms and dropouts are split along the sequence over the tensor-parallel group.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return 0


@parameter("count", category=MAPPING)
def summa_panels():
    """Panels into which SUMMA cuts the depth of a product. Source: arXiv 2410.00273, section 3; its tool takes 4."""
    return 4


@selector("keys_gathered", "summa", category=MAPPING)
def grid_attention():
    """How a grid attends: rows share heads and columns gather keys and values, or scores go panel by panel too.

    Source: arXiv 2410.00273, section 3 (its tool's sa_2d_seqp and sa_2d).
    """
    return "keys_gathered"


@quantity("count", category=MAPPING)
def tensor_parallel_columns():
    """Columns of the grid, m2: shares of a sequence's tokens; 1 unless given. Source: arXiv 2410.00273, section 3."""
    return 1


@quantity("count", category=MAPPING, when_given=("tensor_parallel_rows",))
def tensor_parallel_columns__beside_rows(tensor_parallel_degree, tensor_parallel_rows):
    """Columns of the grid, where its rows are given. Source: definition."""
    return tensor_parallel_degree / tensor_parallel_rows


@quantity("count", category=MAPPING)
def tensor_parallel_rows(tensor_parallel_degree, tensor_parallel_columns):
    """Rows of the grid, m1: shares of weights, heads and hidden units. Source: arXiv 2410.00273, section 3."""
    return tensor_parallel_degree / tensor_parallel_columns


@quantity("count", category=MAPPING)
def intra_node_tensor_parallel_rows(tensor_parallel_rows, intra_node_tensor_parallel_degree):
    """Rows of the grid inside the node: what divides both them and the places of tensor parallelism there.

    Source: definition.
    """
    inside = np.gcd(tensor_parallel_rows.astype(np.int64), intra_node_tensor_parallel_degree.astype(np.int64))
    return inside.astype(np.float64)


@quantity("count")
def inter_node_tensor_parallel_rows(tensor_parallel_rows, intra_node_tensor_parallel_rows):
    """Nodes over which the rows of the grid spread. Source: definition."""
    return tensor_parallel_rows / intra_node_tensor_parallel_rows


@quantity("count")
def intra_node_tensor_parallel_columns(intra_node_tensor_parallel_degree, intra_node_tensor_parallel_rows):
    """Columns of the grid inside the node. Source: definition."""
    return intra_node_tensor_parallel_degree / intra_node_tensor_parallel_rows


@quantity("count")
def inter_node_tensor_parallel_columns(tensor_parallel_columns, intra_node_tensor_parallel_columns):
    """Nodes over which the columns of the grid spread. Source: definition."""
    return tensor_parallel_columns / intra_node_tensor_parallel_columns


@quantity("count")
def token_split_degree(context_parallel_degree, tensor_parallel_columns):
    """Shares of a sequence's tokens: context parallelism and the columns of the grid. Source: arXiv 2410.00273."""
    return context_parallel_degree * tensor_parallel_columns


@quantity("count")
def weight_split_degree(tensor_parallel_degree):
    """Shares of a layer's weights: all of the grid. Source: arXiv 1909.08053; arXiv 2410.00273, section 3."""
    return tensor_parallel_degree


@quantity("count", choice="tensor_parallel_strategy", value="2d_context")
def weight_split_degree__2d_context(tensor_parallel_rows):
    """Shares of a layer's weights: the rows of the grid. Source: arXiv 2410.00273, section 3."""
    return tensor_parallel_rows


@quantity("count")
def intra_node_weight_copies():
    """Columns of the grid inside the node that hold the same weights: one. Source: arXiv 1909.08053."""
    return 1


@quantity("count", choice="tensor_parallel_strategy", value="2d_context")
def intra_node_weight_copies__2d_context(intra_node_tensor_parallel_columns):
    """Columns of the grid inside the node that hold the same weights: all. Source: arXiv 2410.00273, section 3."""
    return intra_node_tensor_parallel_columns


@quantity("count")
def inter_node_weight_copies():
    """Nodes of the grid that hold the same weights: one. Source: arXiv 1909.08053."""
    return 1


@quantity("count", choice="tensor_parallel_strategy", value="2d_context")
def inter_node_weight_copies__2d_context(inter_node_tensor_parallel_columns):
    """Nodes of the grid that hold the same weights. Source: arXiv 2410.00273, section 3."""
    return inter_node_tensor_parallel_columns


@quantity("count")
def sequence_split_degree(sequence_parallel, tensor_parallel_rows):
    """Shares of an accelerator's tokens in norms, dropouts and residuals: the rows with sequence parallelism, else one.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return np.where(sequence_parallel > 0, tensor_parallel_rows, 1)


@quantity("count", choice="tensor_parallel_strategy", value="2d_summa")
def sequence_split_degree__2d_summa(tensor_parallel_rows):
    """Shares of an accelerator's residual stream: the rows, which cut its width and not its length.

    Source: arXiv 2410.00273, section 3. An entry's work and bytes are the same either way.
    """
    return tensor_parallel_rows


@quantity("count")
def input_width_split_degree(tensor_parallel_rows):
    """Shares of the heads and hidden units that a product behind them reads: the rows. Source: arXiv 1909.08053."""
    return tensor_parallel_rows


@quantity("count", choice="tensor_parallel_strategy", value="2d_summa")
def input_width_split_degree__2d_summa():
    """Shares of the heads and hidden units that a product behind them reads: one, all panels pass by.

    Source: arXiv 2410.00273, section 3.
    """
    return 1


@quantity("count")
def output_width_split_degree():
    """Shares of the width that a product behind heads or hidden units writes: one. Source: arXiv 1909.08053."""
    return 1


@quantity("count", choice="tensor_parallel_strategy", value="2d_summa")
def output_width_split_degree__2d_summa(tensor_parallel_rows):
    """Shares of the width that a product behind heads or hidden units writes: the rows.

    Source: arXiv 2410.00273, section 3.
    """
    return tensor_parallel_rows


@quantity("count")
def product_panels():
    """Panels in which the depth of a product with a weight comes: one. Source: arXiv 1909.08053."""
    return 1


@quantity("count", choice="tensor_parallel_strategy", value="2d_summa")
def product_panels__2d_summa(summa_panels):
    """Panels in which the depth of a product with a weight comes. Source: arXiv 2410.00273, section 3."""
    return summa_panels


@quantity("boolean")
def activations_on_a_grid():
    """Whether rows cut the width of activations and columns their tokens: no. Source: arXiv 1909.08053."""
    return 0


@quantity("boolean", choice="tensor_parallel_strategy", value="2d_summa")
def activations_on_a_grid__2d_summa():
    """Whether rows cut the width of activations and columns their tokens: yes. Source: arXiv 2410.00273, section 3."""
    return 1


@quantity("boolean", constrains="tensor_parallel_columns")
def the_grid_has_the_tensor_degree(tensor_parallel_rows, tensor_parallel_columns, tensor_parallel_degree):
    """Rows times columns of the grid are the tensor degree. Source: arXiv 2410.00273, section 3."""
    whole = (np.mod(tensor_parallel_rows, 1) == 0) & (np.mod(tensor_parallel_columns, 1) == 0)
    return whole & (tensor_parallel_rows * tensor_parallel_columns == tensor_parallel_degree)


@quantity("boolean", constrains="tensor_parallel_columns", choice="tensor_parallel_strategy", value="1d")
def one_dimension_has_one_column__1d(tensor_parallel_columns):
    """In one dimension the grid has one column; the other strategies have more. Source: arXiv 2410.00273, section 3."""
    return tensor_parallel_columns == 1


@quantity("boolean", constrains="intra_node_tensor_parallel_rows")
def the_node_holds_whole_rows_and_columns(
    tensor_parallel_rows,
    tensor_parallel_columns,
    intra_node_tensor_parallel_rows,
    inter_node_tensor_parallel_rows,
    intra_node_tensor_parallel_columns,
    inter_node_tensor_parallel_columns,
):
    """Rows and columns of the grid are whole inside the node and across nodes. Source: definition."""
    rows = np.mod(intra_node_tensor_parallel_rows, 1) + np.mod(inter_node_tensor_parallel_rows, 1)
    columns = np.mod(intra_node_tensor_parallel_columns, 1) + np.mod(inter_node_tensor_parallel_columns, 1)
    split = np.mod(tensor_parallel_rows, 1) + np.mod(tensor_parallel_columns, 1)
    return (rows + columns == 0) | (split > 0)
