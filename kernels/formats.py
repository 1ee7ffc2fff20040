"""The formats of tensors by their names in torch: their bytes, their other names, and their columns in amped's tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A format of numbers.

    Attributes:
        bytes: the bytes of an entry.
        short: its usual short names, amped's own name of it first.
        peak: its column of accelerator_specifications.
        sustained: its column of kernel_efficiencies about the largest products; empty if kernels of it are not fitted.
    """

    bytes: int
    short: tuple[str, ...]
    peak: str = ""
    sustained: str = ""


FORMATS = {
    "float64": Format(8, ("fp64", "double")),
    "float32": Format(4, ("fp32", "float"), "fp32_peak_flop_rate", "fp32_gemm_sustained_fraction"),
    "bfloat16": Format(2, ("bf16",), "bf16_peak_flop_rate", "gemm_sustained_fraction"),
    "float16": Format(2, ("fp16", "half"), "fp16_peak_flop_rate", "gemm_sustained_fraction"),
    "float8_e4m3fn": Format(1, ("fp8",), "fp8_peak_flop_rate", "fp8_gemm_sustained_fraction"),
}
# The formats whose kernels are measured and fitted, and of them those that a network can be trained in as a whole.
MEASURED = tuple(name for name, known in FORMATS.items() if known.sustained)
TRAINED = tuple(name for name in MEASURED if not name.startswith("float8"))
