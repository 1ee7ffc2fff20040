"""Speed as ratios in one run: start-up, one estimate, exploration. See README.md beside this file."""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

PASS = [sys.executable, "-c", "pass"]
HELP = [sys.executable, "-m", "amped", "--help"]
ESTIMATE = [sys.executable, "-m", "amped", "estimate"]


def process_time(command: list[str], folder: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def ratio(command: list[str], other: list[str], runs: int) -> tuple[float, float, float]:
    """Median seconds of both, taken in turn, and the median of the ratios pair by pair."""
    with tempfile.TemporaryDirectory() as folder:
        process_time(command, folder)
        pairs = [(process_time(command, folder), process_time(other, folder)) for _ in range(runs)]
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
    from amped.estimation import Estimation, estimated
    from amped.evaluate import run
    from amped.scenario import read_scenario

    asked = read_scenario("default")
    chosen = estimated(asked, Estimation).plan
    return lambda: run(chosen, asked.sources.given)


def resolve_and_evaluate() -> Callable[[], object]:
    """One configuration, resolved and evaluated: what happens after the config is read."""
    from amped.estimation import Estimation, estimated
    from amped.scenario import read_scenario

    asked = read_scenario("default")
    return lambda: estimated(asked, Estimation)


def exploration() -> tuple[int, float]:
    """Every mapping of GPT-3 175B on 1024 A100, with ZeRO 0 to 3, three switches of overlap and a memory policy."""
    import amped

    machine = {"model": "GPT-3 175B", "system": "DGX A100", "number_of_accelerators": 1024, "batch_size": 1536}
    found = amped.explore("default", space="full", **machine)
    return found.candidates, found.elapsed_time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    rows = []
    for name, command, goal in (("amped --help", HELP, 10), ("amped estimate", ESTIMATE, 40)):
        seconds, base, times = ratio(command, PASS, runs)
        rows.append(
            (name, f"{seconds * 1e3:.0f} ms", f"{times:.1f} x `python -c pass` ({base * 1e3:.0f} ms)", f"<= {goal} x")
        )

    import amped

    cell = call_time(evaluate_alone(), 200)
    one = call_time(resolve_and_evaluate(), 50)
    rows.append(("resolve and evaluate one", f"{one * 1e3:.2f} ms", "in-process, after the first", "<= 20 ms"))
    whole = call_time(lambda: amped.estimate("default"), 50)
    rows.append(("amped.estimate, from the config", f"{whole * 1e3:.2f} ms", "config read and checked", ""))
    candidates, elapsed = min((exploration() for _ in range(3)), key=lambda found: found[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = candidates / elapsed
    rows.append(
        (
            f"explore --space full, {candidates:,}",
            f"{rate:,.0f} / s",
            f"{rate * cell:,.0f} x a scalar loop",
            ">= 2,000,000 / s",
        )
    )
    rows.append(("resident memory after it", f"{peak:,.0f} MiB", "", "< 1024 MiB"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
