"""Reads the results of cuDNN's attention benchmark: one attention of training in a line, in one pass or in both.

Source: NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training and benchmark/attention_training (the columns of results).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amped.base.errors import quoted
from amped.measured_kernels.found_rows import FoundRows, without_vendor
from amped.measured_kernels.rows_of_tools import Cells, heads_of, placed, positive, rows_of_text

TOOL = "cuDNN's attention benchmark"
# Every result has these columns.
ABOUT = {"backend", "data_type", "attn_mask", "q_seqlen", "kv_seqlen", "head_dim_qk", "head_dim_vo", "gpu_name"}
SHAPE = {"batch": "batch_size", "tokens": "q_seqlen", "heads": "num_q_heads", "key_value_heads": "num_kv_heads",
         "key_width": "head_dim_qk", "value_width": "head_dim_vo"}  # fmt: skip
MASKS = {"top_left": "causal", "no_mask": "none"}
FORMATS = ("bfloat16", "float16")
KINDS_OF_PASSES = {"fwd": "training_attention_forward", "bwd": "training_attention_backward"}


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
                kernels.leave(why)
                continue
            for name, milliseconds in _passes(cells):
                kernels.add(KINDS_OF_PASSES[name], **_row(cells, name), time_us=milliseconds * 1e3)
    return kernels


def _left_because(cells: Cells) -> str | None:
    """Why amped cannot compare a line; None if it can."""
    if cells.get("success") == "False" or cells.get("skipped") == "True":
        return "the kernel did not run"
    if cells["data_type"] not in FORMATS:
        return f"attention of training in {cells['data_type']}: amped has a law of 16 bits"
    if cells["attn_mask"] not in MASKS:
        return f"the mask {cells['attn_mask']}"
    return "more keys than queries" if cells["q_seqlen"] != cells["kv_seqlen"] else None


def _passes(cells: Cells) -> Iterator[tuple[str, float]]:
    """The passes that a line times, each with its milliseconds.

    Newer results have one pass per line (column time_ms). Older ones have a column for each pass, and a line with
    profile_pass 'both' gives two.

    Raises:
        ValueError: for an unknown pass, or a time that is no number.
    """
    name, has_one_pass = cells.get("profile_pass", "both"), "time_ms" in cells
    passes = {name: (name,) for name in KINDS_OF_PASSES} | ({} if has_one_pass else {"both": (*KINDS_OF_PASSES,)})
    if name not in passes:
        raise ValueError(f"column 'profile_pass': {quoted(str(name))} is none of {', '.join(passes)}")
    for phase in passes[name]:
        yield phase, positive(cells, "time_ms" if has_one_pass else f"{phase}_time_ms")


def _row(cells: Cells, name: str) -> dict[str, object]:
    """One pass of a line (`name` is 'fwd' or 'bwd') in the columns of amped's table."""
    version = [cells.get("cudnn_backend_version") or ""]
    deterministic = ["deterministic"] if name == "bwd" and cells.get("deterministic_bwd") == "True" else []
    return {
        "accelerator": without_vendor(cells["gpu_name"]), "software": cells["backend"],
        "kernel": " ".join(version + deterministic).strip(),
        "mask": MASKS[cells["attn_mask"]], "window": int(cells.get("sliding_window_size") or 0),
        **{column: int(positive(cells, head)) for column, head in SHAPE.items()},
    }  # fmt: skip
