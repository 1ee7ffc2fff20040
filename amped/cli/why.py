"""`amped why`: what slows a configuration down, and what would make it faster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from amped.base.errors import ConfigError
from amped.cli import options

if TYPE_CHECKING:
    from amped.estimation.estimation import Estimation
    from amped.interop.logs.steps import Measured

# The characters at the begin of a log in which a framework prints its arguments.
HEAD = 1_000_000


@options.bundled(question=options.asked)
def why(
    question: options.Asking,
    top: int = 3,
    measured: str | None = None,
    measured_mfu: str | None = None,
    log: Path | None = None,
    as_json: bool = False,
) -> None:
    """Say what a step waits for, and which single changes make it faster.

    A waterfall leads from the peak rate to the step. Each change is estimated by itself; those that do not fit in memory
    are left out. `amped explore` changes several parameters at once. Where recipes of the software are known, what they
    switch on follows step by step. With a measured step: what would have to be different, the least surprising first.
    A log gives it, and where Megatron-LM printed its arguments and no config is named, the configuration.

    Example: amped why --model "Llama 3 70B" --system "DGX A100" --gpus 64

    Options:
        --top K 1..: How many changes to show.
        --measured TIME: The step of your run: "6.4 s".
        --measured-mfu SHARE: Its MFU instead: 35%.
        --log FILE: The log of your run instead.
    """
    from amped.estimation.estimation import estimated
    from amped.library.answers import reasons_of

    asked = (question if log is None else _of_log(question, log)).completed()
    estimate = estimated(asked)
    run = None if log is None else _run(log, estimate)
    step = _measured(measured, measured_mfu, run, estimate["model_flops_utilization"] * estimate["step_time"])
    found = reasons_of(asked, estimate, step)
    if as_json:
        options.show_json(found.to_dict() | ({} if run is None else {"log": asdict(run)}))
        return
    if run is not None:
        from amped.report.logged import logged

        options.show(logged(run, estimate["memory_per_accelerator_bytes"]))
    options.show(found.screen(top))


def _of_log(question: options.Asking, log: Path) -> options.Asking:
    """The question, with the arguments that a log prints as its config if it names neither a config nor a network.

    Raises:
        ConfigError: if the log prints no arguments, either.
    """
    from amped.interop import megatron
    from amped.interop.as_config import as_config

    if question.config is not None or "model" in question.values:
        return question
    with log.open(encoding="utf-8", errors="replace") as file:
        head = file.read(HEAD)
    if not megatron.is_log(head):
        raise ConfigError(f"{log} prints no arguments that amped reads", "name the config, or --model and --system")
    options.tell_notices([f"the configuration is that of the arguments in {log}; `amped import {log}` shows it"])
    return question._replace(config=as_config(megatron.read(head, str(log))))


def _run(log: Path, e: Estimation) -> Measured:
    """The step of a log, whose tokens and samples are those of the estimate."""
    from amped.interop.logs.reading import read_log
    from amped.interop.logs.steps import measured

    tokens = e["batch_size"] * e["context"] / e["number_of_accelerators"]
    return measured(read_log(log), log, e["batch_size"], tokens)


def _measured(time: str | None, utilization: str | None, run: Measured | None, peak_time: float) -> float | None:
    """The measured seconds of a step; None if nothing is given.

    Args:
        time: the step as text.
        utilization: its MFU as text.
        run: the step of a log.
        peak_time: the seconds of the model's FLOPs at the peak rate.

    Raises:
        ConfigError: if several are given, or if a text cannot be read or is not positive.
    """
    if sum(measure is not None for measure in (time, utilization, run)) > 1:
        raise ConfigError("--measured, --measured-mfu and --log are measures of one step", "keep one")
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
