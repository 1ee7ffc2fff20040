"""Measured kernels that only stream through memory: norms, and casts to 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from amped.measured_kernels.predictor import Columns, Predictor, floats, texts

# The bytes of an entry that is cast to 8 bits: read in 16 bits and written. Scales need only the first.
CAST_BYTES, SCALE_BYTES = 3.0, 2.0


# The bytes that a core casts in a cycle, by the kernel; with fewer cores or a faster memory, that is what limits it. Fitted to
# four fifths of the shapes in ai-dynamo/aiconfigurator on all accelerators at once.
BYTES_CAST_IN_A_CYCLE = {"torch_ops": 15.5, "static_scaled_fp8_quant": 22.0}


def cast_time(columns: Columns, machine: Predictor) -> Any:
    """The time in which a tensor of m × k entries is cast to 8 bits, or in which its scales are found."""
    is_cast, kernel = texts(columns["work"]) == "cast", str(columns["kernel"][0])
    moved = floats(columns["m"]) * floats(columns["k"]) * np.where(is_cast, CAST_BYTES, SCALE_BYTES)
    in_cores = is_cast * moved / (BYTES_CAST_IN_A_CYCLE.get(kernel, np.inf) * machine.cores.cycles)
    return np.maximum(machine.cores.moving_time(moved, moved), in_cores)


# The bytes of an entry that a norm moves in 16 bits: forward it reads and writes, backward it reads two and writes one.
NORM_BYTES = {"fwd": 4.0, "bwd": 6.0}
# Cycles of a core for a row of a norm, by the software and the pass: PyTorch gives a row a block of threads, whatever its
# width, and adds the gradients of weights in a kernel of its own. Fitted to four fifths of the shapes on H200 and GB200.
ROW_CYCLES = {("pytorch", "fwd"): 180.0, ("pytorch", "bwd"): 350.0, ("cudnn", "bwd"): 12.0}
NORM = ("rows", "width", "norm", "stage")


def norm_time(columns: Columns, machine: Predictor) -> Any:
    """The time of a norm in one pass: its bytes, and the cycles of its rows."""
    cores, stage = machine.cores, str(columns["stage"][0])
    rows, width = floats(columns["rows"]), floats(columns["width"])
    moved = rows * width * NORM_BYTES[stage]
    cycles = rows * ROW_CYCLES.get((str(columns["software"][0]), stage), 0.0)
    return cores.moving_time(moved, 2.0 * moved) + cycles / cores.cycles
