"""Reads aiconfigurator's tables of exchanges of tokens between experts: by DeepEP's kernels, and inside a rack.

Source: ai-dynamo/aiconfigurator, collector/sglang, collector/vllm and collector/trtllm (deepep, moe_a2a, trtllm_alltoall).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from amped.base.errors import quoted
from amped.measured_kernels.found_rows import FoundRows, without_vendor
from amped.measured_kernels.rows_of_tools import Cells, placed, positive

TOOL = "aiconfigurator"
DISPATCH, COMBINE = "expert_dispatch", "expert_combine"
# Bytes of an entry by the format of what is sent; with the scales of blocks. Results are sent back in 16 bits.
ENTRIES = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
# The ranks of a node by the accelerator, and the cores of one: what the tables do not say.
RANKS_OF_A_NODE, CORES = {"GB200": 4, "GB300": 4}, {"GB200": 152, "GB300": 160}
OTHER_RANKS = 8
LOW_LATENCY = "a kernel for the low latency of inference"
NO_CORES = "the cores that it takes are not told"
NOT_TIMED = "no time above 0"

Row = tuple[str, dict[str, object]]


def _both_ways(cells: Cells) -> Iterator[Row]:
    """The dispatch (in fp8) and the combination (in 16 bits) of a row of DeepEP's normal kernels, as sglang runs them."""
    device, nodes = without_vendor(str(cells["device"])), int(cells["node_num"])
    shape = {
        "ranks": RANKS_OF_A_NODE.get(device, OTHER_RANKS) * nodes, "nodes": nodes, "tokens": int(cells["num_token"]),
        "experts_per_token": int(cells["num_topk"]), "kernel": "deepep normal",
    }  # fmt: skip
    for name, way, entry in ((DISPATCH, "dispatch", 1.0), (COMBINE, "combine", 2.0)):
        if float(cells[f"{way}_transmit_us"]) > 0:
            times = {
                "cores": int(cells[f"{way}_sms"]),
                "entry_bytes": entry,
                "time_us": float(cells[f"{way}_transmit_us"]),
            }
            yield "", {"exchange": name, **shape, **times}
        else:
            yield NOT_TIMED, {}


def _one_way(cells: Cells) -> Iterator[Row]:
    """The exchange of a row of vLLM's or TensorRT-LLM's use of DeepEP."""
    backend, cores = str(cells["comm_backend"]), int(cells["sms"])
    if backend.endswith(("_ll", "_generation")):
        yield LOW_LATENCY, {}
    elif not cores:
        yield NO_CORES, {}
    else:
        way = {"dispatch": DISPATCH, "combine": COMBINE}[str(cells["phase"])]
        yield (
            "",
            {
                "exchange": way, "ranks": int(cells["ep_size"]), "nodes": int(cells["node_num"]), "tokens": int(cells["num_tokens"]),
                "experts_per_token": int(cells["topk"]), "kernel": f"deepep {backend}", "cores": cores,
                "entry_bytes": ENTRIES.get(str(cells["comm_dtype"]), 2.0), "time_us": positive(cells, "latency"),
            },
        )  # fmt: skip


def _in_rack(cells: Cells) -> Iterator[Row]:
    """The exchange of a row of an all-to-all inside a rack."""
    way = {"alltoall_dispatch": DISPATCH, "alltoall_combine": COMBINE}.get(str(cells["op_name"]))
    if way is None:
        yield f"{cells['op_name']}: amped has no law of this kernel", {}
        return
    entry = ENTRIES[str(cells["moe_dtype"])] if way == DISPATCH else ENTRIES["bfloat16"]
    yield (
        "",
        {
            "exchange": way, "ranks": int(cells["moe_ep_size"]), "nodes": 1, "tokens": int(cells["num_tokens"]),
            "experts_per_token": int(cells["topk"]), "kernel": f"rack {cells['kernel_source']}", "entry_bytes": entry,
            "cores": CORES[without_vendor(str(cells["device"]))], "time_us": positive(cells, "latency") * 1e3,
        },
    )  # fmt: skip


# The forms of tables: a column that no other form has, and the reader of a row.
FORMS: Mapping[str, Callable[[Cells], Iterator[Row]]] = {
    "dispatch_transmit_us": _both_ways, "comm_backend": _one_way, "moe_ep_size": _in_rack,
}  # fmt: skip
ABOUT = ("device", "framework", "version", "hidden_size", "num_experts")


def form_of(columns: Mapping[str, Any]) -> Callable[[Cells], Iterator[Row]] | None:
    """The reader of the rows of a table of exchanges, from its columns; None for another table."""
    reader = next((reader for column, reader in FORMS.items() if column in columns), None)
    return reader if all(name in columns for name in ABOUT) and "inter_size" not in columns else None


def read_columns(columns: Mapping[str, Sequence[Any]], path: Path) -> FoundRows:
    """The exchanges of a table that is given as columns.

    Raises:
        FileError: for a damaged row, with its number.
    """
    kernels, rows_of = FoundRows(TOOL), form_of(columns)
    for number, row in enumerate(zip(*columns.values(), strict=True), 1):
        cells = dict(zip(columns, row, strict=True))
        with placed(f"row {number}", path):
            for why, found in _rows(rows_of, cells):
                if why:
                    kernels.leave(why)
                else:
                    kernels.add("expert_exchanges", **_about(cells), **found)
    return kernels


def _rows(rows_of: Callable[[Cells], Iterator[Row]] | None, cells: Cells) -> Iterator[Row]:
    """The exchanges of a row, each with the reason why it is left out, if it is.

    Raises:
        ValueError: for a cell that is not what the table's form says.
    """
    try:
        yield from rows_of(cells) if rows_of else ()
    except (KeyError, TypeError) as error:
        raise ValueError(f"{quoted(str(error))} is not what such a table has") from None


def _about(cells: Cells) -> dict[str, object]:
    """Who ran an exchange, and the sizes that all forms have."""
    return {
        "accelerator": without_vendor(str(cells["device"])), "software": f"{cells['framework']} {cells['version']}",
        "dimensionality": int(cells["hidden_size"]), "number_of_experts": int(cells["num_experts"]),
    }  # fmt: skip
