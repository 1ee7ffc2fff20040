"""Logs of runs as rows of measurements: the step and the memory that a log says, and the arguments that it prints.

What a row gives stands above what its log prints. Nothing is guessed: a rate that needs a batch is refused without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from amped.base.errors import ConfigError, Problem, collected
from amped.base.units import parse
from amped.interop import megatron
from amped.interop.logs.reading import SAMPLES, TOKENS, Log, head_of, is_log, read_log
from amped.interop.logs.steps import Measured, measured
from amped.interop.records import Imported
from amped.theory.language.catalogue import catalogue
from amped.validation.table import LOG, Row, read_table

BATCH, SAYS_BATCH = "batch_size", "the row says no batch_size, and the log only samples a second"


def read_runs(path: str | Path | None, asked: Mapping[str, object] = MappingProxyType({})) -> list[Row]:
    """The rows of a table of measurements, with what the logs in its column `log` say; or the one run of a log.

    Args:
        path: a table or a log; None for the table that comes with amped.
        asked: values and rows that a log may not say, for a log alone.

    Raises:
        AmpedError: for a file that cannot be read, with all problems.
    """
    if path is not None and is_log(Path(path)):
        return [with_log(Row(1, {}, dict(asked)), Path(path))]
    rows, problems = read_table(path, catalogue()), list[Problem]()
    for place, row in enumerate(rows):
        if LOG in row.texts:
            with collected(problems, row.place(LOG)):
                rows[place] = with_log(row, Path(path or ".").parent / row.texts[LOG])
    if problems:
        raise ConfigError(problems, file=str(path))
    return rows


def with_log(row: Row, path: Path) -> Row:
    """A row with what the log of its run says.

    Raises:
        ConfigError: if the log and the row contradict each other, or if the log says too little; FileError: for a bad log.
    """
    log = read_log(path)
    settings = {**_arguments(path), **row.settings}
    batch = parse(settings[BATCH], "1") if BATCH in settings else None
    if batch is not None and log.batches and {*log.batches} != {batch}:
        sizes = ", ".join(map(str, log.batches))
        raise ConfigError(f"the log says a global batch of {sizes}, and the row {batch:g}", "keep the one that ran")
    texts = {
        "id": path.name,
        **({"memory_reading": log.format.memory_reading} if log.memory_bytes else {}),
        **row.texts,
    }
    return replace(row, texts=texts, settings=settings, measured={**_measured(log, path, batch), **row.measured})


def _measured(log: Log, path: Path, batch: float | None) -> dict[str, float]:
    """What a log says of a run, by quantity: the pace of a step, its spread and memory."""
    if log.format.measure == SAMPLES and batch is None:
        raise ConfigError(SAYS_BATCH, "fill it")
    run = measured(log, path, batch or 1.0, tokens=1.0)
    is_rate = log.format.measure == TOKENS
    pace = {"tokens_per_second_per_accelerator": 1 / run.step_time} if is_rate else {"step_time": run.step_time}
    memory = {"memory_per_accelerator_bytes": run.memory_bytes} if run.memory_bytes else {}
    return {**pace, **memory, "spread_fraction": _spread(run)}


def _spread(run: Measured) -> float:
    """Half of the distance between the quick and the slow steps of a run, over the middle."""
    return (run.longest - run.shortest) / 2 / run.step_time


def _arguments(path: Path) -> dict[str, Any]:
    """The settings that a log prints; empty if it prints none that amped reads."""
    head = head_of(path)
    return settings_of(megatron.read(head, str(path))) if megatron.is_log(head) else {}


def settings_of(imported: Imported) -> dict[str, Any]:
    """The values and rows of an imported file, in the form of `--set`."""
    named = {"software": imported.software, "model": imported.network}
    return {name: row for name, row in named.items() if isinstance(row, str)} | dict(imported.values)
