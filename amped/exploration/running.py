"""Gives the parts of a search to an executor, takes their findings in any order, and loses none of them."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import field
from functools import partial
from pathlib import Path

from amped.base.errors import ConfigError, EvaluationError
from amped.base.record import dataclass
from amped.exploration.all_candidates import Keep, Spool, spool, written
from amped.exploration.executors import HERE, Engine
from amped.exploration.identity import fingerprint, portable
from amped.exploration.journal import header, journal
from amped.exploration.results import Finding, Ranked, Ranking, all_of, best_of, merged
from amped.exploration.search import Part, Search

# How often a worker may die while it evaluates a part, before the part is given up.
TRIES = 3
Evaluated = tuple[Finding, float]


class Watch:
    """An observer of a run. Subclasses show the progress; this class does nothing."""

    def began(self, done: int, candidates: int) -> None:
        """Called when the run begins: `done` of all `candidates` were evaluated before."""

    def advanced(self, candidates: int) -> None:
        """Called when this number of further candidates is evaluated."""

    def improved(self, best: str) -> None:
        """Called with the best candidate so far, in words, when it is better than the one before."""

    def note(self, text: str) -> None:
        """Called with a text on an event that is not an error."""


@dataclass(frozen=True)
class Run:
    """How and where parts are evaluated.

    Attributes:
        engine: the engine that evaluates the parts.
        findings: the file that keeps the finished parts, and from which a run goes on; None: no file.
        shard: the number of the shard, counted from 1, and how many equal shards there are.
        watch: the object that is told how the run goes.
        keep: the object that gets every candidate, in order, if no findings exist from before.
        beside: the folder where other processes leave candidates for `keep`; all processes must reach it.
    """

    engine: Engine = HERE
    findings: Path | None = None
    shard: tuple[int, int] = (1, 1)
    watch: Watch = field(default_factory=Watch)
    keep: Keep | None = None
    beside: Path | None = None


# A run in this process that keeps nothing.
ALONE = Run()


def found_in(search: Search, run: Run = ALONE) -> Finding:
    """The finding of all parts of a search, or of one shard of them.

    It is equal to the last bit, whatever evaluates the parts, and in any order.

    Raises:
        EvaluationError: for a result that is not a finite number, or a part over which workers keep dying.
        FileError: for findings that cannot be written or are of another exploration.
    """
    share, shares = run.shard
    parts = search.parts[share - 1 :: shares]
    if run.keep is None:  # else the candidates are wanted in order
        parts = sorted(parts, key=search.order)
    with contextlib.ExitStack() as opened:
        file = spooled = None
        if run.findings is not None:
            file = opened.enter_context(journal(run.findings, header(search.request, len(search.parts), run.shard)))
        if run.keep is not None and run.engine.elsewhere:
            spooled = opened.enter_context(spool(run.beside, run.keep, [part.number for part in parts]))
        done = file.findings.found if file else {}
        finding = all_of(done, search.request.options.top)
        run.watch.began(finding.candidates, sum(part.candidates for part in parts))
        for part, (of_part, seconds) in _evaluated(search, run, [p for p in parts if p.number not in done], spooled):
            if file:
                file.add(part.number, of_part, seconds)
            if spooled:
                spooled.finished(part.number)
            best, finding = _best(finding), merged(finding, of_part)
            if (better := _best(finding)) and better != best:
                run.watch.improved(_in_words(search, better[0]))
            run.watch.advanced(part.candidates)
    return finding


def _best(finding: Finding) -> Ranking:
    """The best candidate of a finding, alone; none if nothing is feasible."""
    return best_of(1, *finding.best.values())


def _in_words(search: Search, best: Ranked) -> str:
    """A candidate: its objective, and the values that give it."""
    objective, values = search.objective, [f"{n}={v:g}" if isinstance(v, float) else f"{n}={v}"
                                           for n, v in best.row.items() if n in search.swept and v != 1]  # fmt: skip
    unit = search.catalogue[objective.name].mark.unit
    return f"{objective.name} = {objective.sign * best.objective:.6g} {unit}; {', '.join(values)}"


def _evaluated(
    search: Search, run: Run, parts: Iterable[Part], spooled: Spool | None
) -> Iterable[tuple[Part, Evaluated]]:
    """Each part with its finding and its seconds, in the order in which parts are finished.

    A part whose worker died is evaluated again.

    Args:
        search: the search.
        run: how and where parts are evaluated.
        parts: the parts that are not finished yet.
        spooled: passes on the candidates of other processes, if they are wanted.
    """
    evaluate, engine = _task(search, run, spooled), run.engine
    waiting, running, deaths = deque(parts), dict[Future[Evaluated], Part](), Counter[int]()
    while waiting or running:
        while waiting and len(running) < engine.window:
            part = waiting.popleft()
            running[engine.executor.submit(evaluate, part)] = part
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        orphaned = []
        for future in finished:
            part = running.pop(future)
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
    """Adds a death to the count of each part over which a worker died.

    Raises:
        EvaluationError: if workers died TRIES times over a part.
    """
    deaths.update(part.number for part in orphaned)
    if often := sorted(number for number in deaths if deaths[number] >= TRIES):
        raise EvaluationError(f"workers died {TRIES} times over part {' or '.join(map(str, often))}",
                              "the system may have killed them for memory: try fewer --workers; "
                              'a script of your own needs if __name__ == "__main__": around the call')  # fmt: skip


def _task(search: Search, run: Run, spooled: Spool | None) -> Callable[[Part], Evaluated]:
    """The function that evaluates a part, in this process or in another one; it can be pickled if it must be."""
    if not run.engine.elsewhere:
        return partial(_timed, search, run.keep)
    request = portable(search.request)
    return partial(evaluated, pickle.dumps(request), fingerprint(request), folder=spooled.folder if spooled else "")


def _timed(search: Search, keep: Keep | None, part: Part) -> Evaluated:
    """The finding of a part, and the seconds that it took."""
    started = time.perf_counter()
    return search.evaluate(part, keep), time.perf_counter() - started


def load() -> None:
    """Does nothing. To call it, a worker imports all modules that the evaluation of a part needs."""


class _Searches(threading.local):
    """The search whose parts a thread of a worker evaluates.

    Each thread has a search of its own, because a search changes when it remembers mappings.
    """

    pickled: bytes = b""
    search: Search


_searches = _Searches()


def evaluated(pickled: bytes, mark: str, part: Part, folder: str = "") -> Evaluated:
    """The finding of one part, and the seconds that it took. An executor calls this function in another process.

    The search is kept for further parts of the same request.

    Args:
        pickled: the request.
        mark: the fingerprint of the request in the process that pickled it.
        part: the part.
        folder: where the candidates of the part are written; empty: they are not.

    Raises:
        ConfigError: if the fingerprint differs here, because of another version, other tables or formulas.
    """
    if _searches.pickled != pickled:
        request = pickle.loads(pickled)
        if fingerprint(request) != mark:
            raise ConfigError("a worker has another version of amped or numpy, or other tables or formulas, than who leads it",
                              "install the same, and share the files and the folder it runs in")  # fmt: skip
        _searches.search, _searches.pickled = Search(request), pickled
    with written(folder, part.number) if folder else contextlib.nullcontext() as keep:
        return _timed(_searches.search, keep, part)
