"""What Triton's kernels for activations and norms in place compute, against what they must."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton.language as tl
from torch.nn import functional as F  # noqa: N812
from triton.runtime import interpreter

from amped.kernels.ladder import triton_fp8
from amped.kernels.ladder.fp8_cast import FORMATS, LARGEST, quantized
from amped.kernels.memory import in_place_activation as plain
from amped.kernels.memory import in_place_norm, triton_activation, triton_norm
from amped.kernels.memory.activation_functions import FUNCTIONS, middle_of_half
from amped.kernels.memory.bits import unpack_bits
from amped.kernels.tensor_layouts import triton_launch
from amped.kernels.tensor_layouts.fused import Choices


def activation(name: str, dtype: torch.dtype) -> float:
    """The largest error as a share of what is allowed; infinite where a bit is wrong."""
    torch.manual_seed(0)
    _let_the_interpreter_round()
    near = FUNCTIONS[name].minimum_input + torch.linspace(-0.02, 0.02, 95)
    x = torch.cat([2 * torch.randn(1100), near, torch.tensor([0.0, -0.0, -12.0, 40.0, 1.5])]).to(dtype)
    gradient = torch.randn(x.shape).to(dtype)
    y, packed = triton_activation.forward(x, name)
    other, bits = plain.activation_in_place(x, name)
    if packed.shape != bits.shape or not torch.equal(packed[0], bits[0]):
        return math.inf
    if len(packed) > 1 and not _in_its_half(FUNCTIONS[name].value(x.double()), y, packed[1]):
        return math.inf
    eps, shares = torch.finfo(dtype).eps, []
    for incoming, most in ((gradient, 4 * eps), (torch.ones(x.shape), 1e-5)):  # the second one's are not rounded
        mine, theirs = (f.backward(incoming, y, packed, name) for f in (triton_activation, _Plain))
        shares.append(_share(mine, theirs, most) if mine.dtype == theirs.dtype == incoming.dtype else math.inf)
    return max(_share(y, other, 2 * eps), *shares)


# Narrow formats that the interpreter does not round as accelerators do: it cuts fp32 off to bf16, and does not carry from
# the mantissa to the exponent of fp8. The names of torch's formats, and those of the bytes that hold them.
_NARROW = {tl.bfloat16: (torch.bfloat16, torch.int16, "uint16"), tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8, "uint8"),
           tl.float8e5: (torch.float8_e5m2, torch.uint8, "uint8")}  # fmt: skip


def _let_the_interpreter_round() -> None:
    """It rounds to the nearest as torch does: else, a bit that tells which way would be always the same."""
    builder = interpreter.InterpreterBuilder
    for name in ("cast_impl", "create_fp_to_fp"):
        if getattr(builder, name).__name__ != "rounded":
            setattr(builder, name, _rounding(getattr(builder, name)))


def _rounding(cut: Any) -> Any:
    def rounded(self: Any, source: Any, kind: Any, *how: Any) -> Any:
        if source.dtype.scalar != tl.float32 or kind.scalar not in _NARROW:
            return cut(self, source, kind, *how)
        dtype, raw, held = _NARROW[kind.scalar]
        narrow = torch.from_numpy(source.data.astype("float32")).to(dtype).view(raw).numpy()
        return interpreter.TensorHandle(narrow.view(held), kind.scalar)

    return rounded


def _in_its_half(exact: torch.Tensor, y: torch.Tensor, packed: torch.Tensor) -> bool:
    """Whether exact outputs are within a quarter of a unit in the last place of where the second bit says, and so for most
    entries not where it would say if it were another; a rounding of fp32 more, which is all that it may be decided by."""
    farther = unpack_bits(packed, y.shape)
    right, wrong = ((middle_of_half(y, half).double() - exact).abs() for half in (farther, ~farther))
    quarter = torch.finfo(y.dtype).eps / 4 * 2.0 ** (y.double().abs().frexp()[1] - 1)
    return bool((right <= quarter + 1e-6 * exact.abs() + 1e-40).all() and (wrong > quarter).double().mean() > 0.9)


class _Plain:
    backward = staticmethod(plain.activation_in_place_backward)


def _share(found: torch.Tensor, exact: torch.Tensor, relative: float) -> float:
    share = (found.double() - exact.double()).abs() / (1e-5 + relative * exact.double().abs())
    return float(share.nan_to_num(math.inf).max())


def cast_to_fp8(kind: str, dtype: torch.dtype) -> float:
    """The share of wrong entries; infinite where rows, columns and range do not belong together."""
    torch.manual_seed(0)
    _let_the_interpreter_round()
    x, scale = (3 * torch.randn(131, 70)).to(dtype), torch.tensor(37.0)
    x[0, 0], x[1, 1] = 1e6, math.nan
    rows, transposed, amax = triton_fp8.cast_both_ways(x, scale, LARGEST[kind], FORMATS[kind])
    exact = quantized(x, scale, kind)
    fits = torch.equal(transposed.view(torch.uint8), rows.view(torch.uint8).t()) and amax == x[x.isfinite()].abs().max()
    return float((rows.view(torch.uint8) != exact.view(torch.uint8)).float().mean()) if fits else math.inf


def zero_weight() -> float:
    """The largest difference to the reference of gradients with a weight of zero; infinite if one is not finite."""
    torch.manual_seed(0)
    x, gradient, weight, bias = torch.randn(5, 50), torch.randn(5, 50), torch.rand(50) + 0.5, torch.randn(50)
    weight[3] = 0
    y, scale = triton_norm.forward(x, weight, bias, 5, 1e-5, True)
    mine = triton_norm.backward(gradient, y, weight, bias, scale, True)
    theirs = in_place_norm._norm_backward(gradient, y, weight, bias, scale, True)
    pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if b is not None]
    return max(float((a - b).abs().nan_to_num(math.inf).max() / b.abs().max()) for a, b in pairs)


class Guarded:
    """Notes the tensors whose device is made the current one, as a launch must."""

    def __init__(self) -> None:
        self.seen = 0
        torch.cuda.device_of = self

    def __call__(self, tensor: torch.Tensor) -> AbstractContextManager[None]:
        self.seen += tensor.device.type == "cpu"
        return nullcontext()


def guarded() -> dict[str, int]:
    """How often each module of kernels made the device of a tensor the current one, in one forward and backward pass."""
    found, x = dict[str, int](), torch.randn(3, 50)
    y, scale = triton_norm.forward(x, None, None, 3, 1e-5, True)
    out, packed = triton_activation.forward(x, "gelu")
    calls: dict[str, list[Callable[[], Any]]] = {
        "norm": [lambda: triton_norm.forward(x, None, None, 3, 1e-5, True),
                 lambda: triton_norm.backward(x, y, None, None, scale, True)],
        "activation": [lambda: triton_activation.forward(x, "gelu"),
                       lambda: triton_activation.backward(x, out, packed, "gelu")],
        "layouts": [lambda: triton_launch.KERNELS["bei"](x, x, torch.empty_like(x), Choices())],
        "fp8": [lambda: triton_fp8.cast_both_ways(x, torch.tensor(1.0), 448.0, torch.float8_e4m3fn)],
    }  # fmt: skip
    for name, each in calls.items():
        guard = Guarded()
        for call in each:
            call()
        found[name] = guard.seen - len(each)
    return found


def far() -> float:
    """The largest difference of a sum whose last row lies three times 2³⁰ entries behind the first one."""
    storage = torch.empty((3 << 30) + 12, dtype=torch.uint8)  # most of it is never touched, and takes no memory
    views = [storage.as_strided((1, 1, 4, 4), (0, 0, 1 << 30, 1), start) for start in (0, 4, 8)]
    for number, view in enumerate(views):
        view.copy_(torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4) + number)
    triton_launch.KERNELS["bei"](*views, Choices())
    return float((views[2].int() - views[0].int() - views[1].int()).abs().max())


def norm(name: str) -> float:
    """The largest relative error of an output or a gradient of 5 rows of 50."""
    torch.manual_seed(0)
    x, gradient = torch.randn(5, 50) + 1, torch.randn(5, 50)
    centered, weighted = name != "rms", name != "layer without weights"
    weight = (0.5 + torch.rand(50)) if weighted else None
    bias = torch.randn(50) if weighted and centered else None
    leaves = [t.double().requires_grad_() for t in (x, weight, bias) if t is not None]
    wide = F.layer_norm(leaves[0], (50,), *leaves[1:]) if centered else F.rms_norm(leaves[0], (50,), leaves[1], 1e-5)
    exact = [wide, *torch.autograd.grad(wide, leaves, gradient.double())]
    y, scale = triton_norm.forward(x, weight, bias, 5, 1e-5, centered)
    found = [y, *triton_norm.backward(gradient, y, weight, bias, scale, centered)]
    return max(float((a.double() - b).norm() / b.norm()) for a, b in zip(found, exact, strict=False))
