"""Compiles Triton's kernels for a GPU that is not there, down to its machine code: nothing is launched."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from amped.kernels.ladder import triton_fp8
from amped.kernels.ladder.fp8_cast import FORMATS, LARGEST
from amped.kernels.layer_shape import Dimensions
from amped.kernels.memory import triton_activation, triton_norm
from amped.kernels.tensor_layouts import triton_launch
from amped.kernels.tensor_layouts.fused import Choices
from tests.helpers.tensor_layouts import differences

SIZE = Dimensions(2, 3, 2, 10, 6)
# What a program of a Hopper GPU may have of its shared memory. Source: CUDA's programming guide, compute capability 9.0.
MOST_SHARED = 227 * 1024


class Hopper:
    """A driver that tells for which GPU to compile."""

    def get_current_target(self) -> GPUTarget:
        """An H100 or H200."""
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        """The number of the GPU."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        return 0


def compiled() -> dict[str, str]:
    """For each kernel and kind of call nothing, or why it cannot be launched."""
    driver.set_active(Hopper())
    made, run = list[Any](), JITFunction.run

    def without_launch(self: Any, *arguments: Any, warmup: bool, **more: Any) -> Any:
        made.append(run(self, *arguments, warmup=True, **more))

    JITFunction.run = without_launch
    found = dict[str, str]()
    for name, call in calls().items():
        made.clear()
        try:
            call()
            found[name] = "" if made else "nothing was compiled"
            if any(each.metadata.shared > MOST_SHARED for each in made):
                found[name] = "it needs more shared memory than there is"
        except Exception as error:
            found[name] = str(error)
    return found


def calls() -> dict[str, Callable[[], Any]]:
    """The calls of all kernels, by name, in bf16."""
    x, weight = torch.zeros(5, 4096, dtype=torch.bfloat16), torch.ones(4096)
    wide, one = x.view(1, 1, 5, 4096), torch.tensor(1.0)
    found: dict[str, Callable[[], Any]] = {
        f"{name} {keep}": partial(_fused, name, keep) for name in triton_launch.KERNELS for keep in (1.0, 0.7)
    }
    found["bad relu"] = partial(triton_launch.KERNELS["bad"], wide, wide, None, wide, wide, Choices())
    found |= {name: partial(_activation, x, name) for name in ("gelu", "gelu_tanh", "silu")}
    found |= {kind: partial(triton_fp8.cast_both_ways, x, one, LARGEST[kind], FORMATS[kind]) for kind in FORMATS}
    return found | {
        "layer": partial(_norm, x, weight, weight, True), "layer without weights": partial(_norm, x, None, None, True),
        "rms": partial(_norm, x, weight, None, False),
    }  # fmt: skip


def _fused(name: str, keep: float) -> None:
    list(differences(name, SIZE, torch.bfloat16, "cpu", keep, most=1))


def _activation(x: torch.Tensor, name: str) -> None:
    y, packed = triton_activation.forward(x, name)
    triton_activation.backward(x, y, packed, name)


def _norm(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, centered: bool) -> None:
    y, scale = triton_norm.forward(x, weight, bias, len(x), 1e-5, centered)
    triton_norm.backward(x, y, weight, bias, scale, centered)
