"""Measurements of a machine whose coefficients are known: amped's own predictions with other coefficients, and noise."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from amped.validation.residuals import residuals

Run = dict[str, object]
MACHINE = "H200 SXM"
NETWORKS = {"a": (24, 2048, 16), "b": (32, 4096, 32), "c": (40, 5120, 40), "d": (48, 8192, 64)}
# What the chooser would search beside the tensor degree: it is given, so that a run is one estimate.
HELD: Run = {
    "software": "all fused", "sequence_parallel": 0, "dropout": 0, "virtual_pipeline_stages": 1, "zero_stage": 0,
    "activation_recomputation": "none",
    **{f"{kind}_parallel_degree": 1 for kind in ("pipeline", "expert", "expert_tensor", "context")},
}  # fmt: skip
RUNS: list[Run] = [
    {"id": f"{name}-{tp}-{length}-{micro}", "network": name, "layers": layers, "dimensionality": width,
     "attention_heads": heads, "vocabulary_size": 32000, "context": length, "accelerator": MACHINE, "system": "DGX H200", "number_of_accelerators": 8,
     "tensor_parallel_degree": tp, **HELD,
     "microbatch_size": micro, "batch_size": 64, "matrix_precision": "bf16", "flash_attention": 1}
    for name, (layers, width, heads) in NETWORKS.items()
    for tp, length, micro in ((1, 2048, 4), (2, 16384, 1), (4, 32768, 1), (8, 2048, 2))
]  # fmt: skip


def tables_with(folder: Path, **values: object) -> Path:
    """A folder of lookup tables in which the machine has other coefficients."""
    made = folder / "truth"
    made.mkdir(exist_ok=True)
    row = {"extends": MACHINE, "sources": ["a toy"], **values}
    (made / "kernels.json").write_text(json.dumps({"table": "kernel_efficiencies", "rows": {MACHINE: row}}), "utf-8")
    return made


def measured(folder: Path, noise: float = 0.0, runs: Sequence[Run] = RUNS, **values: object) -> Path:
    """A table of the runs as a machine with these coefficients would have had them, each off by some noise."""
    scatter = np.random.default_rng(7).normal(1.0, noise, len(runs)) if noise else np.ones(len(runs))
    draft = written(folder / "draft.csv", [run | {"measured_step_time": 1.0} for run in runs])
    times = [r.predicted for r in residuals(draft, tables_with(folder, **values)) if r.of_time]
    rows = [run | {"measured_step_time": repr(float(t * s))} for run, t, s in zip(runs, times, scatter, strict=True)]
    return written(folder / "runs.csv", rows)


def written(path: Path, rows: Sequence[Run]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(dict.fromkeys(name for row in rows for name in row)), restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path
