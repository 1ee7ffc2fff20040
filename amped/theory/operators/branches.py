"""Branches: small products beside the blocks of a layer, through which each token passes once.

They are gates and norms of a low rank, adapters, a router in several layers, the embedding of each layer. A network
says how many weights they have together (`branch_weights`), and how many entries of a token their kernels read and
write (`branch_values`). Tensor parallelism splits their products; messages between the two products of a branch are
left out.
"""

import numpy as np

from amped.theory.language.quantity import records
from amped.theory.nouns.kernel_work import Traffic, Work, contraction, streamed
from amped.theory.nouns.layer_kinds import IN_BRANCHES
from amped.theory.nouns.places import PROJECTION_INPUTS
from amped.theory.nouns.records import Gemm

# Half of the entries of a branch are read forward, the others are written. Backward, an entry that was read is read
# again, the gradient of one that was written is read, and the gradient of one that was read is written.
PASSED = Work(Traffic(1, read=0.5, written=0.5), Traffic(2, read=1, written=0.5), kept=0.5)


@records(when_given=("branch_weights",))
def branch_gemms__branched(microbatch_tokens, dimensionality, branch_parameters, tensor_parallel_rows):
    """The products of the branches of an average layer, as one that has the residual stream on its long side.

    Source: definition (two operations for each weight and token). Differs: they are several small products.
    """
    width = branch_parameters / dimensionality / tensor_parallel_rows
    return (Gemm("branches", microbatch_tokens, width, dimensionality),)


@records(when_given=("branch_weights",))
def branch_operators__branched(
    microbatch_tokens, branch_gemms, branch_values, layers, tensor_parallel_rows, entry_costs
):
    """The products of the branches of an average layer, which read what other products keep, and their other kernels.

    Branches without weights have kernels alone; their product is counted zero times.

    Source: definition.
    """
    (cost,), (product,) = entry_costs, branch_gemms
    sides, multiplies = product.having(n=np.maximum(product.n, 1)), 1.0 * (product.n > 0)
    width = branch_values / layers / tensor_parallel_rows
    work = cost.of(PASSED, microbatch_tokens * width)
    passing = ("branch_values", "element_wise", microbatch_tokens, width, work)
    return (
        *contraction(sides, cost, count=multiplies, after=PROJECTION_INPUTS, part=IN_BRANCHES),
        *streamed(*passing, after=("branches",), part=IN_BRANCHES),
    )
