"""Speed in one table: start-up, one estimate, explorations, each beside its goal. See README.md beside this file."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tpe

PASS = [sys.executable, "-c", "pass"]
HELP = [sys.executable, "-m", "amped", "--help"]
ESTIMATE = [sys.executable, "-m", "amped", "estimate"]
QUESTION = [*ESTIMATE, "--model", "Llama 3 70B", "--system", "DGX H100", "--gpus", "64"]
# GPT-3 175B on 1024 A100: 12.2 million candidates with --space full, besides those that are known to be no better.
MACHINE = {"model": "GPT-3 175B", "system": "DGX A100", "number_of_accelerators": 1024, "batch_size": 1536}
MIXTURE = {"model": "DeepSeek V3", "system": "DGX H100", "number_of_accelerators": 512, "batch_size": 4096,
           "tokens_to_train": 1e12}  # fmt: skip
# What people search, as they type it, and its goal beside `amped estimate`.
SEARCHES = (
    ("explore, Llama 3 70B, 64 H100", ["explore", *QUESTION[len(ESTIMATE) :]], 3),
    ("explore, DeepSeek V3, 512, tuned",
     ["explore", "--model", "DeepSeek V3", "--system", "DGX H100", "--gpus", "512", "--manner", "tuned"], 25),
    ("recommend, Llama 3 70B, 30 days", ["recommend", "--model", "Llama 3 70B", "--deadline", "30 days"], 10),
)  # fmt: skip
# Full evaluations that Calculon does in a second on one core; the tool of TPE in tpe.py.
CALCULON = 120.0
POINTS = 100
WIDTHS = (32, 11, 31, 12, 6)

# One thread, and modules that are compiled once, as on a user's machine.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1"}


class Row(NamedTuple):
    """A line of the table: what was measured, beside what, its goal, and whether that is met (None: there is none)."""

    name: str
    result: str
    beside: str = ""
    goal: str = ""
    met: bool | None = None

    def __str__(self) -> str:
        cells = (*self[:4], {None: "", True: "met", False: "missed"}[self.met])
        return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def process_time(command: list[str], folder: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - start


def processor_time(command: list[str], folder: str) -> float:
    """The seconds of one core that a command takes, whatever else runs beside it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process_time(command, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def ratio(
    command: list[str], other: list[str], runs: int, seconds: Callable[[list[str], str], float] = process_time
) -> tuple[float, float, float]:
    """Median seconds of both, taken in turn, and the median of the ratios pair by pair."""
    with tempfile.TemporaryDirectory() as folder:
        seconds(command, folder)
        pairs = [(seconds(command, folder), seconds(other, folder)) for _ in range(runs)]
    one, two = zip(*pairs, strict=True)
    return statistics.median(one), statistics.median(two), statistics.median(a / b for a, b in pairs)


def call_time(function: Callable[[], object], runs: int) -> float:
    function()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def evaluate_alone() -> Callable[[], object]:
    """One cell of a scalar loop: the same plan run for one configuration, nothing else."""
    from amped.configuring.scenario import read_scenario
    from amped.engine.evaluate import run
    from amped.estimation.estimation import estimated

    asked = read_scenario("default")
    chosen = estimated(asked).plan
    return lambda: run(chosen, asked.sources.given)


def resolve_and_evaluate() -> Callable[[], object]:
    """One configuration, resolved and evaluated: what happens after the config is read."""
    from amped.configuring.scenario import read_scenario
    from amped.estimation.estimation import estimated

    asked = read_scenario("default")
    return lambda: estimated(asked)


def alone(*arguments: object) -> tuple[dict[str, Any], float]:
    """What this file printed last in a process of its own, and the seconds of one core that the process took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(done.stdout.splitlines()[-1]), spent


def explored(what: str) -> None:
    """One exploration in this process; prints what it took."""
    import numpy as np

    import amped

    sweep = {"memory_bandwidth": np.linspace(1e12, 8e12, POINTS).tolist(),
             "inter_accelerator_bandwidth": np.linspace(1e11, 9e11, POINTS).tolist()}  # fmt: skip
    swept: dict[str, Any] = {"vary": sweep, "each": tuple(sweep), "top": 1, "space": "degrees"}
    large: dict[str, Any] = {"space": "full", "vary": {"batch_size": [MACHINE["batch_size"] * n for n in (1, 2, 4, 8)]}}
    options = {"sweep": swept, "full": {"space": "full"}, "large": large, "two": large | {"workers": 2}, "mixture": {}}[
        what
    ]
    amped.estimate("default")  # the formulas are read
    started, clock = time.process_time(), time.perf_counter()
    asked = MIXTURE if what == "mixture" else MACHINE
    machine = {name: value for name, value in asked.items() if name not in options.get("vary", ())}
    found = amped.explore("default", **options, **machine)
    took = {"cpu": time.process_time() - started, "wall": time.perf_counter() - clock}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"candidates": found.candidates, "points": len(found.groups), "memory": peak} | took))


def small(runs: int) -> Iterator[Row]:
    """Start-up and one estimate."""
    import amped

    for name, command, goal in (("amped --help", HELP, 8), ("amped estimate", ESTIMATE, 25)):
        seconds, base, times = ratio(command, PASS, runs)
        beside = f"{times:.1f} x python -c pass ({base * 1e3:.0f} ms)"
        yield Row(name, f"{seconds * 1e3:.0f} ms", beside, f"<= {goal} x", times <= goal)
    seconds, base, times = ratio(QUESTION, ESTIMATE, runs, processor_time)
    beside = f"{times:.2f} x amped estimate ({base * 1e3:.0f} ms)"
    yield Row("  --model ... --gpus 64, of a core", f"{seconds * 1e3:.0f} ms", beside, "<= 1.3 x", times <= 1.3)
    one = call_time(resolve_and_evaluate(), 50)
    yield Row("resolve and evaluate one", f"{one * 1e3:.2f} ms", "in-process, after the first", "<= 20 ms", one <= 0.02)
    whole = call_time(lambda: amped.estimate("default"), 50)
    yield Row("amped.estimate, from the config", f"{whole * 1e3:.2f} ms", "config read and checked")


def searches(runs: int) -> Iterator[Row]:
    """Searches as they are typed, in the processor's time, beside one estimate."""
    for name, words, goal in SEARCHES:
        seconds, base, times = ratio([*ESTIMATE[:-1], *words], ESTIMATE, runs, processor_time)
        beside = f"{times:.1f} x amped estimate ({base * 1e3:.0f} ms)"
        yield Row(name, f"{seconds:.1f} s", beside, f"<= {goal} x", times <= goal)


def headline(cell: float, runs: int) -> Iterator[Row]:
    """The study of TPE; the tool's seconds are those of as many candidates at its own rate."""
    again = [alone(tpe.__file__, 6)[0] for _ in range(runs)]
    number, spent = again[0]["candidates"], min(each["cpu"] for each in again)
    fresh = min(alone(tpe.__file__)[1] for _ in range(runs))
    tool = tpe.TOOL_SECONDS / tpe.TOOL_CANDIDATES * number
    yield Row(f"TPE's study, {number:,} candidates", f"{spent:.2f} s", f"{number * cell / spent:,.0f} x a scalar loop")
    yield Row("  in-process", f"{number / spent:,.0f} / s", f"{tool / spent:,.0f} x the tool's {tool:.0f} s", ">= 1,000 x",
              tool / spent >= 1000)  # fmt: skip
    yield Row("  with start-up", f"{fresh:.2f} s", f"{tool / fresh:,.0f} x the tool's {tool:.0f} s", ">= 300 x",
              tool / fresh >= 300)  # fmt: skip


def explorations(cell: float, runs: int) -> Iterator[Row]:
    """Large spaces: rate, memory, two processes, and a sweep of hardware."""
    here = str(Path(__file__))
    full = min((alone(here, "--explore", "full")[0] for _ in range(runs)), key=lambda each: each["cpu"])
    number, spent = full["candidates"], full["cpu"]
    rate = number / spent
    yield Row(
        f"--space full, {number:,}", f"{spent:.1f} s", f"{rate * cell:,.0f} x a scalar loop", "< 20 s", spent < 20
    )
    yield Row("  candidates a second and core", f"{rate:,.0f}", f"{rate / CALCULON:,.0f} x Calculon's {CALCULON:.0f}",
              ">= 5,000,000", rate >= 5e6)  # fmt: skip
    yield Row("  resident memory", f"{full['memory']:,.0f} MiB", "", "< 1,536 MiB", full["memory"] < 1536)
    mixture = min((alone(here, "--explore", "mixture")[0] for _ in range(runs)), key=lambda each: each["cpu"])
    spent, beside = mixture["cpu"], f"{mixture['candidates'] * cell / mixture['cpu']:,.0f} x a scalar loop"
    yield Row(f"DeepSeek V3, 512 H100, {mixture['candidates']:,}", f"{spent:.1f} s", beside, "< 20 s", spent < 20)
    yield Row("  resident memory", f"{mixture['memory']:,.0f} MiB", "", "< 1,536 MiB", mixture["memory"] < 1536)
    pairs = [[alone(here, "--explore", name)[0]["wall"] for name in ("large", "two")] for _ in range(runs)]
    one, two = (min(walls) for walls in zip(*pairs, strict=True))
    times, beside = one / two, f"{one:.1f} s / {two:.1f} s"
    yield Row("two processes, four batch sizes", f"{times:.2f} x", f"{beside}, by the clock", ">= 1.6 x", times >= 1.6)
    sweep = alone(here, "--explore", "sweep")[0]
    points = f"{sweep['candidates']:,} candidates"
    yield Row(
        f"hardware sweep, {sweep['points']:,} optima", f"{sweep['cpu']:.1f} s", points, "< 60 s", sweep["cpu"] < 60
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="of short commands; of long ones a third")
    parser.add_argument("--explore", choices=["full", "large", "two", "sweep", "mixture"], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.explore:
        explored(chosen.explore)
        return
    cell, few = call_time(evaluate_alone(), 200), max(1, chosen.runs // 3)
    print(Row("", "result", "beside", "goal"))
    for rows in (small(chosen.runs), searches(few), headline(cell, few), explorations(cell, few)):
        for row in rows:
            print(row, flush=True)


if __name__ == "__main__":
    main()
