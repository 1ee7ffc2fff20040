"""What the gate on every result costs: its time beside all the rest, in this process and in the whole command `amped estimate`.

Both are timed in one run, so that what else runs on the machine slows both. It ends with 1 if the gate costs more than 2 %.

    python benchmarks/gate.py [RUNS of the command]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from unittest import mock

from run import ENVIRONMENT, Row

import amped
from amped.estimation import estimation

ALLOWED, ESTIMATES = 0.02, 400
# The whole command; it ends with the seconds of the gate, its import among them, and those of the process.
COMMAND = """
import atexit, sys, time
import amped.configuring.gathering, amped.engine.evaluate, amped.estimation.parts, amped.theory.language.catalogue
began = time.process_time()
import amped.estimation.gate as gate
took = [time.process_time() - began]
def timed(own):
    def call(*arguments):
        began = time.process_time()
        found = own(*arguments)
        took.append(time.process_time() - began)
        return found
    return call
gate.pass_gate, gate.given_from_inside = timed(gate.pass_gate), timed(gate.given_from_inside)
gate.formulas_of_the_user = timed(gate.formulas_of_the_user)
atexit.register(lambda: print(sum(took), time.process_time(), len(took), file=sys.stderr))
sys.argv = ["amped", "estimate"]
from amped.cli.app import main
main()
"""


def inside() -> Iterator[float]:
    """For each estimate in this process, the time of the gate as a share of the rest."""
    took = [0.0]

    def timed(own: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            began = time.perf_counter()
            found = own(*arguments)
            took[0] += time.perf_counter() - began
            return found

        return call

    with mock.patch.object(estimation, "pass_gate", timed(estimation.pass_gate)):
        for _ in range(ESTIMATES):
            took[0], began = 0.0, time.perf_counter()
            amped.estimate("default")
            yield took[0] / (time.perf_counter() - began - took[0])


def of_the_command(folder: str) -> tuple[float, float]:
    """The processor's seconds of the gate in one run of the command, and of all the rest."""
    run = subprocess.run(
        [sys.executable, "-c", COMMAND], cwd=folder, check=True, capture_output=True, text=True, env=ENVIRONMENT
    )
    gate, whole, calls = map(float, run.stderr.splitlines()[-1].split())
    if calls < 2:
        raise RuntimeError("the command passes no gate")
    return gate, whole - gate


def row(name: str, share: float, beside: str) -> Row:
    """A line of the table."""
    return Row(name, f"{share:.2%}", beside, f"<= {ALLOWED:.0%}", share <= ALLOWED)


def main() -> int:
    amped.estimate("default")
    with tempfile.TemporaryDirectory() as folder:
        of_the_command(folder)  # what is compiled once is compiled
        runs = [of_the_command(folder) for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 15)]
    gate, rest = (statistics.median(each) for each in zip(*runs, strict=True))
    share = statistics.median(one / other for one, other in runs)
    rows = [
        row("the gate in amped.estimate", statistics.median(inside()), f"median of {ESTIMATES}"),
        row("the gate in `amped estimate`", share, f"{gate * 1e3:.2f} ms / {rest * 1e3:.0f} ms"),
    ]
    print(Row("", "result", "beside", "goal"), *rows, sep="\n")
    return not all(each.met for each in rows)


if __name__ == "__main__":
    sys.exit(main())
