"""Shampoo and SOAP: each weight matrix is preconditioned on both sides; Adam updates all else.

For an m × n matrix they keep two symmetric factors, G·Gᵀ (m × m) and Gᵀ·G (n × n), and a matrix as large as each of
them: Shampoo its inverse root, by which it multiplies the gradient; SOAP its eigenvectors, in whose basis it runs Adam.
For a side s with the other side o, Shampoo and SOAP multiply

    each step        2·s²·o (factor, product with the root)    4·s²·o (factor, three rotations)
    every f-th step  s³ for the root, and eigenvalues          3·s³, and a QR decomposition

They take the matrices that Muon takes, and share them out among replicas in the same way. Embedding, output head,
biases and norms are Adam's.
"""

import numpy as np

from amped.theory.language.quantity import family, quantity, records
from amped.theory.nouns.kernel_work import Traffic, operator
from amped.theory.nouns.parameter_classes import ADAPTERS, EXPERT_ADAPTERS, EXPERTS
from amped.theory.nouns.records import MATRICES, Gemm, total
from amped.theory.nouns.stage_records import Held

NAMES = ("shampoo", "soap")
# The classes of the matrices, and whether they are those of routed experts.
OF_BOTH = ((MATRICES, False), (EXPERTS, True), (ADAPTERS, False), (EXPERT_ADAPTERS, True))
# Multiples of s²·o in each step, and of s³ when roots or eigenvectors are taken again.
PRODUCTS_OF_A_STEP, PRODUCTS_OF_A_REFRESH = {"shampoo": 2, "soap": 4}, {"shampoo": 1, "soap": 3}
# FLOPs of a decomposition as a multiple of s³: symmetric eigenvalues with vectors; QR with its orthogonal matrix.
DECOMPOSITION = {"shampoo": 9, "soap": 8 / 3}
# The matrices of the size of a factor that are kept for each side.
KEPT_SQUARES = 2


# --- sides -----------------------------------------------------------------------------------------------------------


def soap_sides(name, m, n, count, longest):
    """Both sides of matrices of one shape, each with the other one; a side that is too long is left out.

    Args:
        name: the name of the matrices.
        m: one side of them.
        n: their other side.
        count: their number.
        longest: the longest side that is preconditioned.

    Source: nikhilvyas/SOAP, soap.py (init_preconditioner).
    """
    return tuple(Gemm(name, s, o, s, count=count * (s <= longest)) for s, o in ((m, n), (n, m)))


def shampoo_sides(name, m, n, count, longest):
    """Both sides of the blocks into which matrices of one shape are cut.

    The last block of a side counts as its share of a whole one.

    Args:
        name: the name of the matrices.
        m: one side of them.
        n: their other side.
        count: their number.
        longest: the longest side of a block.

    Source: arXiv 2309.06497, section 3.1 (blocking).
    """
    rows, columns = (np.clip(side, 1, longest) for side in (m, n))
    blocks = count * (m / rows) * (n / columns)
    return tuple(Gemm(name, s, o, s, count=blocks) for s, o in ((rows, columns), (columns, rows)))


SIDES = {"shampoo": shampoo_sides, "soap": soap_sides}


# --- states ----------------------------------------------------------------------------------------------------------


@family(named=("optimizer_states_per_parameter__shampoo", "optimizer_states_per_parameter__soap"), NAME=NAMES)
@quantity("count", choice="optimizer", value="NAME")
def optimizer_states_per_parameter__NAME(adam_moments_per_parameter, full_precision_copies):
    """The values that the update reads for a parameter: both moments, and the copy in full precision if there is one.

    Shampoo keeps a momentum, and a second moment for the length of its update (grafting).

    Source: arXiv 2309.06497, section 3 (grafting); arXiv 2409.11321, algorithm 3.
    """
    return adam_moments_per_parameter + full_precision_copies


@family(named=("optimizer_states_by_class__shampoo", "optimizer_states_by_class__soap"), NAME=NAMES)
@records(choice="optimizer", value="NAME")
def optimizer_states_by_class__NAME(
    parameter_classes,
    optimizer_bytes_per_parameter,
    weight_matrices,
    largest_preconditioner_side,
    optimizer_state_precision,
    *,
    name,
):
    """The bytes of the optimizer states of one parameter of each class, unsharded: those of Adam, and the factors.

        bytes of the factors = 2·(m² + n²) / (m·n) · precision of states, averaged over the matrices of a class

    Source: arXiv 2409.11321, section 7.2 (2·m² + 2·n² + 2·m·n); arXiv 2309.06497, section 3.
    """
    factors = {
        weights: entries_per_parameter(
            [m for m in weight_matrices if m.routed == is_routed], SIDES[name], largest_preconditioner_side
        )
        * optimizer_state_precision
        for weights, is_routed in OF_BOTH
    }
    return tuple(
        Held(c.name, c.changes * (optimizer_bytes_per_parameter + factors.get(c.name, 0.0))) for c in parameter_classes
    )


def entries_per_parameter(matrices, sides, longest):
    """The entries of the factors of some matrices, and of as many roots or eigenvectors, for one parameter of them.

    Args:
        matrices: the matrices, as tensor parallelism cuts them.
        sides: the function that gives the sides of a matrix.
        longest: the longest side of a factor.

    Source: arXiv 2409.11321, algorithm 3.
    """
    cut = [(m.name, m.whole, m.cut / m.shares, m.count) for m in matrices]
    entries = total(KEPT_SQUARES * side.m * side.m * side.count for shape in cut for side in sides(*shape, longest))
    return entries / np.maximum(total(m * n * count for _, m, n, count in cut), 1)


# --- products --------------------------------------------------------------------------------------------------------


@family(named=("optimizer_products__shampoo", "optimizer_products__soap"), NAME=NAMES)
@records(choice="optimizer", value="NAME")
def optimizer_products__NAME(
    orthogonalized_matrices,
    largest_preconditioner_side,
    preconditioner_refresh_steps,
    preconditioner_rate_fraction,
    decomposition_rate_fraction,
    optimizer_state_precision,
    entry_costs,
    *,
    name,
):
    """The products and decompositions of an optimizer step, averaged over steps with and without a refresh.

    They run in fp32. Their FLOPs are those of products in 16 bits that take as long.

    Source: arXiv 2409.11321, algorithms 3 and 4; nikhilvyas/SOAP, soap.py (project, get_orthogonal_matrix_QR); arXiv
    2309.06497, section 3; Golub and Van Loan, Matrix Computations, sections 5.2 and 8.3 (FLOPs of decompositions).
    """
    (cost,), state, kernels = entry_costs, optimizer_state_precision, []
    product, refreshes = cost.product / preconditioner_rate_fraction, 1 / preconditioner_refresh_steps
    longest, sides_of = largest_preconditioner_side, SIDES[name]
    for side in (s for x in orthogonalized_matrices for s in sides_of(x.name, x.m, x.n, x.count, longest)):
        square, gradient = side.m * side.m, side.m * side.n
        step = Traffic(square * side.n * product, (square + gradient) * state, gradient * state)
        refresh = Traffic(square * side.m * product, 2 * square * state, square * state)
        decomposed = DECOMPOSITION[name] * square * side.m * cost.flop / decomposition_rate_fraction
        shape, calls = (side.m, side.n, side.m, 1.0), side.count * PRODUCTS_OF_A_STEP[name]
        again, cube = side.count * refreshes, (side.m, side.m, side.m, 1.0)
        work = Traffic(decomposed, square * state, square * state)
        rows = (
            ("factor", shape, step, calls),
            ("refresh", cube, refresh, again * PRODUCTS_OF_A_REFRESH[name]),
            ("decomposition", cube, work, again),
        )
        kernels += [
            operator(f"{side.name}_{kernel}", "batched_contraction", "update", sizes, traffic, count=count)
            for kernel, sizes, traffic, count in rows
        ]
    return tuple(kernels)


# --- rules -----------------------------------------------------------------------------------------------------------


@family(
    named=("preconditioners_stay_on_the_accelerator__shampoo", "preconditioners_stay_on_the_accelerator__soap"),
    NAME=NAMES,
)
@quantity("boolean", constrains="optimizer_offload", choice="optimizer", value="NAME")
def preconditioners_stay_on_the_accelerator__NAME(optimizer_offload):
    """The states are not offloaded: the host is too slow for the products. Source: definition."""
    return optimizer_offload == 0


@family(named=("preconditioners_have_no_grids__shampoo", "preconditioners_have_no_grids__soap"), NAME=NAMES)
@quantity("boolean", constrains="tensor_parallel_strategy", choice="optimizer", value="NAME")
def preconditioners_have_no_grids__NAME(tensor_parallel_columns):
    """The matrices are cut along one side: not by a grid of tensor parallelism. Source: arXiv 2309.06497, section 4."""
    return tensor_parallel_columns == 1
