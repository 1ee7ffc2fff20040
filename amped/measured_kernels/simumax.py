"""Reads SimuMax's tables of shapes: a machine's JSON, with the share of the peak that each shape reaches.

Source: MooreThreads/SimuMax, configs/system/*.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amped.base.errors import FileError, Problem, quoted
from amped.measured_kernels.found_rows import FoundRows
from amped.measured_kernels.kinds import KINDS

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


def fits(raw: object) -> bool:
    """Whether a JSON value is a machine of SimuMax's."""
    inner = raw.get("accelerator") if isinstance(raw, Mapping) else None
    return isinstance(inner, Mapping) and isinstance(inner.get("op"), Mapping)


def read(raw: Mapping[str, Any], path: Path) -> FoundRows:
    """The shapes of a machine.

    Raises:
        FileError: for a shape or a number that is damaged, with its JSON path.
    """
    found = FoundRows(TOOL)
    name = str(raw.get("sys_name", path.stem))
    for operator, own in raw["accelerator"]["op"].items():
        for place, shape, share in _shapes(operator, own, path):
            cells = _cells(shape, place, path)
            why = _left_because(operator, cells)
            if why:
                found.leave(why)
                continue
            own_peak = _positive(own.get(PEAK), f"/accelerator/op/{operator}/{PEAK}", path)
            found.add(OPERATORS[operator], **_columns(OPERATORS[operator], cells, place, path), accelerator=MACHINES.get(name, name), peak_tflops=own_peak,
                      fraction_of_peak=_positive(share, place, path))  # fmt: skip
    without = sum(1 for own in raw["accelerator"]["op"].values() if isinstance(own, Mapping) and SHAPES not in own)
    if without:
        found.leave("operators with one share of the peak for all shapes", without)
    for section in ("bandwidth", "networks"):
        if section in raw or section in raw["accelerator"]:
            found.leave(f"section '{section}': rates without shapes")
    return found


def _shapes(operator: str, own: Any, path: Path) -> Iterator[tuple[str, str, Any]]:
    """The shapes of an operator: JSON path, text and share of the peak.

    Raises:
        FileError: for something else than shapes.
    """
    place = f"/accelerator/op/{operator}"
    shapes = own.get(SHAPES, {}) if isinstance(own, Mapping) else None
    if not isinstance(shapes, Mapping):
        raise FileError(Problem(f"is no operator with '{SHARE}' and '{SHAPES}'", place), file=str(path))
    for shape, share in shapes.items():
        yield f"{place}/{SHAPES}/{shape}", shape, share


def _cells(shape: str, place: str, path: Path) -> dict[str, object]:
    """The columns of a shape, which is written as `m=4096, k=5120, …`.

    Raises:
        FileError: for a shape that is written otherwise.
    """
    parts = [PART.fullmatch(part) for part in shape.split(",")]
    pairs = [(part[1], part[2]) for part in parts if part]
    wrong = len(pairs) < len(parts) or any(
        not value.isdigit() or value == "0" for name, value in pairs if name not in WORDS
    )
    if wrong:
        raise FileError(
            Problem("is no shape like 'm=4096, k=5120, n=1536'", place, "correct it, or take it out"), file=str(path)
        )
    return {name: value if name in WORDS else int(value) for name, value in pairs}


def _columns(kind: str, cells: Mapping[str, object], place: str, path: Path) -> dict[str, object]:
    """The cells that amped's table has.

    Raises:
        FileError: for a shape that lacks one.
    """
    missing = [name for name in KINDS[kind].shape if name not in cells]
    if missing:
        raise FileError(Problem(f"has no {', '.join(missing)}", place, "correct it, or take it out"), file=str(path))
    return {name: cells[name] for name in KINDS[kind].shape}


def _left_because(operator: str, cells: Mapping[str, object]) -> str | None:
    """Why amped cannot compare a shape; None if it can."""
    if operator not in OPERATORS:
        return f"{operator}: amped has no law of this kernel by layout"
    if cells.get("b", 1) != 1:
        return "several products at once (b > 1)"
    return f"products with {cells['dtype']} factors" if cells.get("dtype", "bf16") != "bf16" else None


def _positive(value: Any, place: str, path: Path) -> float:
    """A number above 0.

    Raises:
        FileError: for another value.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise FileError(
            Problem(f"{quoted(value)} is no number above 0", place, "correct it, or take it out"), file=str(path)
        )
    return float(value)
