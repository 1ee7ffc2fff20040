"""The fused kernels in Triton: one program for a tile of rows × columns of a four-dimensional strided view.

A pointer is followed by its four strides; `n1`, `rows` and `cols` are the lengths of all dimensions but the first. Sums are
in float32. Arithmetic as in `fused`, which is the reference.
"""

import triton
import triton.language as tl

SQRT_HALF = tl.constexpr(0.7071067811865476)
INVERSE_SQRT_TWO_PI = tl.constexpr(0.3989422804014327)


@triton.jit
def _tile(n1, rows, cols, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """Where this program's tile lies, and which of its elements exist."""
    pid = tl.program_id(0)
    blocks = tl.cdiv(rows, block_rows)
    outer = pid // blocks
    r = (pid % blocks) * block_rows + tl.arange(0, block_rows)[:, None]
    c = tl.program_id(1) * block_cols + tl.arange(0, block_cols)[None, :]
    return outer // n1, outer % n1, r, c, (r < rows) & (c < cols)


@triton.jit
def _load(x, s0, s1, s2, s3, o0, o1, r, c, inside):
    """A tile in float32; zero outside."""
    return tl.load(x + o0 * s0 + o1 * s1 + r * s2 + c * s3, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store(x, s0, s1, s2, s3, o0, o1, r, c, inside, value):
    """Writes a tile in the type of its tensor."""
    tl.store(x + o0 * s0 + o1 * s1 + r * s2 + c * s3, value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def softmax(
    x, x0, x1, x2, x3, m, m0, m1, m2, m3, k, k0, k1, k2, k3, y, y0, y1, y2, y3,
    n1, rows, cols, keep, dropped: tl.constexpr, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Softmax of whole rows, then dropout."""
    o0, o1, r, c, inside = _tile(n1, rows, cols, block_rows, block_cols)
    scores = tl.where(inside, _load(x, x0, x1, x2, x3, o0, o1, r, c, inside), -float("inf"))
    scores = tl.exp(scores - tl.where(r < rows, tl.max(scores, 1)[:, None], 0.0))
    value = scores / tl.where(r < rows, tl.sum(scores, 1)[:, None], 1.0)
    if dropped:
        _store(k, k0, k1, k2, k3, o0, o1, r, c, inside, value)
        value = value * _load(m, m0, m1, m2, m3, o0, o1, r, c, inside) / keep
    _store(y, y0, y1, y2, y3, o0, o1, r, c, inside, value)


@triton.jit
def bs(
    g, g0, g1, g2, g3, m, m0, m1, m2, m3, k, k0, k1, k2, k3, y, y0, y1, y2, y3,
    n1, rows, cols, keep, dropped: tl.constexpr, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Backward of softmax and dropout, of whole rows."""
    o0, o1, r, c, inside = _tile(n1, rows, cols, block_rows, block_cols)
    grad = _load(g, g0, g1, g2, g3, o0, o1, r, c, inside)
    if dropped:
        grad = grad * _load(m, m0, m1, m2, m3, o0, o1, r, c, inside) / keep
    alpha = _load(k, k0, k1, k2, k3, o0, o1, r, c, inside)
    weighted = alpha * grad
    _store(y, y0, y1, y2, y3, o0, o1, r, c, inside, weighted - alpha * tl.sum(weighted, 1)[:, None])


@triton.jit
def bdrln(
    x, x0, x1, x2, x3, b, b0, b1, b2, b3, e, e0, e1, e2, e3, w, w0, w1, w2, w3, h, h0, h1, h2, h3,
    m, m0, m1, m2, m3, y, y0, y1, y2, y3, u, u0, u1, u2, u3, d, d0, d1, d2, d3,
    n1, rows, cols, keep, epsilon, dropped: tl.constexpr, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Bias b, dropout m, residual e, then layer norm with scale w and shift h: output y, x̂ in u, 1/σ in d."""
    o0, o1, r, c, inside = _tile(n1, rows, cols, block_rows, block_cols)
    value = _load(x, x0, x1, x2, x3, o0, o1, r, c, inside) + _load(b, b0, b1, b2, b3, o0, o1, r, c, inside)
    if dropped:
        value = value * _load(m, m0, m1, m2, m3, o0, o1, r, c, inside) / keep
    value = value + _load(e, e0, e1, e2, e3, o0, o1, r, c, inside)
    mean = tl.sum(value, 1)[:, None] / cols
    centered = tl.where(inside, value - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centered * centered, 1)[:, None] / cols + epsilon)
    unit = centered * inverse
    first = c == 0
    _store(d, d0, d1, d2, d3, o0, o1, r, c, inside & first, inverse + tl.zeros_like(unit))
    _store(u, u0, u1, u2, u3, o0, o1, r, c, inside, unit)
    scale = _load(w, w0, w1, w2, w3, o0, o1, r, c, inside)
    shift = _load(h, h0, h1, h2, h3, o0, o1, r, c, inside)
    _store(y, y0, y1, y2, y3, o0, o1, r, c, inside, unit * scale + shift)


@triton.jit
def blnrd(
    g, g0, g1, g2, g3, u, u0, u1, u2, u3, d, d0, d1, d2, d3, m, m0, m1, m2, m3,
    e, e0, e1, e2, e3, y, y0, y1, y2, y3,
    n1, rows, cols, keep, dropped: tl.constexpr, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Backward of layer norm into e, and of dropout into y."""
    o0, o1, r, c, inside = _tile(n1, rows, cols, block_rows, block_cols)
    grad, unit = _load(g, g0, g1, g2, g3, o0, o1, r, c, inside), _load(u, u0, u1, u2, u3, o0, o1, r, c, inside)
    mean, slope = tl.sum(grad, 1)[:, None] / cols, tl.sum(grad * unit, 1)[:, None] / cols
    value = (grad - mean - unit * slope) * _load(d, d0, d1, d2, d3, o0, o1, r, c, inside)
    _store(e, e0, e1, e2, e3, o0, o1, r, c, inside, value)
    if dropped:
        value = value * _load(m, m0, m1, m2, m3, o0, o1, r, c, inside) / keep
    _store(y, y0, y1, y2, y3, o0, o1, r, c, inside, value)


@triton.jit
def added(
    x, x0, x1, x2, x3, e, e0, e1, e2, e3, y, y0, y1, y2, y3,
    n1, rows, cols, block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """The sum of two tensors."""
    o0, o1, r, c, inside = _tile(n1, rows, cols, block_rows, block_cols)
    value = _load(x, x0, x1, x2, x3, o0, o1, r, c, inside) + _load(e, e0, e1, e2, e3, o0, o1, r, c, inside)
    _store(y, y0, y1, y2, y3, o0, o1, r, c, inside, value)


@triton.jit
def bad(
    x, x0, x1, x2, x3, b, b0, b1, b2, b3, m, m0, m1, m2, m3, u, u0, u1, u2, u3, y, y0, y1, y2, y3,
    n1, rows, cols, keep, gelu: tl.constexpr, dropped: tl.constexpr,
    block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Bias b, activation and dropout; what the activation saw in u."""
    o0, o1, r, c, inside = _tile(n1, rows, cols, block_rows, block_cols)
    value = _load(x, x0, x1, x2, x3, o0, o1, r, c, inside) + _load(b, b0, b1, b2, b3, o0, o1, r, c, inside)
    _store(u, u0, u1, u2, u3, o0, o1, r, c, inside, value)
    value = 0.5 * value * (1.0 + tl.erf(value * SQRT_HALF)) if gelu else tl.maximum(value, 0.0)
    if dropped:
        value = value * _load(m, m0, m1, m2, m3, o0, o1, r, c, inside) / keep
    _store(y, y0, y1, y2, y3, o0, o1, r, c, inside, value)


@triton.jit
def bdrlb(
    g, g0, g1, g2, g3, m, m0, m1, m2, m3, u, u0, u1, u2, u3, y, y0, y1, y2, y3,
    n1, rows, cols, keep, gelu: tl.constexpr, dropped: tl.constexpr,
    block_rows: tl.constexpr, block_cols: tl.constexpr,
):  # fmt: skip
    """Backward of dropout and activation."""
    o0, o1, r, c, inside = _tile(n1, rows, cols, block_rows, block_cols)
    grad, value = _load(g, g0, g1, g2, g3, o0, o1, r, c, inside), _load(u, u0, u1, u2, u3, o0, o1, r, c, inside)
    if dropped:
        grad = grad * _load(m, m0, m1, m2, m3, o0, o1, r, c, inside) / keep
    if gelu:
        density = INVERSE_SQRT_TWO_PI * tl.exp(-0.5 * value * value)
        grad = grad * (0.5 * (1.0 + tl.erf(value * SQRT_HALF)) + value * density)
    else:
        grad = tl.where(value > 0, grad, 0.0)
    _store(y, y0, y1, y2, y3, o0, o1, r, c, inside, grad)
