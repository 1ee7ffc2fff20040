"""What evaluates the parts of an exploration: this process, processes beside it, MPI, or dask; one answer from all.

Each is a `concurrent.futures.Executor`. What they need beyond amped is imported here, when it is asked for.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from amped.base.errors import ConfigError
from amped.base.extras import from_extra

# Read when a numeric library is loaded: as many workers as cores, each with as many threads, would fight for them.
THREADS = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
     "VECLIB_MAXIMUM_THREADS"), "1",
)  # fmt: skip
# Seconds that a scheduler has to answer, and to have a worker.
PATIENCE = 10


def _nothing() -> None:
    """What a process does first where nobody says what."""


@dataclass(frozen=True)
class Spread:
    """Where the parts are evaluated.

    Attributes:
        executor: a name of `ENGINES`; nothing is `processes` where several workers are asked for, else `serial`.
        workers: how many processes, for `processes`.
        scheduler: the address of the scheduler, for `dask`.
        warm_up: what each process of `processes` does first, while the space is laid out here.
    """

    executor: str = ""
    workers: int | None = None
    scheduler: str = ""
    warm_up: Callable[[], object] = _nothing


@dataclass(frozen=True)
class Engine:
    """An executor that is ready.

    Attributes:
        executor: takes the parts.
        window: how many parts it is given at once.
        elsewhere: whether it evaluates in another process, which has to ask the same again.
        lost: what its futures raise when it has lost a part for good; a `BrokenExecutor` it repairs at the next submit.
    """

    executor: Executor
    window: int
    elsewhere: bool
    lost: tuple[type[BaseException], ...] = ()


class Serial(Executor):
    """Evaluates in this process, at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Renewed(Executor):
    """Another executor, made anew when one of its workers has died."""

    def __init__(self, new: Callable[[], Executor]) -> None:
        self._new, self._own = new, new()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of the executor that works now."""
        with _without_interrupt():  # a submit may start workers
            try:
                return self._own.submit(fn, *args, **kwargs)
            except BrokenExecutor:
                self._own.shutdown(wait=False)
                self._own = self._new()
                return self._own.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the executor that works now."""
        self._own.shutdown(wait=wait, cancel_futures=cancel_futures)


@contextmanager
def serial(_: Spread) -> Iterator[Engine]:
    """This process."""
    yield Engine(Serial(), 1, elsewhere=False)


@contextmanager
def processes(asked: Spread) -> Iterator[Engine]:
    """Processes on this machine, started afresh (spawn): nothing is inherited that could make them differ."""
    number = asked.workers or os.cpu_count() or 1
    pools: Any = importlib.import_module("concurrent.futures.process")  # it takes a while, and most runs need none
    context, before = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with _environment(THREADS):
        pool = Renewed(lambda: pools.ProcessPoolExecutor(number, context, _follow_parent))
        try:
            for _ in range(number):  # they load while the space is laid out here
                pool.submit(asked.warm_up)
            yield Engine(pool, 2 * number, elsewhere=True)
            pool.shutdown()
        except BaseException:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()  # what it evaluates is wanted no more
            pool.shutdown(cancel_futures=True)  # and waits: Python's own exit writes to a pool that is still closing
            raise


@contextmanager
def _without_interrupt() -> Iterator[None]:
    """Ctrl-C waits, and processes started meanwhile never hear it: not even before they can say so themselves."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_parent() -> None:
    """A worker leaves Ctrl-C to its parent, and ends with it: a parent that is killed can not tell it to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def mpi(_: Spread) -> Iterator[Engine | None]:
    """The processes that `mpirun` started: the first leads and gets an engine, the others evaluate and get None."""
    futures = from_extra("mpi4py.futures", "mpi", "--executor mpi")
    try:
        world = importlib.import_module("mpi4py.MPI").COMM_WORLD
    except (ImportError, RuntimeError) as error:
        raise ConfigError(f"no MPI library can be loaded: {error}",
                          "install one (pip install mpich, or the system's own), or load its module") from None  # fmt: skip
    if world.Get_size() < 2:
        raise ConfigError("--executor mpi has one MPI process only, and needs one to lead and others to evaluate",
                          "start it as: mpirun -np 4 amped explore --executor mpi …")  # fmt: skip
    with futures.MPICommExecutor(world, root=0) as executor:
        if executor is None:
            yield None
            return
        try:
            yield Engine(executor, 2 * (world.Get_size() - 1), elsewhere=True, lost=(BrokenExecutor,))
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def dask(asked: Spread) -> Iterator[Engine]:
    """The workers of a dask scheduler, which have amped installed."""
    distributed = from_extra("distributed", "dask", "--executor dask")
    if not asked.scheduler:
        raise ConfigError("--executor dask has no scheduler", "give its address: --scheduler tcp://HOST:8786")
    killed = importlib.import_module("distributed.scheduler").KilledWorker
    closed = importlib.import_module("distributed.comm").CommClosedError
    client = _client(distributed, asked.scheduler)
    try:
        window = max(16, 2 * _slots(client, asked.scheduler))
        yield Engine(client.get_executor(pure=False), window, elsewhere=True, lost=(killed, closed, CancelledError))
    finally:
        client.close()


def _slots(client: Any, address: str) -> int:
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ConfigError(f"the dask scheduler at {address} has no worker after {PATIENCE} s",
                          f"start some: dask worker {address}") from None  # fmt: skip
    return sum(client.nthreads().values())


def _client(distributed: Any, address: str) -> Any:
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what goes wrong is told as our own errors
    try:
        importlib.import_module("distributed.comm").get_address_host_port(address)
    except ValueError as error:
        raise ConfigError(f"--scheduler {address!r} is no address: {error}", "for example tcp://HOST:8786") from None
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except OSError:  # a time-out is one
        raise ConfigError(f"no dask scheduler answers at {address} within {PATIENCE} s",
                          "start one (dask scheduler), or mend --scheduler: tcp://HOST:PORT") from None  # fmt: skip


ENGINES: dict[str, Callable[[Spread], AbstractContextManager[Engine | None]]] = {
    "serial": serial, "processes": processes, "mpi": mpi, "dask": dask,
}  # fmt: skip


def opened(asked: Spread) -> AbstractContextManager[Engine | None]:
    """The engine that is asked for; None in a process that another leads, once that one has finished.

    Raises:
        ConfigError: for options that do not go together; when it is entered, if the engine cannot be had.
    """
    name = asked.executor or ("processes" if (asked.workers or 1) > 1 else "serial")
    if asked.workers and name in ("mpi", "dask"):
        raise ConfigError(f"--workers does not go with --executor {name}",
                          "mpirun -np says how many" if name == "mpi" else "the scheduler has its own workers")  # fmt: skip
    if asked.workers and asked.workers > 1 and name == "serial":
        raise ConfigError("--executor serial has one worker", "leave one of --executor and --workers out")
    if asked.scheduler and name != "dask":
        raise ConfigError("--scheduler is for --executor dask only", "add --executor dask, or leave it out")
    return ENGINES[name](asked)


def one_thread_each() -> None:
    """Holds the numeric libraries of this process to one thread; before they are loaded."""
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Variables that processes started meanwhile find set."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
