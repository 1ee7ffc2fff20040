"""Reads aiconfigurator's tables of the newer networks: linear attention, layers of sparse attention, hyper-connections.

Source: ai-dynamo/aiconfigurator, collector/*/collect_gdn.py, collect_kda.py, collect_mamba2.py, collect_mla_module.py,
collect_dsv4_attn.py, collect_msa_module.py, collect_mhc_module.py.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amped.base.errors import quoted
from amped.base.files import shipped_json
from amped.measured_kernels.aiconfigurator import FORMATS, INFERENCE, LATENCY, TOOL
from amped.measured_kernels.found_rows import FoundRows, without_vendor
from amped.measured_kernels.rows_of_tools import Cells, heads_of, placed, positive, rows_of_text

SIZES = shipped_json("measured_kernels", "aiconfigurator_layers.json")
# The least tokens of a sequence that amped compares: those of a chunk of a scan.
LEAST = 64
TOO_SHORT = f"{INFERENCE} (sequences below {LEAST} tokens)"
# What some collectors convolve: keys alone. Source: collector/trtllm/collect_gdn.py; collector/sglang for 0.5.10.
KEYS_ALONE = ("TRTLLM", "SGLang 0.5.10")
# Times of these kernels contain what is no kernel: their host's search for a faster one, whose times of neighbors differ
# tenfold, and an attention of single operations that stands for a kernel that there is not.
SEARCHING, STANDING_IN = "msa_fmha_sm100", "default"
UNSTEADY = "a kernel whose times contain its host's search for a faster one"
UNFUSED = "attention of single operations, which stands for a kernel"
# An attention without its layer, on shapes of inference.
WITHOUT_LAYER, CORE = "an attention without its layer: amped has a law of the layer", "dsv4_hca_attn_module"
# Scales that come with the cast have no time of their own; others are the difference of the times of two kernels.
NO_TIME, DIFFERENCE = "no time of its own", "the difference of the times of two kernels"
OF_TWO = "dynamic_per_token_scaled_fp8_quant_minus_static_scaled_fp8_quant"
# PyTorch's attention of Blackwell has no heads of this width, and takes another kernel.
UNSUITED, GENERAL, NOT_WIDE = "heads of a width for which PyTorch takes another kernel", "torch_flow", 72
# SGLang's own attention without FlashAttention: four times slower where keys and values do not fit in the shared cache.
FOR_PROMPTS, OWN = "an attention of inference, which trainings do not use", "triton"

Row = dict[str, object]


class UnknownNetworkError(Exception):
    """A row of a network whose sizes amped does not know."""


def _sizes(kind: str, name: str) -> dict[str, Any]:
    """The sizes of the layers of a network.

    Raises:
        UnknownNetworkError: for another network.
    """
    if name not in SIZES[kind]:
        raise UnknownNetworkError(f"layers of a network whose sizes amped does not know ({name})")
    return dict(SIZES[kind][name])


def _linear(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of a row of gated delta net or Kimi delta attention: a convolution, or a scan."""
    name, keys, values = str(cells["kernel_source"]), int(cells["num_k_heads"]), int(cells["num_v_heads"])
    widths = {"key_width": int(cells["head_k_dim"]), "value_width": int(cells["head_v_dim"])}
    shape: Row = {"batch": int(cells["batch_size"]), "tokens": int(cells["seq_len"])}
    if name.startswith("causal_conv1d"):
        all_keys = keys * widths["key_width"]
        is_part = str(cells["op_name"]) == "gdn" and f"{cells['framework']} {cells['version']}".startswith(KEYS_ALONE)
        channels = all_keys if is_part else 2 * all_keys + values * widths["value_width"]
        return "causal_convolutions", {**shape, "channels": channels, "taps": int(cells["d_conv"])}
    kind = "gated_delta_scans" if str(cells["op_name"]) == "gdn" else "kimi_delta_scans"
    return kind, {**shape, "heads": values, "key_heads": keys, **widths}


def _state_space(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of a convolution of Mamba-2: inputs, and what writes and reads the state."""
    channels = int(cells["nheads"]) * int(cells["head_dim"]) + 2 * int(cells["n_groups"]) * int(cells["d_state"])
    shape = {"batch": int(cells["batch_size"]), "tokens": int(cells["seq_len"])}
    return "causal_convolutions", {**shape, "channels": channels, "taps": int(cells["d_conv"])}


def _layer(cells: Cells) -> Row:
    """What all layers of sparse attention have."""
    return {"batch": int(cells["batch_size"]), "tokens": int(cells["isl"]), "heads": int(cells["num_heads"]),
            "cache": "bfloat16" if str(cells["kv_cache_dtype"]) == "bfloat16" else "fp8"}  # fmt: skip


def _indexed(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of a layer with an indexer; it may use the keys that an earlier layer selected."""
    indexing = "shared" if str(cells["op_name"]).endswith("skip_indexer") else "own"
    return "indexed_attention_layers", {
        **_layer(cells),
        **_sizes("indexed", str(cells["architecture"])),
        "indexing": indexing,
    }


def _compressed(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of a layer with compressed keys; groups of outputs are split as heads are."""
    heads, each, parts = int(cells["num_heads"]), int(cells["compress_ratio"]), int(cells["tp_size"])
    sizes = _sizes("compressed", str(heads * parts))
    is_indexed = "csa" in str(cells["op_name"]).split("_")
    kind = "compressed_sparse_attention_layers" if is_indexed else "heavily_compressed_attention_layers"
    groups, indexing = max(sizes["output_groups"] // parts, 1), "own" if is_indexed else "none"
    return kind, {**_layer(cells), **sizes, "output_groups": groups, "compression": each, "indexing": indexing}


def _block_sparse(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of a layer that selects blocks of keys, with a head of its indexer for each group."""
    sizes = _sizes("block_sparse", str(cells["architecture"]))
    groups = max(int(cells["num_heads"]) // sizes.pop("heads_per_group"), 1)
    return "block_sparse_attention_layers", {**_layer(cells), **sizes, "key_value_heads": groups, "index_heads": groups}


def _connection(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of a hyper-connection; a row has several of them."""
    side = {"pre": "before", "post": "after"}[str(cells["op_name"])]
    return "hyper_connections", {"tokens": int(cells["num_tokens"]), "dimensionality": int(cells["hidden_size"]),
                                 "streams": int(cells["hc_mult"]), "iterations": int(cells["sinkhorn_iters"]), "side": side}  # fmt: skip


def _encoder(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of an attention without a mask, as vision towers have it."""
    return "encoder_attention_forward", {"batch": int(cells["batch_size"]), "tokens": int(cells["isl"]),
                                         "heads": int(cells["num_heads"]), "head_dimension": int(cells["head_dim"])}  # fmt: skip


def _cast(cells: Cells) -> tuple[str, Row]:
    """The kind and the shape of a cast to 8 bits, or of the scales that it needs."""
    work = {"compute_scale": "scales", "scale_matrix": "cast"}[str(cells["op_name"])]
    return "casts", {"m": int(cells["m"]), "k": int(cells["k"]), "work": work}


class LayerTable(NamedTuple):
    """A kind of table.

    Attributes:
        row: gives the kind of kernel and the shape of a row.
        tokens: the column with the tokens of a sequence.
        precision: the column with the format of products; empty if all are in 16 bits.
    """

    row: Callable[[Cells], tuple[str, Row]]
    tokens: str
    precision: str = ""


# The kinds of tables by the first entry of the column `op_name`.
TABLES = {
    **dict.fromkeys(("gdn", "kda"), LayerTable(_linear, "seq_len")),
    "mamba2": LayerTable(_state_space, "seq_len"),
    **dict.fromkeys(("dsa_context_module", "dsa_context_module_skip_indexer"), LayerTable(_indexed, "isl", "gemm_type")),
    **dict.fromkeys(("dsv4_csa_context_module", "dsv4_hca_context_module", CORE), LayerTable(_compressed, "isl", "gemm_type")),
    "msa_context_module": LayerTable(_block_sparse, "isl", "gemm_type"),
    **dict.fromkeys(("pre", "post"), LayerTable(_connection, "num_tokens")),
    "encoder_attention": LayerTable(_encoder, "isl"),
    **dict.fromkeys(("compute_scale", "scale_matrix"), LayerTable(_cast, "m")),
}  # fmt: skip
# Columns that tell these tables from others with the same name of an operation.
MARKS = ("kernel_source", "op_name", "device", "framework", "version", LATENCY)


def table_of(columns: Mapping[str, Sequence[Any]]) -> LayerTable | None:
    """The kind of a table from its columns; None for another table."""
    if not all(name in columns for name in MARKS) or not len(columns["op_name"]):
        return None
    table = TABLES.get(str(columns["op_name"][0]))
    return table if table and table.tokens in columns else None


def is_own_format(text: str) -> bool:
    """Whether a text is such a table: its first line names the columns, its second line an operation of these."""
    if not heads_of(text) >= {*MARKS}:
        return False
    first = next(csv.DictReader(text.splitlines()), {})
    return first.get("op_name") in TABLES and TABLES[str(first["op_name"])].tokens in first


def read(text: str, path: Path) -> FoundRows:
    """The kernels of a table that is given as text.

    Raises:
        FileError: for a damaged line or row, with its number.
    """
    heads, rows = rows_of_text(text, path)
    cells = [row for _, row in rows]
    columns: dict[str, Any] = {name: _numbers([row[name] for row in cells]) for name in heads}
    return read_columns(columns, path)


def _numbers(column: list[str]) -> NDArray[Any]:
    """A column as numbers, whole ones if all are; as texts if not all are numbers."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(column, dtype=np.str_).astype(kind)
        except ValueError:
            continue
    return np.array(column, dtype=np.str_)


def read_columns(columns: Mapping[str, Sequence[Any]], path: Path) -> FoundRows:
    """The kernels of a table that is given as columns.

    Raises:
        FileError: for a damaged row, with its number.
    """
    kernels, table = FoundRows(TOOL), table_of(columns)
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    is_left = np.zeros(len(arrays[LATENCY]), dtype=np.bool_)
    for why, is_such in _left_because(arrays, table):
        kernels.leave(why, int(np.sum(is_such & ~is_left)))
        is_left |= is_such
    for place in np.flatnonzero(~is_left).tolist():
        with placed(f"row {place + 1}", path):
            try:
                kind, row = _row({name: column[place] for name, column in arrays.items()}, table)
            except UnknownNetworkError as error:
                kernels.leave(str(error))
            else:
                kernels.add(kind, **row)
    kernels.left = +kernels.left
    return kernels


def _left_because(
    columns: Mapping[str, NDArray[Any]], table: LayerTable | None
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """The reasons why rows are left out, each with the rows that it is true of."""
    names, kernels = columns["op_name"].astype(str), columns["kernel_source"].astype(str)
    for column, plain in (("step", 0), ("phase", "context")):
        if column in columns:
            yield INFERENCE, columns[column] != plain
    if table is None:
        return
    yield WITHOUT_LAYER, names == CORE
    yield TOO_SHORT, columns[table.tokens].astype(np.int64) < LEAST
    is_block = names == "msa_context_module"
    yield UNSTEADY, is_block & (kernels == SEARCHING)
    yield UNFUSED, is_block & (kernels == STANDING_IN)
    yield NO_TIME, columns[LATENCY] == 0
    yield DIFFERENCE, kernels == OF_TWO
    if "head_dim" in columns and "attn_dtype" in columns:
        is_blackwell = np.char.find(columns["device"].astype(str), "B200") >= 0
        yield FOR_PROMPTS, kernels == OWN
        yield UNSUITED, is_blackwell & (kernels == GENERAL) & (columns["head_dim"] == NOT_WIDE)
    if table.precision:
        formats = columns[table.precision].astype(str)
        for written in sorted({*formats.tolist()} - FORMATS.keys()):
            yield f"the format {written}", formats == written


def _row(cells: Cells, table: LayerTable | None) -> tuple[str, Row]:
    """The kind of a row, and the row in the columns of amped's table.

    Raises:
        ValueError: for a cell that is not what the table's form says.
    """
    if table is None:
        raise ValueError(f"{quoted(str(cells['op_name']))} is no operation of such a table")
    try:
        kind, shape = table.row(cells)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{quoted(str(error))} is not what such a table has") from None
    precision = FORMATS[str(cells[table.precision])] if table.precision else "bfloat16"
    name = f"{cells['kernel_source']}"
    if kind == "causal_convolutions":
        name = f"{cells['op_name']} {name}"
    time = positive(cells, LATENCY) * 1e3 / int(cells.get("num_sites", 1))
    return kind, {"accelerator": without_vendor(str(cells["device"])), "precision": precision, "kernel": name,
                  "software": f"{cells['framework']} {cells['version']}", **shape, "time_us": time}  # fmt: skip
