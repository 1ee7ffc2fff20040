"""Kernels as torch runs them: each is a function without arguments for one call; its outputs are allocated beforehand.

Tensors hold normal deviates times one half, from a fixed seed: with zeros, a device draws less power and is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from amped.kernels.specs import KernelSpec, masked
from amped.kernels.timing import Call
from amped.kernels.torch_import import torch

F: Any = torch.nn.functional
SEED, SCALE = 0, 0.5
Made = tuple[Call, str]
# The backends of scaled_dot_product_attention, with their names in torch.
BACKENDS = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION", "math": "MATH"}


class Maker:
    """Makes the tensors of kernels on a device; the same seed makes them equal in each run."""

    def __init__(self, device: str, dtype: str) -> None:
        self.device, self.dtype = device, getattr(torch, "bfloat16" if dtype.startswith("float8") else dtype)
        self.generator = torch.Generator(device=device).manual_seed(SEED)

    def normal(self, *shape: int, grad: bool = False) -> Any:
        """Normal deviates times one half."""
        return self.empty(*shape).normal_(0.0, SCALE, generator=self.generator).requires_grad_(grad)

    def matrix(self, p: Any, grad: bool = False) -> Any:
        """Normal deviates in a matrix of the sizes `rows` and `columns` of `p`."""
        return self.normal(p["rows"], p["columns"], grad=grad)

    def empty(self, *shape: int, dtype: Any = None) -> Any:
        """A tensor for a result, whose entries are not set."""
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.device)

    def whole(self, below: int, *shape: int) -> Any:
        """Uniformly distributed whole numbers from 0 to `below` - 1."""
        return torch.randint(0, below, shape, device=self.device, generator=self.generator)

    def one_pass(self, function: Callable[..., Any], inputs: tuple[Any, ...], name: str, backward: bool) -> Made:
        """The call of a function's forward pass, or of its backward pass alone, and the name of its implementation.

        The backward pass is that of autograd, for the inputs that need gradients.
        """
        if not backward:
            return torch.no_grad()(lambda: function(*inputs)), name
        y, leaves = function(*inputs), [tensor for tensor in inputs if tensor.requires_grad]
        gradient, grad = self.normal(*y.shape), torch.autograd.grad
        return (lambda: grad(y, leaves, gradient, retain_graph=True, allow_unused=True)), f"{name}, autograd"


def built(spec: KernelSpec, device: str) -> Made:
    """The call of a kernel, and the name of its implementation."""
    return BUILDERS[spec.kernel](Maker(device, spec.dtype), spec.params)


def _launch(make: Maker, p: Any) -> Made:
    """An addition of one entry: its time is the overhead of a call."""
    one, two = make.normal(1), make.normal(1)
    return (lambda: torch.add(one, two, out=one)), f"torch.add of one entry, {p['mode']}"


def _streamed(
    call: Callable[..., Any], name: str, inputs: int = 1, dtype: Any = None
) -> Callable[[Maker, Any], Made]:  # fmt: skip
    """A builder of a kernel that writes its result into a matrix made beforehand.

    - `call`: a function of the result and of the input matrices.
    - `inputs`: the number of input matrices.
    - `dtype`: the format of the result, if it is another one.
    """

    def build(make: Maker, p: Any) -> Made:
        matrices = [make.matrix(p) for _ in range(inputs)]
        return partial(call, make.empty(p["rows"], p["columns"], dtype=dtype), *matrices), name

    return build


def _gemm(make: Maker, p: Any) -> Made:
    """The product of an m × k and a k × n matrix; `layout` tells how they are stored.

    TN stores the right one as n × k (a weight), NN stores both row by row, NT stores the left one as k × m (a gradient
    of a weight).
    """
    m, n, k, layout = p["m"], p["n"], p["k"], p["layout"]
    if p["batch"] > 1:
        return _batched(make, p)
    left = make.normal(k, m).t() if layout == "NT" else make.normal(m, k)
    right = make.normal(n, k).t() if layout == "TN" else make.normal(k, n)
    out = make.empty(m, n)
    return (lambda: torch.mm(left, right, out=out)), "torch.mm"


def _batched(make: Maker, p: Any) -> Made:
    left, right = make.normal(p["batch"], p["m"], p["k"]), make.normal(p["batch"], p["k"], p["n"])
    out = make.empty(p["batch"], p["m"], p["n"])
    return (lambda: torch.bmm(left, right, out=out)), "torch.bmm"


def _grouped(make: Maker, p: Any) -> Made:
    """The products of experts with consecutive rows; if `uneven`, an expert has from half of m to one and a half of m rows.

    Raises:
        NotImplementedError: on a GPU, if torch has no grouped kernel in this format: products launched one by one would
            take the host's time.
    """
    count, mean_rows = p["batch"], p["m"]
    group_rows = [
        mean_rows + (round(mean_rows * (i / max(count - 1, 1) - 0.5)) if p["uneven"] else 0) for i in range(count)
    ]
    has_grouped_kernel = hasattr(torch, "_grouped_mm") and make.dtype == torch.bfloat16
    if make.device == "cuda" and not has_grouped_kernel:
        raise NotImplementedError(f"torch {torch.__version__} has no grouped product of {make.dtype}")
    inputs, weights = make.normal(sum(group_rows), p["k"]), make.normal(count, p["k"], p["n"])
    if make.device == "cuda":
        return grouped_call(inputs, weights, group_rows), "torch._grouped_mm"
    mm, parts, out = torch.mm, inputs.split(group_rows), make.empty(sum(group_rows), p["n"]).split(group_rows)

    def call() -> None:
        for i in range(count):
            mm(parts[i], weights[i], out=out[i])

    return call, "torch.mm of each group"


def grouped_call(inputs: Any, weights: Any, steps: list[int]) -> Call:
    """All products of groups as one kernel; `steps` are the rows of each group."""
    ends = torch.tensor(steps, dtype=torch.int32, device=inputs.device).cumsum(0, dtype=torch.int32)
    return lambda: torch._grouped_mm(inputs, weights, offs=ends)


def _fp8_gemm(make: Maker, p: Any) -> Made:
    left, right = (make.normal(p[rows], p["k"]).to(torch.float8_e4m3fn) for rows in ("m", "n"))
    one = torch.ones((), device=make.device)

    def call() -> Any:
        return torch._scaled_mm(
            left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return call, "torch._scaled_mm"


def _attention(make: Maker, p: Any) -> Made:
    """One call of scaled_dot_product_attention, or of its backward pass only."""
    backward = p["direction"] == "backward"
    query_sizes, key_sizes = (p["batch"], p["heads"]), (p["batch"], p["key_value_heads"])
    query = make.normal(*query_sizes, p["queries"], p["head_dimension"], grad=backward)
    key, value = (make.normal(*key_sizes, p["keys"], p["head_dimension"], grad=backward) for _ in range(2))

    def forward(query: Any, key: Any, value: Any) -> Any:
        with _backend(p["backend"]):
            return F.scaled_dot_product_attention(
                query, key, value, dropout_p=p["dropout"], is_causal=masked(p), enable_gqa=query_sizes != key_sizes
            )

    return make.one_pass(forward, (query, key, value), f"F.scaled_dot_product_attention, {p['backend']}", backward)


def _backend(name: str) -> Any:
    """A context in which torch uses the named backend; for "default", torch chooses."""
    if name == "default":
        return nullcontext()
    return torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, BACKENDS[name]))


def _rowwise(function: Callable[[Any, Any], Any], name: str, backward: bool = False) -> Callable[[Maker, Any], Made]:
    """A builder of a function of a matrix and of a vector as wide as its rows, for one of its passes."""

    def build(make: Maker, p: Any) -> Made:
        x, vector = make.matrix(p, grad=backward), make.normal(p["columns"], grad=backward)
        return make.one_pass(function, (x, vector), name, backward)

    return build


def _embedding(make: Maker, p: Any, backward: bool = False) -> Made:
    table, words = make.normal(p["vocabulary"], p["columns"]), make.whole(p["vocabulary"], p["rows"])
    rows = make.matrix(p)
    if backward:
        return (lambda: table.index_add_(0, words, rows)), "Tensor.index_add_"
    return (lambda: torch.index_select(table, 0, words, out=rows)), "torch.index_select"


def _cross_entropy(make: Maker, p: Any, backward: bool = False) -> Made:
    logits, words = make.matrix(p, grad=backward), make.whole(p["columns"], p["rows"])
    return make.one_pass(F.cross_entropy, (logits, words), "F.cross_entropy", backward)


def _adamw(make: Maker, p: Any) -> Made:
    weights = make.normal(p["parameters"], grad=True)
    weights.grad = make.normal(p["parameters"])
    implementation = p["implementation"]
    optimizer = torch.optim.AdamW([weights], foreach=implementation == "foreach", fused=implementation == "fused")
    return optimizer.step, f"torch.optim.AdamW, {implementation}"


def _gelu(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


# Functions of rows and of a vector as wide, by kernel, with what they call; and those that are measured backward, too.
ROWWISE: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "softmax": (lambda x, _: x.softmax(-1), "Tensor.softmax"),
    "layer_norm": (lambda x, v: F.layer_norm(x, v.shape, v, v), "F.layer_norm"),
    "rms_norm": (lambda x, v: F.rms_norm(x, v.shape, v), "F.rms_norm"),
    "gelu": (lambda x, _: _gelu(x), "F.gelu, tanh"),
    "dropout": (lambda x, _: F.dropout(x, 0.1), "F.dropout"),
    "bias_gelu_dropout": (lambda x, v: F.dropout(_gelu(x + v), 0.1), "bias, F.gelu, F.dropout, eager"),
}
BACKWARD = ("softmax", "layer_norm", "rms_norm", "gelu")
BUILDERS: dict[str, Callable[[Maker, Any], Made]] = {
    "launch": _launch,
    "copy": _streamed(lambda y, x: y.copy_(x), "Tensor.copy_"),
    "read": _streamed(lambda _, x: torch.sum(x), "torch.sum"),
    "write": _streamed(lambda y: y.fill_(1.0), "Tensor.fill_", 0),
    "add": _streamed(lambda y, x, other: torch.add(x, other, out=y), "torch.add", 2),
    "gemm": _gemm,
    "batched_gemm": _batched,
    "grouped_gemm": _grouped,
    "fp8_gemm": _fp8_gemm,
    "fp8_cast": _streamed(lambda y, x: y.copy_(x), "Tensor.copy_ to float8_e4m3fn", dtype=torch.float8_e4m3fn),
    "attention": _attention,
    **{name: _rowwise(*function) for name, function in ROWWISE.items()},
    **{f"{name}_backward": _rowwise(*ROWWISE[name], backward=True) for name in BACKWARD},
    "swiglu": _streamed(lambda y, gate, up: torch.mul(F.silu(gate), up, out=y), "F.silu, torch.mul", 2),
    "embedding": _embedding,
    "embedding_backward": partial(_embedding, backward=True),
    "cross_entropy": _cross_entropy,
    "cross_entropy_backward": partial(_cross_entropy, backward=True),
    "adamw": _adamw,
}
