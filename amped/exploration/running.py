"""Gives the parts of a search to an executor, takes what they found in any order, and loses nothing on the way."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from amped.base.errors import ConfigError, EvaluationError
from amped.exploration.all_candidates import Keep, Spool, spool, written
from amped.exploration.executors import Engine, Serial
from amped.exploration.identity import fingerprint, portable
from amped.exploration.journal import header, journal
from amped.exploration.results import Found, all_of, merged
from amped.exploration.search import Part, Search

# How often a worker may die over a part before the part is given up.
TRIES = 3
Evaluated = tuple[Found, float]


class Watch:
    """Who is told how a run goes; this one keeps it to itself."""

    def began(self, done: int, candidates: int) -> None:
        """So many candidates of so many were done before."""

    def advanced(self, candidates: int) -> None:
        """So many more are done."""

    def note(self, text: str) -> None:
        """Something happened that is no error."""


@dataclass(frozen=True)
class Run:
    """How parts are evaluated.

    Attributes:
        engine: evaluates them.
        findings: the file that keeps what is finished, or goes on from it.
        shard: which of how many equal shares of the parts, counted from 1.
        watch: is told how it goes.
        keep: shown every candidate, in their order, where nothing was found before.
        beside: the folder in which other processes leave candidates for `keep`; all must reach it.
    """

    engine: Engine = field(default_factory=lambda: Engine(Serial(), 1, elsewhere=False))
    findings: Path | None = None
    shard: tuple[int, int] = (1, 1)
    watch: Watch = field(default_factory=Watch)
    keep: Keep | None = None
    beside: Path | None = None


# In this process, and nothing is kept.
ALONE = Run()


def found_in(search: Search, run: Run = ALONE) -> Found:
    """What is in the parts of a search: the same to the last bit, whoever evaluates them, in any order.

    Raises:
        EvaluationError: for a result that is no number, or a part over which workers keep dying.
        FileError: for findings that cannot be written or are of another exploration.
    """
    share, shares = run.shard
    parts = search.parts[share - 1 :: shares]
    with contextlib.ExitStack() as opened:
        kept = spooled = None
        if run.findings is not None:
            kept = opened.enter_context(journal(run.findings, header(search.request, len(search.parts), run.shard)))
        if run.keep is not None and run.engine.elsewhere:
            spooled = opened.enter_context(spool(run.beside, run.keep, [part.number for part in parts]))
        done = kept.found if kept else {}
        found = all_of(done, search.request.options.top)
        run.watch.began(found.candidates, sum(part.candidates for part in parts))
        for part, (own, seconds) in _evaluated(search, run, [p for p in parts if p.number not in done], spooled):
            if kept:
                kept.add(part.number, own, seconds)
            if spooled:
                spooled.finished(part.number)
            found = merged(found, own)
            run.watch.advanced(part.candidates)
    return found


def _evaluated(
    search: Search, run: Run, parts: Iterable[Part], spooled: Spool | None
) -> Iterable[tuple[Part, Evaluated]]:
    """Each part with what is in it, as they are finished."""
    evaluate, engine = _task(search, run, spooled), run.engine
    waiting, flying, deaths = deque(parts), dict[Future[Evaluated], Part](), Counter[int]()
    while waiting or flying:
        while waiting and len(flying) < engine.window:
            part = waiting.popleft()
            flying[engine.executor.submit(evaluate, part)] = part
        ready, _ = wait(flying, return_when=FIRST_COMPLETED)
        orphaned = []
        for future in ready:
            part = flying.pop(future)
            try:
                result = future.result()
            except engine.lost as error:
                raise EvaluationError(f"part {part.number} was lost: {type(error).__name__} {error}".strip(),
                                      "a worker died or the engine went away; --resume goes on from a file") from error  # fmt: skip
            except BrokenExecutor:
                orphaned.append(part)
                continue
            yield part, result
        if orphaned:
            _count_deaths(orphaned, deaths)
            run.watch.note("a worker died; another takes its place and does its parts again")
            waiting.extendleft(sorted(orphaned, key=lambda part: -part.number))


def _count_deaths(orphaned: list[Part], deaths: Counter[int]) -> None:
    deaths.update(part.number for part in orphaned)
    often = sorted(number for number in deaths if deaths[number] >= TRIES)
    if often:
        raise EvaluationError(f"workers died {TRIES} times over part {' or '.join(map(str, often))}",
                              "the system may have killed them for memory: try fewer --workers; "
                              'a script of your own needs if __name__ == "__main__": around the call')  # fmt: skip


def _task(search: Search, run: Run, spooled: Spool | None) -> Callable[[Part], Evaluated]:
    if not run.engine.elsewhere:
        return partial(_timed, search, run.keep)
    asked = portable(search.request)
    return partial(evaluated, pickle.dumps(asked), fingerprint(asked), folder=spooled.folder if spooled else "")


def _timed(search: Search, keep: Keep | None, part: Part) -> Evaluated:
    started = time.perf_counter()
    return search.evaluate(part, keep), time.perf_counter() - started


def load() -> None:
    """What a worker does ahead of its first part: nothing, but to call it is to import all that a part needs."""


class _Searches(threading.local):
    """The search that a thread of a worker evaluates parts of: it remembers mappings, so threads do not share one."""

    asked: bytes = b""
    search: Search


_searches = _Searches()


def evaluated(pickled: bytes, wanted: str, part: Part, folder: str = "") -> Evaluated:
    """One part of a pickled request: what an executor sends to another process, where the search stays.

    Its candidates are written to the folder, where one is named.

    Raises:
        ConfigError: if what is asked means something else here: another version, other tables or formulas.
    """
    if _searches.asked != pickled:
        request = pickle.loads(pickled)
        if fingerprint(request) != wanted:
            raise ConfigError("a worker has another version of amped or numpy, or other tables or formulas, than who leads it",
                              "install the same, and share the files and the folder it runs in")  # fmt: skip
        _searches.search, _searches.asked = Search(request), pickled
    if not folder:
        return _timed(_searches.search, None, part)
    with written(folder, part.number) as keep:
        return _timed(_searches.search, keep, part)
