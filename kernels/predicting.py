"""Records as amped's operators, and their times by amped's formulas, for one or for many sets of coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from amped.kernels.formats import FORMATS
from amped.kernels.machine import FLOPS_OF_A_MAC, Machine
from amped.kernels.specs import FAMILIES, Record, masked, work_of
from amped.theory.language.catalogue import catalogue
from amped.theory.nouns import kernel_work
from amped.theory.nouns.kernel_work import Traffic
from amped.theory.nouns.records import Kernels, Operator
from amped.theory.roofline import kernels
from amped.theory.roofline.rates import operand_delivery_reciprocal__powered as powered

Array = NDArray[np.float64]
# The head width at which exponentials take as long as products, if no row says it.
HEAD_RAMP = 50.0
# Kernels that only move bytes.
STREAMING = ("copy", "read", "write", "add", "embedding", "embedding_backward")
# Kernels that operators stand for; the others have no formula of their own.
TIMED = [name for name, family in FAMILIES.items() if family.kind not in ("launch", "collective")]
Coefficients = Mapping[str, Any]
Item = TypeVar("Item")
Key = TypeVar("Key")


@dataclass(frozen=True)
class Samples:
    """Records that one formula times together.

    Attributes:
        operator: one operator whose fields are arrays with a value for each record.
        times: the measured times.
    """

    family: str
    records: Sequence[Record]
    operator: Operator
    dtype: str
    times: Array

    def __len__(self) -> int:
        return len(self.records)


def measured_time(record: Record, statistic: str) -> float:
    """The time of a record that counts: the minimum on a CPU, the median on a GPU."""
    return float(record["time_s"][statistic])


def family_of(record: Record) -> str:
    """The family of a record: kernels whose times depend on the same coefficients."""
    kind = FAMILIES[record["kernel"]].kind
    if kind.endswith("contraction"):
        return f"products {record['dtype']}"
    if record["kernel"] in STREAMING:
        return "streaming"
    return {"fused_attention": "attention", "collective": "collectives", "launch": "launches"}.get(kind, "row by row")


def samples(records: Sequence[Record], statistic: str, device: str) -> list[Samples]:
    """Records grouped by family, kind of operator, phase and format; records without an operator are left out.

    PyTorch's backend "math" for attention is left out, too: it runs many kernels, and none of them is fused.
    """

    def group(record: Record) -> tuple[str, str, str, str]:
        phase = "input_gradient" if record["params"].get("direction") == "backward" else "forward"
        return family_of(record), FAMILIES[record["kernel"]].kind, phase, record["dtype"]

    timed = [r for r in records if r["kernel"] in TIMED and r["params"].get("backend") != "math"]
    return [
        Samples(
            family,
            members,
            operator(kind, phase, members, device),
            dtype,
            np.array([measured_time(r, statistic) for r in members]),
        )
        for (family, kind, phase, dtype), members in grouped(timed, group).items()
    ]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by their keys; groups have the order in which their keys first occur."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def operator(kind: str, phase: str, records: Sequence[Record], device: str) -> Operator:
    """One operator whose fields are arrays with a value for each record; all records have this kind and phase."""
    m, n, k, batch = np.array([_sizes(r) for r in records], dtype=np.float64).T
    work = Traffic(*np.array([work_of(r, device) for r in records], dtype=np.float64).T)
    head_widths, dropout = np.array(
        [[r["params"].get(n) or 0.0 for n in ("head_dimension", "dropout")] for r in records]
    ).T
    masked_edges = np.array([1.0 * (kind == "fused_attention" and masked(r["params"])) for r in records])
    made, heads = kernel_work.operator("kernel", kind, phase, (m, n, k, batch), work), np.maximum(head_widths, 1.0)
    return made.with_heads((heads, heads), n * (1 - masked_edges / 2), masked_edges, 1.0 * (dropout > 0))


def _sizes(record: Record) -> tuple[float, float, float, float]:
    """The sizes m, n, k and batch of a record.

    Of a kernel that is no product, m and n are rows and columns (of attention: all queries, and the keys of one), k is
    0 and batch is 1.
    """
    p = record["params"]
    if "m" in p:
        return p["m"], p["n"], p["k"], p["batch"]
    if "queries" in p:
        return p["batch"] * p["heads"] * p["queries"], p["keys"], 0, 1
    return p.get("rows", p.get("parameters", 1)), p.get("columns", 1), 0, 1


def rates(c: Coefficients, machine: Machine, dtype: str) -> Kernels:
    """The rates of kernels in one format, by the formulas of estimates.

    `c` are coefficients by name, each a number or a column of numbers. Parameters that belong to the software, or that
    no kernel here uses, have the defaults of estimates, which are formulas, too.
    """
    peak = machine.peaks.get(dtype) or max(machine.peaks.values())
    wide_peak = machine.peaks.get("bfloat16" if dtype.startswith("float8") else dtype) or peak
    head_ramp = c.get("attention_head_ramp", HEAD_RAMP)
    quantities: dict[str, Any] = {
        **neutral(), "vector_flop_rate": machine.vector_rate,
        "attention_backward_ramp_length": c["attention_ramp_length"],
        "kernel_head_ramp": head_ramp, "kernel_backward_head_ramp": c.get("attention_backward_head_ramp", head_ramp),
        "tile_quantization": c["wave_quantization"], **c,
        "flops_per_multiply_accumulate": FLOPS_OF_A_MAC, "flops_per_elementary_operation": 1.0,
        **dict.fromkeys(("sustained_matrix_flop_rate", "sustained_batched_flop_rate"), peak * c[FORMATS[dtype].sustained]),
        "fused_forward_flop_rate": wide_peak * c["attention_forward_efficiency"],
        "fused_backward_flop_rate": wide_peak * c["attention_backward_efficiency"],
        "memory_bandwidth": machine.bandwidth, "cores_sharing_tiles": machine.cores, "attention_peak_flop_rate": wide_peak,
        **dict.fromkeys(("matrix_operand_precision", "activation_precision"), float(FORMATS[dtype].bytes)),
    }  # fmt: skip
    energy = c.get("energy_of_operand_byte", 0.0)
    quantities["operand_delivery_reciprocal"] = powered(energy, machine.power, machine.multipliers, 1.0, 1.0)  # type: ignore[no-untyped-call]
    (made,) = _evaluated("kernel_rates", quantities)
    return made  # type: ignore[no-any-return]


def _evaluated(name: str, quantities: dict[str, Any]) -> Any:
    """The value of a quantity: the one in `quantities`, or else that of its formula, which is added to them."""
    if name not in quantities:
        formula = catalogue()[name].formulas[0]
        quantities[name] = formula.function(*(_evaluated(argument, quantities) for argument in formula.arguments))
    return quantities[name]


def neutral() -> Coefficients:
    """Coefficients that a fit does not determine, with values of no effect: a rate is 1, a loss or a time is 0."""
    losses = ("exposed_softmax_fraction", "elementary_function_time", "random_number_time")
    return {"grouped_gemm_efficiency": 1.0, **dict.fromkeys(losses, 0.0)}


def predicted(of: Samples, c: Coefficients, machine: Machine) -> Array:
    """The predicted seconds of each record; if coefficients are columns, one row for each set of coefficients."""
    return kernels.kernel_time(of.operator, rates(c, machine, of.dtype))  # type: ignore[no-any-return, no-untyped-call]
