"""What a suite takes by its own arithmetic: the real runner and timer, on a clock that a made-up machine moves on."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.kernels import bench_run
from amped.kernels.running import SENTINEL_EVERY, Runner
from amped.kernels.suites import suite
from amped.kernels.timers import CpuTimer
from tests.helpers.bench import result

PROMISED = 60.0
# flop/s and byte/s of a thread, seconds to make the tensors of a kernel for each byte, and of a flush and a small product.
MACHINE = {"rate": 1e11, "bandwidth": 1e10, "filling": 3e-9, "flush": 7.5e-3, "reference": 3.4e-4}
# A record's share of rounds ends after so many caps, if a call is not longer.
CAPS = 3


class Machine:
    """A machine whose clock only its kernels move."""

    def __init__(self, slower=1.0):
        self.now, self.slower, self.calls = 0.0, slower, 0

    def clock(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds * self.slower

    def build(self, each, device):
        self.wait(each.bytes * MACHINE["filling"])
        seconds = 3e-6 + each.flop / MACHINE["rate"] + each.bytes / MACHINE["bandwidth"]
        return (lambda: self.call(seconds)), "made up"

    def call(self, seconds):
        self.calls += 1
        self.wait(seconds)

    def run(self, suite_name, budget):
        cap, rounds = bench_run.ROUNDS["cpu"]
        timer = CpuTimer(
            self.clock, self.clock, lambda: self.wait(MACHINE["flush"]), lambda: self.wait(MACHINE["reference"])
        )
        runner = Runner(result([]) | {"sentinels": [], "wall_s": 0.0}, timer, budget=budget, cap=cap, build=self.build, clock=self.clock,
                        rounds=rounds)  # fmt: skip
        return runner.run(suite(suite_name, "cpu", "float32", 16e9))


def test_the_quick_suite_has_a_minute_by_its_own_budgets():
    cap, rounds = bench_run.ROUNDS["cpu"]
    cases = len(suite("quick", "cpu", "float32", 16e9))
    sentinels = 2 * (cases // SENTINEL_EVERY + 1) * cap / 2
    assert 60 < cases < 120
    assert cases * rounds * CAPS * cap + sentinels < PROMISED
    assert bench_run.BUDGETS["cpu"] + CAPS * cap < PROMISED


def test_on_a_machine_of_a_hundred_gigaflops_everything_is_measured_within_it():
    machine = Machine()
    found = machine.run("quick", bench_run.BUDGETS["cpu"])
    assert found["skipped"] == []
    assert len(found["records"]) == len(suite("quick", "cpu", "float32", 16e9))
    assert machine.now < PROMISED
    assert found["wall_s"] == pytest.approx(machine.now)


@pytest.mark.parametrize("slower", [2.0, 4.0, 10.0, 20.0])
def test_a_slower_machine_keeps_to_it_and_lists_what_it_left_out(slower):
    machine = Machine(slower)
    found = machine.run("quick", bench_run.BUDGETS["cpu"])
    assert machine.now < PROMISED
    assert len(found["records"]) + len(found["skipped"]) == len(suite("quick", "cpu", "float32", 16e9))
    assert {s["reason"] for s in found["skipped"]} <= {"budget"}
    assert bool(found["skipped"]) is (slower > 4)


def test_rounds_that_a_budget_allows_stop_with_it():
    short, long = Machine(), Machine()
    short.run("quick", 12.0)
    long.run("quick", 30.0)
    assert short.now < 13.0
    assert short.now < long.now < 31.0
    assert short.calls < long.calls
