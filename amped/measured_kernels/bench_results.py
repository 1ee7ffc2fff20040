"""Reads the kernels that `amped bench run` measured: its records become rows of the tables of measured kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amped.base.errors import FileError, quoted
from amped.base.files import files_below, read_json
from amped.measured_kernels.found_rows import without_vendor
from amped.measured_kernels.kinds import KINDS, MICRO
from amped.measured_kernels.table_reading import MeasuredKernels

ENDING, SCHEMA = ".json", "kernel-bench/1"
Record = Mapping[str, Any]
# The precisions of the tables by torch's names of formats, where these differ.
PRECISION_OF_DTYPE = {"float8_e4m3fn": "fp8"}
# The names of columns by those of a benchmark's dimensions.
PRODUCT = {"m": "m", "n": "n", "k": "k"}
GROUPED = {"ng": "batch", "M": "m", "N": "n", "K": "k"}
ATTENTION = {"batch": "batch", "tokens": "queries", "heads": "heads", "key_value_heads": "key_value_heads",
             "head_dimension": "head_dimension"}  # fmt: skip
BACKWARD = {"batch": "batch", "seq_len": "queries", "head_num": "heads", "kv_head_num": "key_value_heads",
            "qk_head_dim": "head_dimension", "v_head_dim": "head_dimension"}  # fmt: skip
# For each kernel of a benchmark and its pass: the table that has such kernels, its columns, and what is the same in all.
TABLES: Mapping[tuple[str, str], tuple[str, Mapping[str, str], Mapping[str, object]]] = {
    ("gemm", "forward"): ("products", PRODUCT, {"software": "torch"}),
    ("fp8_gemm", "forward"): ("products", PRODUCT, {"software": "torch"}),
    ("grouped_gemm", "forward"): ("grouped_products", GROUPED, {"stage": "fwd"}),
    ("attention", "forward"): ("attention_forward", ATTENTION, {"window": 0}),
    ("attention", "backward"): ("attention_backward_of_peak", BACKWARD, {}),
}


def results_of(folder: Path) -> list[Path]:
    """The files below a folder that are results of `amped bench run`."""
    return [path for path in files_below(folder, ENDING) if is_bench_result(path)]


def is_bench_result(path: Path) -> bool:
    """Whether a file is a result of `amped bench run`.

    Raises:
        FileError: for a JSON file that is damaged.
    """
    return path.suffix == ENDING and schema_of(read_json(path)) == SCHEMA


def schema_of(content: Any) -> object:
    """The schema that a JSON file names; None if it names none."""
    return content.get("schema") if isinstance(content, dict) else None


def not_a_result(content: Any) -> str:
    """The message for a JSON file that is no result of `amped bench run`."""
    return f"is not a result of `amped bench run`: its schema is {quoted(schema_of(content))}, not {SCHEMA!r}"


def read_bench_result(path: Path) -> list[MeasuredKernels]:
    """The kernels of a result that the tables of measured kernels have; others are left out.

    Raises:
        FileError: if it cannot be read, or is no result of `amped bench run`.
    """
    content: Any = read_json(path)
    if schema_of(content) != SCHEMA:
        raise FileError(not_a_result(content), "measure with `amped bench run`, or name a table of kernels", str(path))
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in content["records"]:
        kernel, direction = record["kernel"], record["params"].get("direction", "forward")
        if (kernel, direction) in TABLES and _is_usual(record):
            groups.setdefault((kernel, direction, record["dtype"]), []).append(record)
    return [_kernels(*key, records, content) for key, records in groups.items()]


def _is_usual(record: Record) -> bool:
    """Whether tables can describe the shape: one product, groups of equal size, causal attention without dropout."""
    shape = record["params"]
    if record["kernel"] == "attention":
        return bool(shape["causal"]) and not shape["dropout"] and shape["keys"] in (0, shape["queries"])
    return not shape.get("uneven") and (record["kernel"] == "grouped_gemm" or shape.get("batch", 1) == 1)


def _kernels(
    kernel: str, direction: str, dtype: str, records: Sequence[Record], content: Mapping[str, Any]
) -> MeasuredKernels:
    """The records of one kernel, pass and format (`dtype`, by torch's name) as measured kernels."""
    name, dimensions, constants = TABLES[kernel, direction]
    precision, count = PRECISION_OF_DTYPE.get(dtype, dtype), len(records)
    statistic = "min" if content["device"]["kind"] == "cpu" else "median"
    times = np.array([float(record["time_s"][statistic]) for record in records])
    columns: dict[str, Any] = {
        column: np.array([_size(record["params"], dimension) for record in records])
        for column, dimension in dimensions.items()
    }
    columns |= {column: np.full(count, value) for column, value in {**constants, "precision": precision}.items()}
    columns |= {"kernel": np.array([record["impl"] for record in records]), "time_us": times / MICRO}
    return MeasuredKernels(KINDS[name], accelerator_name(content), precision, library=f"torch {kernel}", columns=columns,
                           times=times, kept_out=np.zeros(count, dtype=np.bool_))  # fmt: skip


def _size(parameters: Mapping[str, Any], name: str) -> float:
    """A dimension of a kernel; attention that names no heads for keys and values has as many as for queries."""
    value = parameters[name]
    return float(value or (parameters["heads"] if name == "key_value_heads" else value))


def accelerator_name(result: Mapping[str, Any]) -> str:
    """The name that tables may have for the measured device: the name its driver gives, without the vendor.

    The name of a processor includes the number of threads.
    """
    device = result["device"]
    return processor_name(result) if device["kind"] == "cpu" else without_vendor(device["name"])


def processor_name(result: Mapping[str, Any]) -> str:
    """The name of a processor's row, which includes the number of threads of the measurement."""
    threads = result["host"].get("threads") or 1
    return f"{result['device']['name']} {threads} thread{'s' if threads > 1 else ''}"
