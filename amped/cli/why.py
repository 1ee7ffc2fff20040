"""`amped why`: what slows a configuration down, and what would make it faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amped.base.errors import ConfigError
from amped.cli import options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from amped.estimation.estimation import Estimation


class Run(NamedTuple):
    """What a log or traces say: the seconds of a step, and all else as plain data and as a report."""

    step_time: float
    data: Mapping[str, object]
    report: RenderableType


@options.bundled(question=options.asked)
def why(
    question: options.Asking,
    top: int = 3,
    measured: str | None = None,
    measured_mfu: str | None = None,
    log: Path | None = None,
    trace: list[Path] | None = None,
    snapshot: Path | None = None,
    as_json: bool = False,
) -> None:
    """Say what a step waits for, and which single changes make it faster.

    A waterfall leads from the peak rate to the step. Each change is estimated by itself; those that do not fit in memory
    are left out. `amped explore` changes several parameters at once. Where recipes of the software are known, what they
    switch on follows step by step. With a measured step: what would have to be different, the least surprising first.
    A log gives it, and where Megatron-LM printed its arguments and no config is named, the configuration. Traces give its
    parts, too: each beside that of the estimate, and what would close the largest gaps. A memory snapshot of PyTorch
    says how much each device held at most, beside the estimate, what held it, and how much was reserved in vain.

    Example: amped why --model "Llama 3 70B" --system "DGX A100" --gpus 64

    Options:
        --top K 1..: How many changes to show.
        --measured TIME: The step of your run: "6.4 s".
        --measured-mfu SHARE: Its MFU instead: 35%.
        --log FILE: The log of your run instead.
        --trace FILE: Its trace instead; repeatable.
        --snapshot FILE: A memory snapshot of it, in addition.
    """
    from amped.estimation.estimation import estimated
    from amped.library.answers import reasons_of

    asked = (question if log is None else _of_log(question, log)).completed()
    estimate = estimated(asked)
    run = _log(log, estimate) if log is not None else _traces(trace, estimate) if trace else None
    _check_one(measured, measured_mfu, log, trace or None)
    step = _measured(measured, measured_mfu, run, estimate["model_flops_utilization"] * estimate["step_time"])
    found = reasons_of(asked, estimate, step)
    runs = [*([] if run is None else [run]), *([] if snapshot is None else [_memory(snapshot, estimate)])]
    if as_json:
        options.show_json(
            {name: value for each in (found.to_dict(), *(run.data for run in runs)) for name, value in each.items()}
        )
        return
    for each in runs:
        options.show(each.report)
    options.show(found.screen(top))


def _of_log(question: options.Asking, log: Path) -> options.Asking:
    """The question, with the arguments that a log prints as its config if it names neither a config nor a network.

    Raises:
        ConfigError: if the log prints no arguments, either.
    """
    from amped.interop import megatron
    from amped.interop.as_config import as_config
    from amped.interop.logs.reading import head_of

    if question.config is not None or "model" in question.values:
        return question
    head = head_of(log)
    if not megatron.is_log(head):
        raise ConfigError(f"{log} prints no arguments that amped reads", "name the config, or --model and --system")
    options.tell_notices([f"the configuration is that of the arguments in {log}; `amped import {log}` shows it"])
    return question._replace(config=as_config(megatron.read(head, str(log))))


def _log(log: Path, e: Estimation) -> Run:
    """The step of a log, whose tokens and samples are those of the estimate."""
    from amped.interop.logs.reading import read_log
    from amped.interop.logs.steps import measured
    from amped.report.logged import logged

    tokens = e["batch_size"] * e["context"] / e["number_of_accelerators"]
    run = measured(read_log(log), log, e["batch_size"], tokens)
    return Run(run.step_time, {"log": asdict(run)}, logged(run, e["memory_per_accelerator_bytes"]))


def _traces(files: Sequence[Path], e: Estimation) -> Run:
    """The step of traces, on average over their processes, with its parts beside those of the estimate."""
    from amped.interop.traces.gaps import gaps
    from amped.interop.traces.measuring import measured_step
    from amped.interop.traces.reading import read_traces
    from amped.report.traced import traced

    steps = [measured_step(trace) for trace in read_traces(files)]
    found = gaps(steps, e)
    data = {"traces": [asdict(step) for step in steps], "gaps": [asdict(gap) for gap in found]}
    return Run(sum(step.step_time for step in steps) / len(steps), data, traced(steps, found))


def _memory(file: Path, e: Estimation) -> Run:
    """The memory of a snapshot beside that of the estimate; it says nothing of the time."""
    from amped.interop.snapshots import read_snapshot
    from amped.report.snapshot import snapshot_screen

    devices = read_snapshot(file)
    return Run(
        0.0,
        {"snapshot": [asdict(device) for device in devices]},
        snapshot_screen(devices, e["memory_per_accelerator_bytes"]),
    )


def _check_one(*measures: object) -> None:
    """Refuses several measures of one step.

    Raises:
        ConfigError: if more than one is given.
    """
    if sum(measure is not None for measure in measures) > 1:
        raise ConfigError("--measured, --measured-mfu, --log and --trace are measures of one step", "keep one")


def _measured(time: str | None, utilization: str | None, run: Run | None, peak_time: float) -> float | None:
    """The measured seconds of a step; None if nothing is given.

    Args:
        time: the step as text.
        utilization: its MFU as text.
        run: the step of a log or of traces.
        peak_time: the seconds of the model's FLOPs at the peak rate.

    Raises:
        ConfigError: if a text cannot be read or is not positive.
    """
    if run is not None:
        return run.step_time
    if time is not None:
        return _positive(time, "s", "--measured")
    return None if utilization is None else peak_time / _positive(utilization, "1", "--measured-mfu", most=1.0)


def _positive(text: str, unit: str, option: str, most: float = float("inf")) -> float:
    """The number of an option's text in a unit: above 0, and at most `most`."""
    from amped.base.units import parse

    number = parse(text, unit)
    if not 0 < number <= most:
        limits = "above 0" if most == float("inf") else f"above 0 and at most {most:g}"
        raise ConfigError(f"{option} {text!r} is no measure of a step", f"it is {limits}")
    return number
