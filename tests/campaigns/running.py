"""Runs kinds of cases in turns, each in proportion to what is aimed at, until the time is over."""

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tests.campaigns.kinds import KINDS
from tests.campaigns.records import Failure, Kind
from tests.campaigns.trying import smallest, tried

# Python looks for garbage rarely once a command has run: so it is done here.
CASES_BETWEEN_SWEEPS = 500


@dataclass
class Count:
    """What became of a kind: its cases, their answers, the results among these, failures, and the time it took: the clock's, and this process's."""

    cases: int = 0
    answers: int = 0
    results: int = 0
    failures: int = 0
    seconds: float = 0.0
    processor: float = 0.0


@dataclass
class Tally:
    """The counts by kind, and one failure of each sign."""

    counts: dict[str, Count] = field(default_factory=dict)
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Adds what another process counted."""
        for name, count in other.counts.items():
            own = self.counts.setdefault(name, Count())
            for each, value in vars(count).items():
                setattr(own, each, getattr(own, each) + value)
        self.failures = other.failures | self.failures


def next_case(kind: Kind, seed: str, tally: Tally, told: Callable[[str], object]) -> None:
    """Draws and tries the next case of a kind; a failure of a new sign is made small and told."""
    count = tally.counts.setdefault(kind.name, Count())
    case = kind.draw(Random(f"{seed} {kind.name} {count.cases}"))
    began, worked = time.perf_counter(), time.process_time()
    seen, failure = tried(kind, case)
    count.cases += 1
    count.answers += seen.count
    count.results += seen.answered
    if failure is not None:
        count.failures += 1
        if (kind.name, failure.sign) not in tally.failures:
            tally.failures[kind.name, failure.sign] = small = smallest(kind, failure)
            told(str(small))
    count.seconds += time.perf_counter() - began
    count.processor += time.process_time() - worked


def campaign(kinds: Sequence[Kind], seed: str, seconds: float, told: Callable[[str], object] = print) -> Tally:
    """Runs all kinds for some time: the next case is of the kind that is furthest behind its aim.

    It ends with the process that started this one, which may be killed.
    """
    tally, end, number = Tally({kind.name: Count() for kind in kinds}), time.monotonic() + seconds, 0
    parent = os.getppid()
    while time.monotonic() < end and os.getppid() == parent:
        behind = min(kinds, key=lambda kind: tally.counts[kind.name].answers / kind.hourly)
        next_case(behind, seed, tally, told)
        number += 1
        if number % CASES_BETWEEN_SWEEPS == 0:
            gc.collect()
    return tally


def in_one_process(number: int, seed: str, seconds: float, names: list[str]) -> Tally:
    """The share of one of several processes."""
    kinds, parent = [KINDS[name] for name in names], os.getppid()
    tally = campaign(kinds, f"{seed}/{number}", seconds, partial(print, flush=True))
    if os.getppid() != parent:
        os._exit(1)  # nobody reads the tally, and a process of a pool would wait for its next task for ever
    return tally
