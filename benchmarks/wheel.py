"""Start-up as a user has it: a wheel in a fresh virtual environment, the commands as they are typed. See README.md."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
QUESTION = ["--model", "Llama 3 70B", "--system", "DGX H100", "--gpus", "64"]
# Each command with its goal, as a multiple of `python -c pass` of the same environment.
COMMANDS = ((["--help"], 8), (["estimate"], 25), (["estimate", *QUESTION], 25))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
Measured = Callable[[list[str], str], float]


def installed(folder: Path) -> Path:
    """The folder of commands of a fresh environment that has amped from its wheel."""
    quiet = [sys.executable, "-m", "pip", "wheel", "-q", str(HERE), "--no-deps", "-w", str(folder)]
    subprocess.run(quiet, check=True, env=ENVIRONMENT)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, env=ENVIRONMENT)
    commands = folder / "venv" / "bin"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([commands / "python", "-m", "pip", "install", "-q", wheel], check=True, env=ENVIRONMENT)
    return commands


def by_the_clock(command: list[str], folder: str) -> float:
    """Seconds of a command by the clock."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - start


def of_the_processor(command: list[str], folder: str) -> float:
    """Seconds of a processor: steadier where other work runs on the machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=ENVIRONMENT | {"OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio(seconds: Measured, command: list[str], other: list[str], runs: int, folder: str) -> tuple[float, float]:
    """The median seconds of a command, and the median of its ratios to another that runs in turn with it."""
    seconds(command, folder)
    pairs = [(seconds(command, folder), seconds(other, folder)) for _ in range(runs)]
    return statistics.median(one for one, _ in pairs), statistics.median(one / other for one, other in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        commands = installed(Path(folder))
        bare = [str(commands / "python"), "-c", "pass"]
        for words, goal in COMMANDS:
            typed = [str(commands / "amped"), *words]
            clock, times = ratio(by_the_clock, typed, bare, runs, folder)
            processor = ratio(of_the_processor, typed, bare, runs, folder)[1]
            met = "met" if times <= goal else "missed"
            told = f"{1e3 * clock:5.0f} ms  {times:5.1f} x python -c pass ({processor:.1f} x of the processor)"
            print(f"{' '.join(['amped', *words])[:40]:40}  {told}  <= {goal} x  {met}", flush=True)


if __name__ == "__main__":
    main()
