"""What evaluates the parts of an exploration: this process, several processes, MPI, or dask; the answer is the same.

Each is a `concurrent.futures.Executor`. The libraries that they need are imported here, and only when they are used.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.process import BaseProcess
from typing import Any

from amped.base.errors import ConfigError
from amped.base.extras import from_extra
from amped.base.record import dataclass

# Numeric libraries read these variables when they are loaded. Several workers with several threads each would compete.
THREADS = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
     "VECLIB_MAXIMUM_THREADS"), "1",
)  # fmt: skip
# How many seconds a scheduler has to answer, and to have a worker.
PATIENCE = 10
# The function of dask's executor that hands a result over; an error of it is logged with a traceback.
HANDS_OVER = "_cascade_future"
# Seconds to wait until a dask scheduler has taken leave.
HANG_UP = 5


@dataclass(frozen=True)
class Spread:
    """Where the parts of an exploration are evaluated.

    Attributes:
        executor: a name of `ENGINES`; an empty text means `processes` for several workers, else `serial`.
        workers: the number of processes, for `processes`.
        scheduler: the address of the scheduler, for `dask`.
        warm_up: what each process of `processes` does first, while this process prepares the space.
    """

    executor: str = ""
    workers: int | None = None
    scheduler: str = ""
    warm_up: Callable[[], object] = object  # does nothing


@dataclass(frozen=True)
class Engine:
    """An executor that is ready for work.

    Attributes:
        executor: evaluates the parts.
        window: how many parts it gets at once.
        elsewhere: whether it evaluates in another process, which must read the question again.
        lost: the errors of its futures if a part is lost for good. After a `BrokenExecutor` it repairs itself at the
            next submit.
    """

    executor: Executor
    window: int
    elsewhere: bool
    lost: tuple[type[BaseException], ...] = ()


class Serial(Executor):
    """Evaluates in this process, at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is already done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Renewed(Executor):
    """Wraps another executor, and makes it anew when one of its workers has died."""

    def __init__(self, new: Callable[[], Executor]) -> None:
        self._new, self._own = new, new()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of the current executor."""
        with _without_interrupt():  # a submit may start workers
            try:
                return self._own.submit(fn, *args, **kwargs)
            except BrokenExecutor:
                self._own.shutdown(wait=False)
                self._own = self._new()
                return self._own.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the current executor."""
        self._own.shutdown(wait=wait, cancel_futures=cancel_futures)


# The engine that evaluates in this process.
HERE = Engine(Serial(), 1, elsewhere=False)


@contextmanager
def serial(_: Spread) -> Iterator[Engine]:
    """The engine that evaluates in this process."""
    yield HERE


@contextmanager
def processes(asked: Spread) -> Iterator[Engine]:
    """An engine of processes on this machine. They are started afresh (spawn), so that they inherit no differences."""
    number = asked.workers or os.cpu_count() or 1
    pools: Any = importlib.import_module("concurrent.futures.process")  # slow, and rarely needed
    context, before = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with _one_thread_in_children():
        pool = Renewed(lambda: pools.ProcessPoolExecutor(number, context, _follow_parent))
        try:
            for _ in range(number):  # they load while this process prepares the space
                pool.submit(asked.warm_up)
            yield Engine(pool, 2 * number, elsewhere=True)
            pool.shutdown()
        except BaseException:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()  # nobody needs its results any more
            pool.shutdown(cancel_futures=True)  # this waits; Python's exit would write to a closing pool
            raise


@contextmanager
def _without_interrupt() -> Iterator[None]:
    """Makes Ctrl-C wait, and hides it from processes that are started meanwhile, from their first moment on."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_parent() -> None:
    """Lets a worker ignore Ctrl-C, and end with its parent: a parent that is killed cannot tell it to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def mpi(_: Spread) -> Iterator[Engine | None]:
    """An engine of the processes that `mpirun` started.

    The first one leads and gets it; the others evaluate and get None.
    """
    from_extra("mpi4py", "mpi", "--executor mpi")
    try:
        world = importlib.import_module("mpi4py.MPI").COMM_WORLD
        futures = importlib.import_module("mpi4py.futures")
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
    """An engine of the workers of a dask scheduler; amped must be installed there."""
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
        with _hung_up(), suppress(TimeoutError):  # the answer is there, or nobody waits for one
            client.close(timeout=HANG_UP)


@contextmanager
def _hung_up() -> Iterator[None]:
    """Leaves out what the executor of dask logs of results that were on their way when this process hung up."""
    log = logging.getLogger("tornado.application")

    def matters(record: logging.LogRecord) -> bool:
        frames = traceback.walk_tb(record.exc_info[2]) if record.exc_info else ()
        return all(frame.f_code.co_name != HANDS_OVER for frame, _ in frames)

    log.addFilter(matters)
    try:
        yield
    finally:
        log.removeFilter(matters)


def _slots(client: Any, address: str) -> int:
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ConfigError(f"the dask scheduler at {address} has no worker after {PATIENCE} s",
                          f"start some: dask worker {address}") from None  # fmt: skip
    return sum(client.nthreads().values())


def _client(distributed: Any, address: str) -> Any:
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # errors are reported as amped's own errors
    try:
        importlib.import_module("distributed.comm").get_address_host_port(address)
    except ValueError as error:
        raise ConfigError(f"--scheduler {address!r} is no address: {error}", "for example tcp://HOST:8786") from None
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except OSError:  # a time-out is an OSError
        raise ConfigError(f"no dask scheduler answers at {address} within {PATIENCE} s",
                          "start one (dask scheduler), or mend --scheduler: tcp://HOST:PORT") from None  # fmt: skip


ENGINES: dict[str, Callable[[Spread], AbstractContextManager[Engine | None]]] = {
    "serial": serial, "processes": processes, "mpi": mpi, "dask": dask,
}  # fmt: skip


def opened(asked: Spread) -> AbstractContextManager[Engine | None]:
    """The engine that the options ask for.

    A process that does not lead gets None, after the leading process has finished.

    Raises:
        ConfigError: for options that do not go together; on entry, if the engine cannot be started.
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
    """Limits the numeric libraries of this process to one thread; it must run before they are loaded."""
    os.environ.update({**THREADS, **os.environ})


@contextmanager
def _one_thread_in_children() -> Iterator[None]:
    """Limits the numeric libraries of processes that are started meanwhile to one thread."""
    before = {name: os.environ.pop(name) for name in THREADS if name in os.environ}
    os.environ.update(THREADS)
    try:
        yield
    finally:
        for name in THREADS:
            os.environ.pop(name, None)
        os.environ.update(before)
