"""`amped bench`: measures this machine's kernels, fits coefficients to them, and compares predictions with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import typer

from amped.base.errors import ConfigError
from amped.base.version import __version__
from amped.cli import options
from amped.cli.bench_anchor import anchor
from amped.cli.bench_compare import compare
from amped.cli.bench_fit import command_line, fit
from amped.cli.bench_ladder import ladder
from amped.cli.bench_published import published
from amped.cli.bench_step import step
from amped.cli.progress import progress

bench = typer.Typer(
    help="Measure this machine's kernels, fit coefficients to them, and compare predictions with measurements.",
    epilog="Start with: amped bench run -o this_machine.json",
    no_args_is_help=True,
    rich_markup_mode=None,
)


for verb, summary in (
    (fit, "Coefficients from measured kernels."),
    (compare, "Predicted beside measured kernels."),
    (ladder, "One layer, from eager to fused, in rungs."),
    (step, "Real training steps beside an estimate."),
    (anchor, "One real layer, for amped calibrate."),
    (published, "Published layers beside predictions."),
):
    bench.command(verb.__name__, short_help=summary)(options.with_options(verb))

# The sets of kernels that can be measured.
Suite = Literal["quick", "full", "model"]


@bench.command("run", short_help="Measure kernels into a file.")
@options.with_scenario
def run(
    asked: options.Scenario,
    suite: Suite | None = None,
    kernel: str | None = None,
    size: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    budget: float | None = None,
    ranks: int = 1,
    threads: int = 1,
    resume: bool = False,
    output: Path = Path("bench.json"),
) -> None:
    """Measure kernels of this machine with PyTorch (pip install 'amped[torch]') into a file.

    The file is written again after every few kernels, so that an interrupted run keeps what it has measured. What does
    not fit into budget or memory is listed as skipped. On a CPU the shortest of many calls counts, on a GPU the median.

    Example: amped bench run --suite quick -o this_machine.json

    Options:
        --suite: Kernels; quick on a CPU, full on a GPU.
        --kernel NAME: One kernel instead of a suite.
        --size N=V,…: Its dimensions: m=4096,n=4096,k=4096.
        --device: cpu or cuda; a GPU where there is one.
        --dtype FORMAT: fp32, bf16 or fp16; else by the device.
        --budget SECONDS 0..: Time for all; else 50 s, on a GPU 300 s.
        --ranks N 1..: Measure collectives between N processes too.
        --threads N: Threads on a CPU; more than 1 needs it idle.
        --resume: Go on with the file: measure what it lacks.
        --output -o FILE: File of the result.
    """
    from amped.kernels.bench_run import Request, measured

    kernels = _kernels(suite, kernel, size, asked)
    request = Request(
        output, suite, kernels, device=device, dtype=dtype, budget=budget, ranks=ranks, threads=threads, resume=resume,
        command=command_line(), version=__version__,
    )  # fmt: skip
    with _measuring() as tell:
        result = measured(request, tell)
    options.tell(_result_in_words(result, output))


def _kernels(
    suite: Suite | None, kernel: str | None, size: str | None, asked: options.Scenario
) -> Callable[[str], Sequence[Any]] | None:
    """A function that returns the kernels to measure in a number format: one kernel, or a model's operators.

    None means the suite of that name.
    """
    from amped.kernels.specs import sizes_of, spec

    if kernel is not None:
        return lambda dtype: [spec(kernel, dtype, **sizes_of(size or "", kernel))]
    if size is not None:
        raise ConfigError("--size is of one kernel", "name it with --kernel")
    return _operators(asked) if suite == "model" else None


def _operators(scenario: options.Scenario) -> Callable[[str], Sequence[Any]]:
    """A function that returns the operators of a layer in a number format, as the performance model lists them."""
    from amped.estimation.estimation import estimated
    from amped.kernels.suites import of_operators

    e = estimated(scenario)
    if not e.uses_kernels:
        raise ConfigError("the closed form of AMPeD has no kernels", "choose performance_model=operators")
    scores = e.results.records("attention_gemms")[0]
    shards = e["tensor_parallel_rows"]
    shape = {
        "batch": max(1, round(e["microbatch_size"])), "heads": max(1, round(e["attention_heads"] / shards)),
        "key_value_heads": max(1, round(e["key_value_heads"] / shards)), "queries": round(scores.m),
        "keys": round(scores.n), "head_dimension": round(scores.k), "causal": e["computed_score_fraction"] < 1,
    }  # fmt: skip
    records = (*e.results.records("layer_operators"), *e.results.records("output_head_operators"))
    return lambda dtype: of_operators(records, dtype, shape, bool(e["gated_mlp"]))


def _result_in_words(result: dict[str, Any], output: Path) -> str:
    """A sentence on the kernels that were measured, that are noisy and that were skipped, and on the file."""
    skipped = [entry["reason"] for entry in result["skipped"]]
    reasons = "; ".join(f"{skipped.count(reason)} {reason}" for reason in dict.fromkeys(skipped))
    noisy = sum("noisy" in record["flags"] for record in result["records"])
    parts = [f"{len(result['records'])} kernels of {result['device']['name']} measured in {result['wall_s']:.1f} s"]
    parts += [f"{noisy} noisy"] if noisy else []
    parts += [f"{len(skipped)} skipped ({reasons})"] if skipped else []
    return f"{', '.join(parts)}; written to {output}"


@contextmanager
def _measuring() -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar, as a function of the number of finished kernels, the number of all, and the current kernel."""
    from rich.progress import MofNCompleteColumn

    with progress("measuring", MofNCompleteColumn()) as (bar, task):
        yield lambda done, total, kernel: bar.update(task, completed=done, total=total, told=kernel)
