"""Reads the results of cuDNN's benchmark of norms: one norm in a line, forward and backward.

Source: NVIDIA/cudnn-frontend, benchmark/norms (the columns of results).
"""

from __future__ import annotations

from pathlib import Path

from amped.measured_kernels.found_rows import FoundRows, without_vendor
from amped.measured_kernels.rows_of_tools import Cells, heads_of, placed, positive, rows_of_text

TOOL = "cuDNN's benchmark of norms"
# Every result has these columns.
ABOUT = {"norm_type", "backend", "data_type", "N", "C", "fwd_time_ms", "bwd_time_ms", "gpu_name", "success"}
FORMATS = ("bfloat16", "float16")
PASSES = ("fwd", "bwd")


def is_own_format(text: str) -> bool:
    """Whether a text is a result of this benchmark: its first line names the columns that every result has."""
    return heads_of(text) >= ABOUT


def read(text: str, path: Path) -> FoundRows:
    """The kernels of a result.

    Raises:
        FileError: for a damaged line, with its number.
    """
    kernels, (_, rows) = FoundRows(TOOL), rows_of_text(text, path)
    for place, cells in rows:
        with placed(place, path):
            if why := _left_because(cells):
                kernels.leave(why, len(PASSES))
                continue
            for name in PASSES:
                kernels.add("norms", **_row(cells), stage=name, time_us=positive(cells, f"{name}_time_ms") * 1e3)
    return kernels


def _left_because(cells: Cells) -> str | None:
    """Why amped cannot compare a line; None if it can."""
    if cells["success"] != "True":
        return "the kernel did not run"
    return None if cells["data_type"] in FORMATS else f"norms in {cells['data_type']}: amped has a law of 16 bits"


def _row(cells: Cells) -> dict[str, object]:
    """A line in the columns of amped's table, without its pass."""
    return {"accelerator": without_vendor(cells["gpu_name"]), "software": cells["backend"], "norm": cells["norm_type"],
            "rows": int(positive(cells, "N")), "width": int(positive(cells, "C"))}  # fmt: skip
