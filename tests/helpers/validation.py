"""Tables of measurements as users have them: one row by default, written with any heads."""

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from amped.validation.measurements import Measurement
from amped.validation.residuals import Residual, residuals

RUN = {"id": "mine", "source": "us", "network": "ours", "layers": 32, "dimensionality": 4096, "attention_heads": 32,
       "vocabulary_size": 32000, "context": 4096, "system": "DGX H100", "number_of_accelerators": 16,
       "data_parallel_degree": 16, "zero_stage": 3, "batch_size": 64, "microbatch_size": 1, "measured_step_time": 5.0}  # fmt: skip

ENTRY = ["id", "source", "quantity", "measured", "predicted", "error_fraction", "fits_in_memory", "reason"]


def table(folder: Path, *rows: Mapping[str, object], heads: Mapping[str, str] | None = None) -> Path:
    """A file of rows; `heads` are what its columns are called."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    path = folder / "runs.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as stream:
        writer = csv.writer(stream)
        writer.writerow([(heads or {}).get(name, name) for name in names])
        writer.writerows([row.get(name, "") for name in names] for row in rows)
    return path


@cache
def shipped() -> tuple[Residual, ...]:
    """The measurements that come with amped beside its predictions."""
    return tuple(residuals())


def rows_of(found: Iterable[Residual]) -> dict[str, Measurement]:
    return {r.measurement.id: r.measurement for r in found}
