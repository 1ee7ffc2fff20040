"""The door to the fused kernels in Triton: eight of the twelve; sums over all tokens stay torch's.

Every operand is a view of four dimensions with its strides given when called, so that one kernel serves every layout;
Triton compiles it anew only where another dimension is contiguous. The rows of a tile run along the dimension that lies
closest in the output, so that reads and writes coalesce whichever dimension is innermost.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

NAMES = ("aib", "bad", "bdrlb", "bdrln", "bei", "blnrd", "bs", "softmax")


def available() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def kernels() -> dict[str, Callable[..., None]]:
    """The kernels by name, with the arguments of those in plain torch."""
    from amped.kernels.layouts import triton_launch

    return {name: getattr(triton_launch, name) for name in NAMES}
