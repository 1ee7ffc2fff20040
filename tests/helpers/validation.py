"""Tables of measurements as users have them: one row by default, written with any heads."""

import csv
import fcntl
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from amped.validation.measurements import Measurement
from amped.validation.residuals import Residual, residuals
from tests.helpers.cli import amped
from tests.helpers.places import ROOT

RUN = {"id": "mine", "source": "us", "network": "ours", "layers": 32, "dimensionality": 4096, "attention_heads": 32,
       "vocabulary_size": 32000, "context": 4096, "system": "DGX H100", "number_of_accelerators": 16,
       "data_parallel_degree": 16, "zero_stage": 3, "batch_size": 64, "microbatch_size": 1, "measured_step_time": 5.0}  # fmt: skip

# Of the last run of pytest, with its name.
KEPT = ROOT / ".pytest_cache" / "residuals"
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
    """The measurements that come with amped beside its predictions, which take seconds: found once for all workers."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return tuple(residuals())
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of two workers the second waits for what the first finds
        file.seek(0)
        of, _, kept = file.read().partition(b"\n")
        if of == run.encode():
            return pickle.loads(kept)  # type: ignore[no-any-return]
        found = tuple(residuals())
        file.truncate(0)
        file.write(run.encode() + b"\n" + pickle.dumps(found))
        return found


@contextmanager
def estimated_once() -> Iterator[None]:
    """Within it, `amped validate` of the shipped table prints `shipped()`: the estimates take seconds, each time anew.

    tests/validation/test_own_runs.py runs the command without it, over a table of its own.
    """
    with mock.patch(
        "amped.validation.residuals.residuals", lambda table, tables, typed=None: list(alike(table, tables))
    ):
        yield


def alike(table: Path | None, lookup_tables: Path | None) -> Iterable[Residual]:
    return shipped() if table is None and lookup_tables is None else residuals(table, lookup_tables)


def validate(*flags: str, folder: Path) -> str:
    """What `amped validate` of the shipped table prints."""
    with estimated_once():
        done = amped("validate", *flags, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(found: Iterable[Residual]) -> dict[str, Measurement]:
    return {r.measurement.id: r.measurement for r in found}
