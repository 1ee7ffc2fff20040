"""Runs of two accelerators whose clocks in training are known: amped's own predictions with these clocks, and noise."""

import json
from pathlib import Path

import numpy as np

from amped.validation.residuals import residuals
from tests.helpers.calibration import HELD, Run, written

CLOCK = "training_clock_fraction"
TRUTH = {"Hopper": 0.85, "Ampere": 0.73}
MACHINES = {"H100 SXM": "first", "A100 SXM 80GB": "second"}
SYSTEMS = {"H100 SXM": "DGX H100", "A100 SXM 80GB": "DGX A100"}
RUNS: list[Run] = [
    {"id": f"{machine}-{width}-{length}-{micro}", "source": source, "confidence": "high", "network": f"wide {width}",
     "layers": layers, "dimensionality": width, "attention_heads": width // 128, "vocabulary_size": 32000,
     "context": length, "accelerator": machine, "system": SYSTEMS[machine], "number_of_accelerators": 8, "tensor_parallel_degree": 1, **HELD, "microbatch_size": micro, "batch_size": 64, "matrix_precision": "bf16", "flash_attention": 1}
    for machine, source in MACHINES.items()
    for layers, width in ((24, 2048), (32, 4096), (40, 5120))
    for length in (2048, 8192)
    for micro in (1, 4)
]  # fmt: skip


def measured_by_truth(folder: Path) -> Path:
    """A table of the runs as accelerators with these clocks would have had them, each off by some noise."""
    rows = {name: {"extends": name, CLOCK: value, "sources": ["a toy"]} for name, value in TRUTH.items()}
    truth = folder / "truth"
    truth.mkdir()
    (truth / "clocks.json").write_text(json.dumps({"table": "kernel_efficiencies", "rows": rows}), "utf-8")
    draft = written(folder / "draft.csv", [run | {"measured_step_time": 1.0} for run in RUNS])
    times = [r.predicted for r in residuals(draft, truth) if r.of_time]
    noise = np.random.default_rng(5).normal(1.0, 0.005, len(RUNS))
    told = zip(RUNS, times, noise, strict=True)
    return written(
        folder / "runs.csv", [run | {"measured_step_time": repr(float(t * n))} for run, t, n in told if t is not None]
    )
