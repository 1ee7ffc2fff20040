"""The coefficients that may be fitted, each with bounds that keep it physical and the reason for them.

A coefficient is a column of `kernel_efficiencies`: it belongs to an accelerator or a precision. What is not here (tiles,
ramps of a product's depth or of a sequence) is told by kernels and not by training steps, and stays as the table has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# Fitted numbers that a row may have at most: with more, a table of coefficients would be one of measurements.
MOST_OF_AN_ACCELERATOR, MOST_OF_A_STACK = 12, 6


@dataclass(frozen=True)
class Coefficient:
    """A coefficient that measurements may change.

    Attributes:
        lowest, highest: what the hardware and its libraries can be, in the canonical unit.
        doubt: how far the value of a table may well be off: one standard deviation of what is known without measurements.
        reason: why these bounds; with their source.
    """

    name: str
    lowest: float
    highest: float
    doubt: float
    reason: str

    def within(self, value: float) -> tuple[float, float]:
        """The bounds, widened to a value that a table has already."""
        return min(self.lowest, value), max(self.highest, value)

    def known_from_steps_alone(self) -> Coefficient:
        """The same where a table's value was itself fitted to training steps: nothing else is known but the bounds."""
        return replace(self, doubt=self.highest - self.lowest)


_BEST_SHAPES = "maximum achievable matmul table of stas00/ml-engineering, compute/accelerator README: 0.45 to 0.97"
FITTABLE = (
    Coefficient("gemm_sustained_fraction", 0.35, 0.97, 0.08, f"Best shapes of 16-bit products reach 0.45 (MI300X) to 0.97 (Gaudi 2) of dense peaks, and sustained clocks take more. Source: {_BEST_SHAPES}."),
    Coefficient("fp8_gemm_sustained_fraction", 0.3, 0.97, 0.1, f"As in 16 bit, and casts beside. Source: {_BEST_SHAPES}."),
    Coefficient("grouped_gemm_efficiency", 0.5, 1.0, 0.1, "One kernel over several weights is no faster than one weight, and half as fast where groups are small. Source: arXiv 2211.15841, section 6.3 (0.986 of batched cuBLAS)."),
    Coefficient("memory_bandwidth_efficiency", 0.6, 0.97, 0.05, "BabelStream and copies reach 0.74 (MI300X, triad) to 0.94 of datasheets. Source: the sources of kernel_efficiencies."),
    Coefficient("normalization_bandwidth_fraction", 0.4, 1.0, 0.1, "Kernels that reduce rows stream as well as a copy, or lose half of it between passes over a row. Source: definition; assumed below 0.7."),
    Coefficient("attention_forward_efficiency", 0.15, 0.8, 0.1, "From memory-efficient kernels of V100 (0.23) to FlashAttention-3 (0.75). Source: arXiv 2407.08608, abstract (740 of 989 TFLOP/s)."),
    Coefficient("attention_backward_efficiency", 0.1, 0.7, 0.1, "From those of V100 (0.15) to FlashAttention-3, whose backward pass is slower than its forward one. Source: arXiv 2407.08608, section 4.1."),
    Coefficient("kernel_overhead_time", 0.0, 10e-6, 2e-6, "Nothing in a captured graph, and a launch's whole latency at most. Source: pytorch/pytorch issue 161104 (1.1 to 1.3 us in a CUDA graph)."),
    Coefficient("kernel_launch_time", 1e-6, 40e-6, 4e-6, "The driver's own launch at least; the dispatch of an eager framework with autograd at most. Source: assumed, no published bound."),
    Coefficient("overlap_slowdown_fraction", 0.0, 0.6, 0.1, "Communication takes cores (0.02 to 0.15 of them) and bandwidth from what runs beside it. Source: calculon-ai/calculon systems/a100_80g.json."),
    Coefficient("inter_accelerator_ramp_bytes", 0.0, 20e6, 2e6, "All-gathers of public nccl-tests leave 0 to 6 MB. Source: the conventions of kernel_efficiencies."),
    Coefficient("inter_node_ramp_bytes", 0.0, 50e6, 5e6, "InfiniBand leaves 0 to 6 MB, TCP far more. Source: the conventions of kernel_efficiencies."),
    Coefficient("collective_overhead_time", 0.0, 60e-6, 8e-6, "The base latency of a ring is 8.4 us, and a call waits for the slowest of its group. Source: NVIDIA/nccl src/graph/tuning.cc at 01afd20."),
    Coefficient("training_clock_fraction", 0.6, 1.0, 0.06, "Power and heat lower clocks in long runs, hardly below the base clock. Source: assumed."),
    Coefficient("flash_1_attention_fraction", 0.1, 0.9, 0.15, "FlashAttention-2 is about twice as fast on A100, more on Hopper. Source: arXiv 2307.08691, abstract."),
    Coefficient("flash_2_attention_fraction", 0.4, 1.0, 0.1, "FlashAttention-3 is 1.5 to 2 times as fast on H100. Source: arXiv 2407.08608, abstract."),
)  # fmt: skip
BY_NAME = {c.name: c for c in FITTABLE}
