"""Reads SimuMax's tables of shapes: a machine's JSON, with the share of the peak that each shape reaches.

Source: MooreThreads/SimuMax, configs/system/*.json.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amped.base.errors import quoted
from amped.measured_kernels.found_rows import FoundRows
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.rows_of_tools import Cells, placed

TOOL = "SimuMax"
# For each operator with shapes that amped has a law of: the kind of kernel.
OPERATORS = {
    "matmul": "products_with_layout", "group_matmul": "grouped_products",
    "sdp_fwd": "attention_forward_of_peak", "sdp_bwd": "attention_backward_of_peak",
}  # fmt: skip
# What SimuMax calls the machines of its own tables, and the accelerators that they have.
# Source: MooreThreads/SimuMax, configs/system: a100_pcie.json, h100_nvlink.json, b200_bf16_ceperm.json.
MACHINES = {
    "a100_pcie_bf16": "A100 PCIe 80GB", "h100_nvlink_ib_bf16": "H100 SXM", "b200_bf16": "SimuMax B200", "b200_bf16_ceperm": "SimuMax B200",
}  # fmt: skip
SHAPES, PEAK, SHARE = "accurate_efficient_factor", "tflops", "efficient_factor"
WORDS = ("layout", "accumulate", "out_dtype", "stage", "grad", "dtype", "main_grad_dtype", "use_split_accumulator",
         "single_output", "qkv_contiguous")  # fmt: skip
PART = re.compile(r"\s*(\w+)\s*=\s*([^,=]+?)\s*")


def is_own_format(raw: object) -> bool:
    """Whether a JSON value is a machine of SimuMax: it has an accelerator with operators."""
    accelerator = raw.get("accelerator") if isinstance(raw, Mapping) else None
    return isinstance(accelerator, Mapping) and isinstance(accelerator.get("op"), Mapping)


def read(raw: Mapping[str, Any], path: Path) -> FoundRows:
    """The measured shapes of a machine; sections and operators without shapes are counted as left out.

    Args:
        raw: the content of the file.
        path: the file, for messages and as the name of a machine without one.

    Raises:
        FileError: for a shape or a number that is damaged, with its JSON path.
    """
    kernels, accelerator = FoundRows(TOOL), raw["accelerator"]
    machine = str(raw.get("sys_name", path.stem))
    for name, operator in accelerator["op"].items():
        place = f"/accelerator/op/{name}"
        with placed(place, path, advice=""):
            shapes = _shapes(operator)
        for shape, share in shapes.items():
            with placed(f"{place}/{SHAPES}/{shape}", path):
                cells = _cells(shape)
                if why := _left_because(name, cells):
                    kernels.leave(why)
                    continue
                with placed(f"{place}/{PEAK}", path):
                    peak = _positive(operator.get(PEAK))
                kernels.add(OPERATORS[name], **_columns(OPERATORS[name], cells), accelerator=MACHINES.get(machine, machine),
                          peak_tflops=peak, fraction_of_peak=_positive(share))  # fmt: skip
    without = sum(SHAPES not in operator for operator in accelerator["op"].values())
    if without:
        kernels.leave("operators with one share of the peak for all shapes", without)
    for section in ("bandwidth", "networks"):
        if section in raw or section in accelerator:
            kernels.leave(f"section '{section}': rates without shapes")
    return kernels


def _shapes(operator: Any) -> Mapping[str, Any]:
    """The shapes of an operator, each with its share of the peak; empty if the operator has none.

    Raises:
        ValueError: if the value is no operator.
    """
    shapes = operator.get(SHAPES, {}) if isinstance(operator, Mapping) else None
    if not isinstance(shapes, Mapping):
        raise ValueError(f"is no operator with '{SHARE}' and '{SHAPES}'")
    return shapes


def _cells(shape: str) -> Cells:
    """The cells of a shape by their columns; a shape is written as `m=4096, k=5120, …`.

    Raises:
        ValueError: for a shape that is written otherwise.
    """
    parts = [PART.fullmatch(part) for part in shape.split(",")]
    cells: dict[str, Any] = {part[1]: part[2] if part[1] in WORDS else _size(part[2]) for part in parts if part}
    if None in (*parts, *cells.values()):
        raise ValueError("is no shape like 'm=4096, k=5120, n=1536'")
    return cells


def _size(text: str) -> int | None:
    """The whole number above 0 that a text writes; None if the text writes none."""
    return (int(text) if text.isdecimal() else 0) or None


def _columns(kind: str, cells: Cells) -> Cells:
    """The cells of a shape that amped's table has columns for.

    Raises:
        ValueError: for a shape that lacks one of them.
    """
    missing = [name for name in KINDS[kind].shape if name not in cells]
    if missing:
        raise ValueError(f"has no {', '.join(missing)}")
    return {name: cells[name] for name in KINDS[kind].shape}


def _left_because(operator: str, cells: Cells) -> str | None:
    """Why amped cannot compare a shape; None if it can."""
    if operator not in OPERATORS:
        return f"{operator}: amped has no law of this kernel by layout"
    if cells.get("b", 1) != 1:
        return "several products at once (b > 1)"
    return f"products with {cells['dtype']} factors" if cells.get("dtype", "bf16") != "bf16" else None


def _positive(value: Any) -> float:
    """The value as a number, which must be above 0.

    Raises:
        ValueError: for any other value.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{quoted(value)} is no number above 0")
    return float(value)
