"""One answer from every engine: this process, processes beside it, MPI and dask, each of them the real one."""

import importlib.util
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path

import pytest

from amped.base.errors import ConfigError, EvaluationError, MappingError, Problem
from amped.exploration import executors, running
from amped.exploration.executors import Engine, Serial, Spread, opened
from amped.exploration.identity import fingerprint, portable
from amped.exploration.running import TRIES, Run, Watch, evaluated, found_in
from tests.helpers.executors import (
    AS_ROOT,
    MPIRUN,
    alone,
    answer,
    arguments,
    exactly,
    files,
    mpi_runs,
    search,
    small_parts,
)

needs_mpi = pytest.mark.skipif(
    not mpi_runs(), reason="engine mpi: no mpi4py, no library of MPI or no mpirun (pip install mpi4py mpich)"
)  # fmt: skip
needs_dask = pytest.mark.skipif(
    not importlib.util.find_spec("distributed"), reason="engine dask: no distributed (pip install 'amped[dask]')"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


class Notes(Watch):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done = self.total = 0

    def began(self, done: int, candidates: int) -> None:
        self.done, self.total = done, candidates

    def advanced(self, candidates: int) -> None:
        self.done += candidates

    def note(self, text: str) -> None:
        self.notes.append(text)


# --- the engines ----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_two_processes_find_the_same_and_a_worker_that_dies_is_replaced(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAG", str(tmp_path / "died"))
    watch = Notes()
    with opened(Spread(workers=2)) as engine:
        assert engine is not None
        found = found_in(search(folder), Run(engine, watch=watch))
        threads = {name: engine.executor.submit(os.getenv, name).result() for name in executors.THREADS}
    assert exactly(found) == exactly(alone(folder))
    assert (tmp_path / "died").exists()
    assert len(watch.notes) == 1
    assert watch.done == watch.total == found.candidates
    assert set(threads.values()) == {"1"}
    assert os.environ.get("MKL_NUM_THREADS") is None


def test_interrupted_processes_leave_nothing_that_still_runs() -> None:
    """Python's exit would write to the pipe that a thread of the pool is about to close: `Bad file descriptor`."""
    before, futures = set(threading.enumerate()), []

    def interrupted() -> None:
        with opened(Spread("processes", 1)) as engine:
            assert engine is not None
            futures.append(engine.executor.submit(time.sleep, 60))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(future.done() for future in futures)
    assert set(threading.enumerate()) == before


@needs_mpi
def test_mpi_finds_the_same(folder: Path) -> None:
    line = [MPIRUN, "-np", "2", sys.executable, "-m", "amped", *arguments(folder), "--executor", "mpi"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=50, env=os.environ | AS_ROOT)
    assert done.returncode == 0, done.stderr
    told = answer(done.stdout)
    assert told["candidates"] == alone(folder).candidates
    assert told["best"] == in_this_process(folder)["best"]
    assert told["front"] == in_this_process(folder)["front"]


def in_this_process(folder: Path) -> dict[str, object]:
    from amped.exploration.answer import answer as told

    return told(search(folder), alone(folder), 0.0).to_dict()


@needs_dask
@pytest.mark.filterwarnings("ignore")  # of dask's own
def test_dask_finds_the_same(folder: Path) -> None:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        opened(Spread("dask", scheduler=cluster.scheduler_address)) as engine,
    ):
        assert engine is not None
        assert exactly(found_in(search(folder), Run(engine))) == exactly(alone(folder))


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_an_interrupt_while_dask_brings_results_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    from distributed import LocalCluster

    def interrupted(address: str) -> None:
        with opened(Spread("dask", scheduler=address)) as engine:
            assert engine is not None
            wait([engine.executor.submit(bytes, 10**8) for _ in range(4)], return_when=FIRST_COMPLETED)
            raise KeyboardInterrupt

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        pytest.raises(KeyboardInterrupt),
    ):
        interrupted(cluster.scheduler_address)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("tornado")] == []


def test_the_threads_of_a_worker_do_not_mix_their_searches(folder: Path) -> None:
    asked = search(folder)
    task, wanted = pickle.dumps(portable(asked.request)), fingerprint(asked.request)
    found, searches = {}, []

    def work(numbers: range) -> None:
        for number in numbers:
            found[number] = evaluated(task, wanted, asked.parts[number])[0]
        searches.append(running._searches.search)

    threads = [threading.Thread(target=work, args=(range(start, len(asked.parts), 3),)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, searches))) == 3
    assert {number: exactly(each) for number, each in found.items()} == {
        part.number: exactly(asked.evaluate(part)) for part in asked.parts
    }


# --- what goes wrong ------------------------------------------------------------------------------------------------


class Deadly(Executor):
    """Whatever it is given, the worker dies over it."""

    def submit(self, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
        future: Future[object] = Future()
        future.set_exception(BrokenExecutor("died"))
        return future


def test_a_part_over_which_workers_keep_dying_is_given_up(folder: Path) -> None:
    watch = Notes()
    with pytest.raises(EvaluationError, match=rf"(?s)died {TRIES} times over part 0.*memory"):
        found_in(search(folder), Run(Engine(Deadly(), 1, elsewhere=False), watch=watch))
    assert len(watch.notes) == TRIES - 1


def test_a_part_that_an_engine_has_lost_is_told(folder: Path) -> None:
    with pytest.raises(EvaluationError, match=r"(?s)part 0 was lost.*--resume"):
        found_in(search(folder), Run(Engine(Deadly(), 1, elsewhere=False, lost=(BrokenExecutor,))))


def test_a_worker_to_which_the_request_means_something_else_refuses(folder: Path) -> None:
    asked = search(folder)
    with pytest.raises(ConfigError, match="another version"):
        evaluated(pickle.dumps(asked.request), "another", asked.parts[0])


def test_errors_come_from_another_process_as_they_were() -> None:
    error = pickle.loads(pickle.dumps(MappingError([Problem("a", "here", "do"), Problem("b")], file="c.json")))
    assert type(error) is MappingError
    assert error.problems == (Problem("a", "here", "do"), Problem("b"))
    assert (error.file, str(error)) == ("c.json", "c.json: 2 problems\n  here: a\n    do\n  b")


@pytest.mark.parametrize(("module", "spread"), [
    ("mpi4py", Spread("mpi")), ("distributed", Spread("dask", scheduler="tcp://localhost:8786")),
])  # fmt: skip
def test_a_missing_extra_is_told_with_the_command_that_installs_it(
    module: str, spread: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"(?s)needs .*not installed.*pip install 'amped\[{spread.executor}\]'"):
        opened(spread).__enter__()


@pytest.mark.skipif(not importlib.util.find_spec("mpi4py"), reason="engine mpi: no mpi4py")
def test_mpi4py_without_a_library_of_mpi_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback: mpi4py's own executors load the library, too."""
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    monkeypatch.delitem(sys.modules, "mpi4py.futures", raising=False)
    with pytest.raises(ConfigError, match=r"(?s)no MPI library can be loaded.*pip install mpich"):
        opened(Spread("mpi")).__enter__()


@needs_mpi
def test_mpi_without_mpirun_is_refused() -> None:
    alone_in_mpi = "from amped.exploration.executors import *\nopened(Spread('mpi')).__enter__()"
    done = subprocess.run([sys.executable, "-c", alone_in_mpi], capture_output=True, text=True, check=False, timeout=50)
    assert "start it as: mpirun -np 4" in done.stderr


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_does_not_answer_is_an_error_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 1)
    with pytest.raises(ConfigError, match=r"(?s)no dask scheduler answers at tcp://127.0.0.1:9 .*--scheduler"):
        opened(Spread("dask", scheduler="tcp://127.0.0.1:9")).__enter__()


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_without_workers_is_an_error_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(executors, "PATIENCE", 1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None, protocol="tcp://") as cluster,
        pytest.raises(ConfigError, match="has no worker"),
    ):
        opened(Spread("dask", scheduler=cluster.scheduler_address)).__enter__()


@pytest.mark.parametrize("address", ["nonsense://x", "localhost", "tcp://h:x"])
@needs_dask
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        opened(Spread("dask", scheduler=address)).__enter__()


@pytest.mark.parametrize(("spread", "told"), [
    (Spread("mpi", 2), "mpirun -np says how many"), (Spread("dask", 2, "tcp://h:1"), "its own workers"),
    (Spread("serial", 2), "one worker"), (Spread("processes", 2, "tcp://h:1"), "for --executor dask only"),
    (Spread(scheduler="tcp://h:1"), "for --executor dask only"),
])  # fmt: skip
def test_options_that_do_not_go_together_are_refused(spread: Spread, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        opened(spread)


@needs_dask
def test_dask_needs_a_scheduler() -> None:
    with pytest.raises(ConfigError, match=r"--scheduler tcp://"):
        opened(Spread("dask")).__enter__()


def test_one_worker_is_this_process() -> None:
    with opened(Spread(workers=1)) as engine:
        assert engine is not None
        assert isinstance(engine.executor, Serial)


def test_formulas_in_memory_cannot_go_to_another_process(folder: Path) -> None:
    import types

    from amped.configuring.scenario import read_scenario
    from amped.exploration.request import Options, Request
    from amped.exploration.search import Search

    module = types.ModuleType("mine")
    exec(files(folder)[1].read_text(), module.__dict__)
    asked = Search(Request(read_scenario("default", formulas=module).question, {}, Options(1, "degrees")))
    with pytest.raises(ConfigError, match="give the file they are in"):
        found_in(asked, Run(Engine(Serial(), 1, elsewhere=True)))
