"""Results of benchmarks made up from known coefficients, and the formulas that the verb hands to the annexe."""

import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from amped.cli.bench_fit import coefficients_of
from amped.kernels.machine import Machine
from amped.kernels.predicting import predicted, samples
from amped.kernels.specs import KernelSpec, spec
from amped.tables.tables import Tables

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="needs PyTorch: pip install 'amped[torch]'")
GPU = Machine("H100 SXM", True, {"bfloat16": 989.4e12, "float32": 66.9e12}, 66.9e12, 3.35e12, 132.0)
CPU = Machine("a processor", False, {"float32": 160e9}, 20e9, 10e9, 1.0)
DEFAULTS = coefficients_of(Tables(), "default")


def has_gpu() -> bool:
    if not HAS_TORCH:
        return False
    import torch

    return bool(torch.cuda.is_available())


needs_gpu = pytest.mark.skipif(not has_gpu(), reason="needs a GPU that torch sees, and here is none")


def record(
    kernel: str, dtype: str = "float32", seconds: float = 1e-3, flags: Iterable[str] = (), **sizes: Any
) -> dict[str, Any]:
    """A record whose calls all took the same time."""
    each = spec(kernel, dtype, **sizes)
    times = dict.fromkeys(("median", "p10", "p90", "min"), seconds) | {"n": 5}
    return {"kernel": kernel, "params": dict(each.params), "dtype": dtype, "impl": "made up", "flop": each.flop,
            "bytes": each.bytes, "time_s": times, "flags": list(flags), "sentinel": 0}  # fmt: skip


def result(records: Iterable[dict[str, Any]], kind: str = "cpu", name: str = "a processor") -> dict[str, Any]:
    """A result file's content."""
    device = {"kind": kind, "name": name, "mem_bytes": 16e9, "l2_bytes": 32 << 20, "count": 1}
    device |= {"clock_mhz": {"core": 2500.0}, "mac_per_cycle": 32} if kind == "cpu" else {"sm": 132}
    return {
        "schema": "kernel-bench/1", "id": "", "date": "2026-11-20T09:30:00Z", "wall_s": 1.0, "budget_s": 60.0,
        "device": device, "host": {"cpu": name, "cores": 2, "threads": 1}, "software": {"torch": "2.13.0"},
        "settings": {"seed": 0, "statistic": "min" if kind == "cpu" else "median"}, "records": list(records),
        "skipped": [], "sentinels": [{"at_s": 0.0, "gemm_tflops": 0.1, "copy_gbs": 10.0}],
    }  # fmt: skip


def planted(
    specs: Iterable[KernelSpec],
    truth: Mapping[str, float],
    machine: Machine,
    noise: float = 0.03,
    seed: int = 3,
    kind: str = "cuda",
) -> dict[str, Any]:
    """Records whose times are those of known coefficients, each off by a little."""
    made = [record(each.kernel, each.dtype, **each.params) for each in specs]
    random = np.random.default_rng(seed)
    for s in samples(made, "min", kind):
        times = predicted(s, {**DEFAULTS, **truth}, machine)
        for own, seconds in zip(s.records, np.broadcast_to(times, (1, len(s)))[0], strict=True):
            off = float(seconds) * (1 + random.uniform(-noise, noise))
            own["time_s"].update(dict.fromkeys(("median", "p10", "p90", "min"), off))
    return result(made, kind, machine.name)
