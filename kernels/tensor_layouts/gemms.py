"""All choices of layouts in which a contraction is one strided-batched GEMM.

A layout is the sequence of a tensor's letters, the outermost first. Source: Ivanov et al. 2021, section 4.2, and their
generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from math import prod

from amped.kernels.tensor_layouts.spec import Operator, Sizes

Letters = frozenset[str]


@dataclass(frozen=True)
class GemmCall:
    """A call of a strided-batched GEMM in column-major (BLAS) terms; strides between batches in elements."""

    m: int
    n: int
    k: int
    batch: int
    transpose_a: bool
    transpose_b: bool
    lda: int
    ldb: int
    ldc: int
    stride_a: int
    stride_b: int
    stride_c: int


@dataclass(frozen=True)
class Roles:
    """The letters of a contraction, by their roles in the GEMM."""

    batch: Letters
    m: Letters
    n: Letters
    k: Letters

    @property
    def of_tensors(self) -> tuple[tuple[Letters, Letters], ...]:
        """The letters of the two matrix axes of each tensor: A, B and C."""
        return (self.m, self.k), (self.k, self.n), (self.m, self.n)


def terms(einsum: str) -> list[str]:
    """The letters of each of the three tensors of a contraction."""
    return einsum.replace("->", ",").split(",")


@cache
def roles(einsum: str) -> Roles:
    """The roles of letters: batch letters are in all tensors, k is summed over, m is in A only, n in B only."""
    first, second, out = map(frozenset, terms(einsum))
    return Roles(first & second & out, (first & out) - second, (second & out) - first, (first & second) - out)


def _contiguous(layout: str, letters: Letters) -> str | None:
    """These letters in the order of a layout; None if they are not adjacent in it."""
    places = [place for place, letter in enumerate(layout) if letter in letters]
    if places and places[-1] - places[0] + 1 != len(places):
        return None
    return "".join(layout[place] for place in places)


def is_one_gemm(einsum: str, layouts: Sequence[str]) -> bool:
    """Whether a contraction with these layouts is one GEMM.

    The letters of each role must be adjacent in each tensor and have one order in all tensors, and no batch letter may
    be innermost.
    """
    orders: dict[Letters, str] = {}
    letter_roles = roles(einsum)
    for layout, classes in zip(layouts, letter_roles.of_tensors, strict=True):
        for letters in (letter_roles.batch, *classes):
            order = _contiguous(layout, letters)
            if order is None or orders.setdefault(letters, order) != order:
                return False
        if layout[-1] in letter_roles.batch:
            return False
    return True


def stride_of(layout: str, letters: Letters | str, sizes: Sizes) -> int:
    """The stride (in elements) of an axis made of adjacent letters: the product of all sizes inside of it; 0 without letters."""
    places = [place for place, letter in enumerate(layout) if letter in letters]
    return prod(sizes[letter] for letter in layout[places[-1] + 1 :]) if places else 0


def gemm_call(einsum: str, layouts: Sequence[str], sizes: Sizes) -> GemmCall:
    """The GEMM of a contraction with layouts that `is_one_gemm` allows.

    A and B change places if the innermost letter of the output has the role n.
    """
    letter_roles = roles(einsum)
    m, n, k, batch = letter_roles.m, letter_roles.n, letter_roles.k, letter_roles.batch
    a, b, c = layouts
    if c[-1] in n:  # in column-major order, the first dimension has unit stride
        m, n, a, b = n, m, b, a
    transpose_a, transpose_b = a[-1] in k, b[-1] not in k

    def extent(letters: Letters) -> int:
        return prod(sizes[letter] for letter in letters)

    return GemmCall(
        m=extent(m), n=extent(n), k=extent(k), batch=extent(batch),
        transpose_a=transpose_a, transpose_b=transpose_b,
        lda=stride_of(a, m if transpose_a else k, sizes), ldb=stride_of(b, k if transpose_b else n, sizes),
        ldc=stride_of(c, n, sizes), stride_a=stride_of(a, batch, sizes), stride_b=stride_of(b, batch, sizes),
        stride_c=stride_of(c, batch, sizes),
    )  # fmt: skip


@cache
def _valid(einsum: str) -> tuple[tuple[str, ...], ...]:
    """All layouts of the three tensors of a contraction in which it is one GEMM."""
    letter_roles = roles(einsum)
    layouts_by_tensor = []
    for term, classes in zip(terms(einsum), letter_roles.of_tensors, strict=True):
        orders = ("".join(letters) for letters in permutations(term))
        fits = (layout for layout in orders if layout[-1] not in letter_roles.batch)
        layouts_by_tensor.append(
            [
                lay
                for lay in fits
                if all(_contiguous(lay, group) is not None for group in (letter_roles.batch, *classes))
            ]
        )
    return tuple(layouts for layouts in product(*layouts_by_tensor) if is_one_gemm(einsum, layouts))


def gemm_layouts(operator: Operator) -> tuple[dict[str, str], ...]:
    """All choices of layouts, by tensor, in which an operator's contraction is one GEMM."""
    return tuple(dict(zip(operator.tensors, layouts, strict=True)) for layouts in _valid(operator.einsum))
