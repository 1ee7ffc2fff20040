"""`python -m tests.campaigns --minutes 30 --seed N`: random cases of every kind against amped, and a table of what came of them."""

import argparse
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.campaigns.kinds import KINDS
from tests.campaigns.records import Kind
from tests.campaigns.running import Tally, in_one_process
from tests.campaigns.trying import tried


def _asked() -> argparse.Namespace:
    asked = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    asked.add_argument("--minutes", type=float, default=30.0)
    asked.add_argument("--seed", default="1", help="any text; each seed draws other cases")
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked.add_argument("--only", nargs="+", choices=[*KINDS], default=[*KINDS], help="kinds to run; default: all")
    asked.add_argument("--again", nargs=2, metavar=("KIND", "CASE"), help="one case, as a failure prints it")
    return asked.parse_args()


def _table(tally: Tally, minutes: float) -> str:
    lines = [
        f"{'kind':14}{'aim':>8}{'answers':>9}{'results':>9}{'cases':>8}{'failures':>9}{'kinds of failure':>18}{'s':>7}{'CPU s':>7}"
    ]
    for name, count in tally.counts.items():
        signs = sum(kind == name for kind, _ in tally.failures)
        aim = round(KINDS[name].hourly * minutes / 60)
        lines.append(
            f"{name:14}{aim:8}{count.answers:9}{count.results:9}{count.cases:8}{count.failures:9}{signs:18}{count.seconds:7.0f}{count.processor:7.0f}"
        )
    return "\n".join(lines)


def _again(kind: Kind, case: str) -> int:
    seen, failure = tried(kind, json.loads(case))
    print(failure or f"right: {seen}")
    return failure is not None


def main() -> int:
    asked = _asked()
    if asked.again:
        return _again(KINDS[asked.again[0]], asked.again[1])
    do = partial(in_one_process, seed=asked.seed, seconds=60 * asked.minutes, names=asked.only)
    tally = Tally()
    with ProcessPoolExecutor(asked.processes, multiprocessing.get_context("spawn")) as pool:
        for each in pool.map(do, range(asked.processes)):
            tally.add(each)
    print(f"seed {asked.seed}, {asked.minutes:g} minutes, {asked.processes} processes\n{_table(tally, asked.minutes)}")
    for failure in tally.failures.values():
        print(failure)
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main())
