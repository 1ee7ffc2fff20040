"""The grid of tensor parallelism: rows share weights and heads, columns share the tokens of a sequence.

One-dimensional tensor parallelism (Megatron-LM) has one column. The strategy `2d_context` holds the weights of a row in
every column. The strategy `2d_summa` splits weights and activations over the whole grid and multiplies them panel by
panel (`messages/summa.py`).
"""

import numpy as np

from amped.theory.language.quantity import MAPPING, each_of, quantity
from amped.theory.nouns.divisors import common_divisor
from amped.theory.nouns.parallelisms import OF_TOKENS
from amped.theory.nouns.records import product


@quantity("count", category=MAPPING, when_given=("tensor_parallel_rows",))
def tensor_parallel_columns__beside_rows(tensor_parallel_degree, tensor_parallel_rows):
    """The number of columns of the tensor-parallel grid, if the number of rows is given. Source: definition."""
    return tensor_parallel_degree / tensor_parallel_rows


@quantity("count", category=MAPPING)
def tensor_parallel_rows(tensor_parallel_degree, tensor_parallel_columns):
    """The number of rows of the tensor-parallel grid. The rows split weights, heads and hidden units.

    Source: arXiv 2410.00273, section 3.
    """
    return tensor_parallel_degree / tensor_parallel_columns


@quantity("count", category=MAPPING)
def intra_node_tensor_parallel_rows(tensor_parallel_rows, intra_node_tensor_parallel_degree):
    """The number of rows of the grid inside the node.

    It is the greatest common divisor of the rows and of the tensor-parallel degree inside the node. Source: definition.
    """
    return common_divisor(tensor_parallel_rows, intra_node_tensor_parallel_degree)


@quantity("count")
def inter_node_tensor_parallel_rows(tensor_parallel_rows, intra_node_tensor_parallel_rows):
    """The number of nodes over which the rows of the grid spread. Source: definition."""
    return tensor_parallel_rows / intra_node_tensor_parallel_rows


@quantity("count")
def intra_node_tensor_parallel_columns(intra_node_tensor_parallel_degree, intra_node_tensor_parallel_rows):
    """The number of columns of the grid inside the node. Source: definition."""
    return intra_node_tensor_parallel_degree / intra_node_tensor_parallel_rows


@quantity("count")
def inter_node_tensor_parallel_columns(tensor_parallel_columns, intra_node_tensor_parallel_columns):
    """The number of nodes over which the columns of the grid spread. Source: definition."""
    return tensor_parallel_columns / intra_node_tensor_parallel_columns


@each_of(KIND=OF_TOKENS)
@quantity("count")
def token_split_degree(KIND_parallel_degree, tensor_parallel_columns):
    """The number of shares of a sequence's tokens: the context-parallel degree times the columns of the tensor grid.

    Source: arXiv 2410.00273, section 3.
    """
    return product(KIND_parallel_degree) * tensor_parallel_columns


@quantity("count")
def sequence_split_degree(sequence_parallel, tensor_parallel_rows):
    """The number of shares into which norms, dropouts and residual additions split an accelerator's tokens.

    With sequence parallelism it is the number of rows of the tensor-parallel grid, else 1.

    Source: arXiv 2205.05198, section 4.2.2.
    """
    return np.where(sequence_parallel > 0, tensor_parallel_rows, 1)


@quantity("boolean", constrains="tensor_parallel_columns")
def the_grid_has_the_tensor_degree(tensor_parallel_rows, tensor_parallel_columns, tensor_parallel_degree):
    """The rows times the columns of the grid are the tensor-parallel degree; both are whole numbers.

    Source: arXiv 2410.00273, section 3.
    """
    are_whole = (np.mod(tensor_parallel_rows, 1) == 0) & (np.mod(tensor_parallel_columns, 1) == 0)
    return are_whole & (tensor_parallel_rows * tensor_parallel_columns == tensor_parallel_degree)


@quantity("boolean", constrains="tensor_parallel_columns", choice="tensor_parallel_strategy", value="1d")
def one_dimension_has_one_column__1d(tensor_parallel_columns):
    """In one dimension the grid has one column; the other tensor-parallel strategies may have more columns.

    Source: arXiv 2410.00273, section 3.
    """
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
    """The numbers of rows and columns of the grid, inside the node and across nodes, are whole. Source: definition."""
    rows = np.mod(intra_node_tensor_parallel_rows, 1) + np.mod(inter_node_tensor_parallel_rows, 1)
    columns = np.mod(intra_node_tensor_parallel_columns, 1) + np.mod(inter_node_tensor_parallel_columns, 1)
    split = np.mod(tensor_parallel_rows, 1) + np.mod(tensor_parallel_columns, 1)
    return (rows + columns == 0) | (split > 0)
