"""Records as amped's operators, and their time by amped's own formulas, for one set of coefficients or for many at once.

The formulas are handed in: the annexe does not import them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amped.kernels import unfused_costs as eager
from amped.kernels.machine import Machine
from amped.kernels.specs import BYTES, FAMILIES
from amped.theory.records import Kernels, Operator

Array = NDArray[np.float64]
Record = Mapping[str, Any]
# Time of a call of an operator with rates: `kernel_time` of amped's formulas.
KernelTime = Callable[[Operator, Kernels], Array]
# Columns of kernel_efficiencies for the largest products of a format.
SUSTAINED = {"float32": "fp32_gemm_sustained_fraction", "bfloat16": "gemm_sustained_fraction",
             "float16": "gemm_sustained_fraction", "float8_e4m3fn": "fp8_gemm_sustained_fraction"}  # fmt: skip
# What is of software or of no kernel here, as estimates have it where nobody says otherwise.
DEFAULTS = {
    "grouped_gemm_efficiency": 1.0,
    "gemm_ramp_rows": 0.0,
    "cached_operand_bytes": 0.0,
    "exposed_operand_fraction": 0.0,
    "exposed_softmax_fraction": 0.0,
    "streaming_traffic_factor": 1.0,
    "attention_head_ramp": 28.0,
    "attention_dropout_fraction": 1.0,
    "elementary_function_time": 0.0,
    "random_number_time": 0.0,
}
# Kernels that do nothing but move bytes.
STREAMING = ("copy", "read", "write", "add", "embedding", "embedding_backward")
Coefficients = Mapping[str, Any]


@dataclass(frozen=True)
class Samples:
    """Records of kernels that one formula times: as one operator whose fields are arrays, and their measured times."""

    family: str
    records: Sequence[Record]
    operator: Operator
    dtype: str
    times: Array

    def __len__(self) -> int:
        return len(self.records)


def measured_time(record: Record, statistic: str) -> float:
    """The time that counts: minimum on a CPU, median on a GPU."""
    return float(record["time_s"][statistic])


def family_of(record: Record) -> str:
    """The family of a record: kernels that the same coefficients time."""
    kind = FAMILIES[record["kernel"]].kind
    if kind.endswith("contraction"):
        return f"products {record['dtype']}"
    if record["kernel"] in STREAMING:
        return "streaming"
    return {"fused_attention": "attention", "collective": "collectives", "launch": "launches"}.get(kind, "row by row")


def samples(records: Sequence[Record], statistic: str, device: str) -> list[Samples]:
    """Records grouped by family, kind of operator, phase and format; those that no operator is of are left out."""
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        family = FAMILIES.get(record["kernel"])
        if family is not None and family.kind not in ("launch", "collective"):
            phase = "input_gradient" if record["params"].get("direction") == "backward" else "forward"
            groups.setdefault((family_of(record), family.kind, phase, record["dtype"]), []).append(record)
    return [
        Samples(
            family, own, operator(kind, phase, own, device), dtype, np.array([measured_time(r, statistic) for r in own])
        )
        for (family, kind, phase, dtype), own in groups.items()
    ]


def operator(kind: str, phase: str, records: Sequence[Record], device: str) -> Operator:
    """All records of a kind as one operator."""
    sizes = np.array([_sizes(r) for r in records], dtype=np.float64).T
    flops, moved = np.array([float(r["flop"]) for r in records]), np.array([eager.moved(r, device) for r in records])
    functions, drawn = (np.array([count(r) for r in records]) for count in (eager.evaluated, eager.drawn))
    m, n, k, batch = sizes
    written = m * n * batch * np.array([BYTES[r["dtype"]] for r in records])
    zero, one = np.zeros(len(records)), np.ones(len(records))
    width, dropped = (
        np.array([float(r["params"].get(name) or 0) for r in records]) for name in ("head_dimension", "dropout")
    )
    made = Operator("kernel", kind, phase, m, n, k, batch, flops, moved - written, written, zero, one, one,
                    functions=functions, drawn=drawn)  # fmt: skip
    return made.with_heads(np.maximum(width, 1.0), 1.0 * (dropped > 0))


def _sizes(record: Record) -> tuple[float, float, float, float]:
    """m, n, k and batch; rows and width of what is no product; rows of queries and their keys of attention."""
    p = record["params"]
    if "m" in p:
        return p["m"], p["n"], p["k"], p["batch"]
    if "queries" in p:
        return p["batch"] * p["heads"] * p["queries"], p["keys"], 0, 1
    return p.get("rows", p.get("parameters", 1)), p.get("columns", 1), 0, 1


def rates(c: Coefficients, machine: Machine, dtype: str) -> Kernels:
    """Rates from coefficients, as amped's formulas make them of its tables; coefficients may be columns of many."""
    peak = machine.peaks[dtype] if machine.peaks.get(dtype) else max(machine.peaks.values())
    matrix = 2.0 / (peak * c[SUSTAINED[dtype]])
    wide = machine.peaks.get("bfloat16" if dtype.startswith("float8") else dtype) or peak
    return Kernels(
        name="measured", matrix_time=matrix, grouped_time=matrix / c["grouped_gemm_efficiency"], batched_time=matrix,
        fused_forward_rate=wide * c["attention_forward_efficiency"],
        fused_backward_rate=wide * c["attention_backward_efficiency"],
        vector_rate=c.get("vector_flop_rate", machine.vector_rate),
        softmax_time=4 * c["exposed_softmax_fraction"] / machine.vector_rate,
        bandwidth=machine.bandwidth * c["memory_bandwidth_efficiency"],
        normalization=c["normalization_bandwidth_fraction"], traffic_factor=c["streaming_traffic_factor"],
        ramp_width=c["attention_head_ramp"], dropout_fraction=c["attention_dropout_fraction"], bandwidth_ramp=c["bandwidth_ramp_bytes"],
        ramp_depth=c["gemm_ramp_depth"], ramp_length=c["attention_ramp_length"], medium=c["medium_tile_efficiency"],
        small=c["small_tile_efficiency"], smallest=c["smallest_tile_efficiency"], quantization=c["wave_quantization"],
        cores=machine.cores, overhead=c["kernel_overhead_time"], launch_time=c["kernel_launch_time"],
        ramp_rows=c["gemm_ramp_rows"], cached=c["cached_operand_bytes"], exposed=c["exposed_operand_fraction"],
        function_time=c["elementary_function_time"], drawing_time=c["random_number_time"],
    )  # fmt: skip


def predicted(of: Samples, c: Coefficients, machine: Machine, kernel_time: KernelTime) -> Array:
    """Seconds of each record; a row for each set of coefficients where they are columns."""
    return kernel_time(of.operator, rates({**DEFAULTS, **c}, machine, of.dtype))
