"""The file of a benchmark: written as a whole after every few records, read strictly, merged if machines agree."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amped.base.errors import FileError, Problem, quoted
from amped.base.files import read_json, shipped_json, write_atomically
from amped.kernels.specs import Record
from amped.measured_kernels.bench_results import SCHEMA as SCHEMA
from amped.measured_kernels.bench_results import not_a_result, schema_of

SCHEMA_FILE = "kernel-bench.schema.json"
Result = dict[str, Any]
# What must be equal for records to be in one file.
SAME = (("device", "name"), ("device", "kind"), ("host", "threads"), ("software", "torch"))
MOST_PROBLEMS = 8


def read_result(path: Path) -> Result:
    """The content of a result file.

    Raises:
        FileError: if it cannot be read, is not a result file, or lacks something; with JSON paths.
    """
    content: Result = read_json(path)
    if schema_of(content) != SCHEMA:
        raise FileError(not_a_result(content), file=str(path))
    refuse_malformed(content, str(path))
    return content


def refuse_malformed(content: Mapping[str, Any], file: str) -> None:
    """Refuses what the schema does not allow; fields that the schema does not know are accepted.

    Raises:
        FileError: with the JSON path of each problem.
    """
    from jsonschema import Draft202012Validator

    errors = sorted(
        Draft202012Validator(shipped_json("kernels", SCHEMA_FILE)).iter_errors(content),
        key=lambda e: list(map(str, e.path)),
    )
    if errors:
        advice = "the file is damaged or of another program; run `amped bench run` again"
        problems = [Problem(e.message[:200], e.json_path.removeprefix("$."), "") for e in errors[:MOST_PROBLEMS]]
        raise FileError([*problems[:-1], Problem(problems[-1].what, problems[-1].where, advice)], file=file)


def write_result(path: Path, result: Result) -> Path:
    """Writes a result file as a whole, over its earlier version: the head, then each record in a line of its own."""
    result["id"] = identity(result["records"])
    head = json.dumps(result | {"records": []}, indent=1, allow_nan=False)
    lines = ",\n".join(json.dumps(record, allow_nan=False, separators=(",", ":")) for record in result["records"])
    return write_atomically(path, head.replace('"records": []', f'"records": [\n{lines}\n ]') + "\n", overwrite=True)


def identity(records: Sequence[Record]) -> str:
    """An identifier of the records: their SHA-256."""
    return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()


def refuse_other_machine(result: Mapping[str, Any], fresh: Mapping[str, Any], file: str) -> None:
    """Refuses to put measurements of two machines into one file.

    Raises:
        FileError: with all differences.
    """
    differing = [
        Problem(f"{part}.{name} is {quoted(result[part].get(name))} there and {quoted(fresh[part].get(name))} here")
        for part, name in SAME
        if result[part].get(name) != fresh[part].get(name)
    ]
    if differing:
        raise FileError(
            [*differing, Problem("a file holds the measurements of one machine", advice="choose another -o")], file=file
        )


def usual_rate(result: Mapping[str, Any]) -> float:
    """The usual TFLOP/s of the sentinel's product, with which records are compared; 0 if no record has a rate.

    A processor can only be disturbed, so that its best counts. A GPU that was idle before runs faster until it is warm,
    so that its median counts.
    """
    rates = [r["gemm_tflops_beside"] for r in result["records"] if "gemm_tflops_beside" in r]
    if not rates:
        return 0.0
    return float(statistics.median(rates) if result["device"]["kind"] == "cuda" else max(rates))
