"""Collectives: all processes call equally often, whatever their clocks tell them; one that is late or ends is told."""

import multiprocessing
import time

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.kernels import collective
from amped.kernels.collective import counted_together, timings
from amped.kernels.specs import spec
from amped.kernels.timing import FEWEST, MOST
from tests.helpers.ranks import eventful
from tests.helpers.simulated.gpu import Gpu

KINDS = ("all_reduce", "all_gather", "broadcast", "send_receive")


# --- one process after another, with clocks that differ --------------------------------------------------------------


class Process:
    """A process whose calls take the given seconds, the last of them for ever after; the first one's numbers are kept."""

    def __init__(self, *seconds):
        self.seconds, self.calls = list(seconds), 0

    def call(self):
        self.calls += 1

    def lapse(self, call):
        call()
        return self.seconds[min(self.calls, len(self.seconds)) - 1]


def together(*processes, trips=1):
    """The timings of all processes."""
    said, found = [], []
    for rank, process in enumerate(processes):
        heard = iter(list(said))
        say = (lambda number: said.append(int(number)) or int(number)) if rank == 0 else (lambda _, h=heard: next(h))
        found.append(counted_together(process.call, process.lapse, say, 0.2, trips))
    return found


@pytest.mark.parametrize("others", [(1e-3,), (9e-3, 2e-3), (4e-3, 3.9e-3, 3.7e-3, 3.6e-3)])
def test_all_processes_call_as_often_as_the_first_one(others):
    """The numbers of calls are those of the first process's clock: fifty of 3 ms in the time of a record."""
    processes = [Process(0.5, 3e-3), *(Process(0.1, 5e-3, 4e-3, seconds) for seconds in others)]
    found = together(*processes)
    assert {process.calls for process in processes} == {processes[0].calls}
    assert [timing.n for timing in found] == [found[0].n] * len(processes)
    assert found[0].n == pytest.approx(50, abs=1)


@pytest.mark.parametrize(("seconds", "calls"), [(1e-6, MOST), (1.0, FEWEST)])
def test_calls_are_within_bounds(seconds, calls):
    assert together(Process(seconds))[0].n == calls


def test_a_round_trip_counts_as_two():
    assert together(Process(2e-3), trips=2)[0].median == pytest.approx(1e-3)


def test_only_there_and_back_is_a_round_trip(monkeypatch):
    monkeypatch.setattr(collective, "counted_together", lambda *given: given[-1])
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(collective, "_call", lambda *given: None)
        trips = {kind: collective._timed(spec(kind, "float32", bytes=1024, ranks=2), 0, device) for kind in KINDS}
        assert trips == {"all_reduce": 1, "all_gather": 1, "broadcast": 1, "send_receive": 2}


def test_a_warm_up_goes_on_until_the_first_one_s_means_agree():
    falling = [3e-3 * 0.9**i for i in range(30)]
    timing = together(Process(*falling))[0]
    assert timing.p90 == pytest.approx(falling[-1])


def test_a_gpu_s_collectives_are_timed_in_rows_without_their_launches(monkeypatch):
    gpu = Gpu(launch_time=30e-6)
    gpu.distributed = gpu.cuda  # its barrier is the device's own here
    gpu.cuda.barrier = gpu.synchronize
    monkeypatch.setattr(collective, "torch", gpu)
    found = counted_together(gpu.kernel(20e-3, 12e-6), collective._gpu_lapse, int, 0.2, 2)
    assert (found.min, found.p90) == pytest.approx((6e-6, 6e-6))


# --- real processes --------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    """Processes that fork from one that has loaded torch once; those of users load it each."""
    multiprocessing.set_forkserver_preload(["torch"])
    monkeypatch.setattr(collective, "START", "forkserver")
    monkeypatch.setattr(collective, "LAST_WORDS", 0.5)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.usefixtures("started")
def test_real_processes_measure_and_wait_for_one_that_is_late(ranks):
    """To a payload of milliseconds, at which clocks differ; the last of the processes is late for one of them."""
    asked = [
        spec(kind, "float32", bytes=1 << 12, ranks=ranks)
        for kind in (("all_reduce", "send_receive") if ranks == 2 else KINDS[:1])
    ]
    asked += [eventful("broadcast", 1024, ranks, late=(ranks - 1, 0.3)), spec("all_reduce", "float32", bytes=1 << 21, ranks=ranks)]  # fmt: skip
    found = list(timings(asked, ranks, "cpu"))
    assert [each for each, _ in found] == asked
    wrong = {str(each): timing for each, timing in found if isinstance(timing, str)}
    assert not wrong
    assert all(FEWEST <= timing.n <= MOST and 1e-7 < timing.min < 0.3 for _, timing in found)


@pytest.mark.usefixtures("started")
def test_a_process_that_ends_is_told_within_seconds_and_nothing_waits_for_it_again():
    asked = [spec("all_reduce", "float32", bytes=1024, ranks=3), eventful("broadcast", 1024, 3, ending=2),
             *(spec(kind, "float32", bytes=1024, ranks=3) for kind in KINDS)]  # fmt: skip
    began = time.monotonic()
    found = [timing for _, timing in timings(asked, 3, "cpu")]
    assert time.monotonic() - began < 30
    assert not isinstance(found[0], str)
    assert all(isinstance(timing, str) for timing in found[1:])
