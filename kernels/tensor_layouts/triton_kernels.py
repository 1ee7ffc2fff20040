"""The fused kernels in Triton: one program for a tile of rows × columns of a four-dimensional strided view.

A view is a tuple of a pointer and its four strides, or None for the mask if nothing is dropped; `n1`, `rows` and `cols`
are the lengths of all dimensions but the first. Sums are in float32. The arithmetic is that of `fused`, the reference.
"""

import triton
import triton.language as tl

from amped.kernels.memory.triton_norm import wide

SQRT_HALF = tl.constexpr(0.7071067811865476)
INVERSE_SQRT_TWO_PI = tl.constexpr(0.3989422804014327)


@triton.jit
def _tile(n1, rows, cols, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """The position of this program's tile in each of the four axes, and which of its elements exist.

    It returns indices of the first two axes, rows, columns, and a mask. `n1`, `rows` and `cols` are the lengths of the last three
    axes; `block_rows` and `block_cols` are the size of a tile.
    Positions are 64-bit numbers: scores of 32 sequences of 2048 tokens with 16 heads are more than 32 bits can count.
    """
    pid = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(rows, block_rows)
    outer = pid // blocks
    r = (pid % blocks) * block_rows + tl.arange(0, block_rows)[:, None]
    c = tl.program_id(1).to(tl.int64) * block_cols + tl.arange(0, block_cols)[None, :]
    return outer // n1, outer % n1, r, c, (r < rows) & (c < cols)


@triton.jit
def _places(view, tile):
    """The addresses of a tile's elements in a view."""
    return view[0] + tile[0] * view[1] + tile[1] * view[2] + tile[2] * view[3] + tile[3] * view[4]


@triton.jit
def _load(view, tile):
    """The elements of a tile in float32; elements that do not exist are zero."""
    return wide(_places(view, tile), tile[4])


@triton.jit
def _store(view, tile, value):
    """Writes a tile in the format of its tensor."""
    tl.store(_places(view, tile), value.to(view[0].dtype.element_ty), mask=tile[4])


@triton.jit
def _kept(value, mask, tile, keep):
    """A tile after dropout with this mask; without a mask, the tile itself."""
    if mask is not None:
        value = value * _load(mask, tile) / keep
    return value


@triton.jit
def softmax(x, mask, kept, y, n1, rows, cols, keep, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """Softmax of whole rows, then dropout."""
    tile = _tile(n1, rows, cols, block_rows, block_cols)
    exists = tile[2] < rows
    scores = tl.where(tile[4], _load(x, tile), -float("inf"))
    scores = tl.exp(scores - tl.where(exists, tl.max(scores, 1)[:, None], 0.0))
    value = scores / tl.where(exists, tl.sum(scores, 1)[:, None], 1.0)
    if mask is not None:
        _store(kept, tile, value)
    _store(y, tile, _kept(value, mask, tile, keep))


@triton.jit
def bs(g, mask, kept, y, n1, rows, cols, keep, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """Backward pass of softmax and dropout over whole rows."""
    tile = _tile(n1, rows, cols, block_rows, block_cols)
    grad = _kept(_load(g, tile), mask, tile, keep)
    alpha = _load(kept, tile)
    weighted = alpha * grad
    _store(y, tile, weighted - alpha * tl.sum(weighted, 1)[:, None])


@triton.jit
def bdrln(
    x, bias, residual, scale, shift, mask, normalized, inverse_deviation, y,
    n1, rows, cols, keep, epsilon, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Bias, dropout, residual connection, then layer norm."""
    tile = _tile(n1, rows, cols, block_rows, block_cols)
    value = _kept(_load(x, tile) + _load(bias, tile), mask, tile, keep) + _load(residual, tile)
    mean = tl.sum(value, 1)[:, None] / cols
    centered = tl.where(tile[4], value - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centered * centered, 1)[:, None] / cols + epsilon)
    unit = centered * inverse
    first = (tile[0], tile[1], tile[2], tile[3], tile[4] & (tile[3] == 0))  # Triton knows no * in a tuple
    _store(inverse_deviation, first, inverse + tl.zeros_like(unit))
    _store(normalized, tile, unit)
    _store(y, tile, unit * _load(scale, tile) + _load(shift, tile))


@triton.jit
def blnrd(
    g, normalized, inverse_deviation, mask, residual, y,
    n1, rows, cols, keep, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Backward pass of layer norm and then of dropout; `residual` gets the gradient before dropout."""
    tile = _tile(n1, rows, cols, block_rows, block_cols)
    grad, unit = _load(g, tile), _load(normalized, tile)
    mean, slope = tl.sum(grad, 1)[:, None] / cols, tl.sum(grad * unit, 1)[:, None] / cols
    value = (grad - mean - unit * slope) * _load(inverse_deviation, tile)
    _store(residual, tile, value)
    _store(y, tile, _kept(value, mask, tile, keep))


@triton.jit
def added(x, other, y, n1, rows, cols, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """The sum of two tensors."""
    tile = _tile(n1, rows, cols, block_rows, block_cols)
    _store(y, tile, _load(x, tile) + _load(other, tile))


@triton.jit
def bad(
    x, bias, mask, before, y,
    n1, rows, cols, keep, gelu: tl.constexpr, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Bias, activation and dropout; `before` gets the input of the activation, for the backward pass."""
    tile = _tile(n1, rows, cols, block_rows, block_cols)
    value = _load(x, tile) + _load(bias, tile)
    _store(before, tile, value)
    value = 0.5 * value * (1.0 + tl.erf(value * SQRT_HALF)) if gelu else tl.maximum(value, 0.0)
    _store(y, tile, _kept(value, mask, tile, keep))


@triton.jit
def bdrlb(
    g, mask, before, y,
    n1, rows, cols, keep, gelu: tl.constexpr, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Backward pass of dropout and activation."""
    tile = _tile(n1, rows, cols, block_rows, block_cols)
    grad, value = _kept(_load(g, tile), mask, tile, keep), _load(before, tile)
    if gelu:
        density = INVERSE_SQRT_TWO_PI * tl.exp(-0.5 * value * value)
        grad = grad * (0.5 * (1.0 + tl.erf(value * SQRT_HALF)) + value * density)
    else:
        grad = tl.where(value > 0, grad, 0.0)
    _store(y, tile, grad)
