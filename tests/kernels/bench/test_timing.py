"""Timers on a clock of our own: warm-up is not counted, caps hold, statistics and flags are right; runs keep to budgets."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.kernels.running import Runner, mark_slowed, told_of
from amped.kernels.specs import spec
from amped.kernels.timers import CAPTURED, PATIENCE, TRIALS, CpuTimer
from amped.kernels.timing import FEWEST, MOST, Timing, repeated
from tests.helpers.bench import record, result


class Clock:
    """Time that passes only when a kernel runs; the calls take the given seconds, the last of them for ever after."""

    def __init__(self, *seconds):
        self.now, self.seconds, self.calls = 0.0, list(seconds), 0

    def __call__(self):
        return self.now

    def run(self):
        self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1

    def timer(self, **more):
        return CpuTimer(self, self, **more)


def test_the_first_call_warms_up_and_is_not_counted():
    clock = Clock(9.0, 0.01)
    timing = clock.timer().measure(clock.run, cap=0.1)
    assert timing.min == timing.median == pytest.approx(0.01)


def test_statistics_of_known_times():
    timing = Timing.of([0.3, 0.1, 0.2, 0.5, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1])
    assert (timing.min, timing.p10, timing.median, timing.p90, timing.n) == (0.1, 0.2, 0.6, 1.0, 11)


@pytest.mark.parametrize(
    ("seconds", "cap", "calls"), [(0.01, 0.1, 11), (0.001, 10.0, MOST), (0.2, 0.1, 2), (0.05, 0.07, FEWEST)]
)
def test_calls_end_with_the_cap_but_not_before_five_of_them_or_three_caps(seconds, cap, calls):
    clock = Clock(seconds)
    assert clock.timer().measure(clock.run, cap).n == calls


def test_what_is_too_short_for_the_clock_is_timed_in_groups():
    clock = Clock(1e-6)
    assert clock.timer().measure(clock.run, cap=1e-4).min == pytest.approx(1e-6)
    assert clock.calls > CAPTURED * FEWEST


def test_caches_are_flushed_before_each_cold_call_and_that_is_not_counted():
    clock, flushed = Clock(0.01), []

    def flush():
        clock.now += 1.0
        flushed.append(clock.now)

    timing = clock.timer(flush=flush).measure(clock.run, cap=0.1, cold=True)
    assert timing.median == pytest.approx(0.01)
    assert len(flushed) == timing.n


def test_calls_count_only_while_the_machine_is_as_quiet_as_it_was():
    """A reference beside each call tells: 1 ms on a quiet machine, 2 ms beside a neighbor that comes with some calls."""
    clock, here = Clock(0.0), {"until": 0.0}
    comes = iter([False, False, True, True, False, True, False, False, True, False] * 20)

    def reference():
        clock.now += 2e-3 if clock.now < here["until"] else 1e-3

    def call():
        here["until"] = clock.now + 0.04 if next(comes) else 0.0
        clock.now += 2e-2 if here["until"] else 1e-2

    timer = CpuTimer(clock, clock, reference=reference)
    timing = timer.measure(call, cap=0.2)
    assert (timing.median, timing.p90, timing.beside) == pytest.approx((0.01, 0.01, 1e-3))
    assert timing.n < 10
    comes = iter([True] * 1000)
    here["until"] = float("inf")
    busy = timer.measure(call, cap=0.2)
    assert (busy.min, busy.p90) == pytest.approx((0.02, 0.02))


def test_a_call_waits_for_a_quiet_moment_until_its_patience_ends():
    """A neighbor is there for the first 0.1 s and for good from 0.5 s on; the clock is the reference's and the call's."""
    clock, calls = Clock(0.0), []

    def slowed():
        return 2.0 if clock.now < 0.1 or clock.now > 0.5 else 1.0

    def reference():
        clock.now += 1e-3 * slowed()

    def call():
        calls.append(clock.now)
        clock.now += 1e-2 * slowed()

    timer = CpuTimer(clock, clock, reference=reference, quietest=1e-3)
    quiet = timer.measure(call, cap=0.1)
    assert (quiet.min, quiet.p90, quiet.beside) == pytest.approx((0.01, 0.01, 1e-3))
    assert [at for at in calls[1 + TRIALS :] if at < 0.1] == []
    clock.now = 0.6
    busy = timer.measure(call, cap=0.1)
    assert (busy.min, busy.beside) == pytest.approx((0.02, 2e-3))
    assert 0.6 + PATIENCE * 0.1 < clock.now < 0.6 + 3.6 * 0.1


def test_calls_together_take_turns_and_may_use_what_the_one_before_left():
    """As backward uses what forward left, once: a turn is one call of each, also of those too short for the clock."""
    clock, left, order = Clock(1e-6), [], []

    def forward():
        order.append("forward")
        left.append(clock.run())

    def backward():
        order.append("backward")
        left.pop()
        clock.now += 0.02

    first, second = clock.timer().together([forward, backward], cap=0.055)
    assert order == ["forward", "backward"] * (1 + first.n)
    assert (first.n, first.min, second.min) == (FEWEST + 1, pytest.approx(1e-6), pytest.approx(0.02))


def test_what_takes_long_is_not_tried_more_often_than_it_is_timed():
    clock = Clock(0.2)
    assert clock.timer().measure(clock.run, cap=0.01).n == 2
    assert clock.calls == 4


def test_a_wide_spread_is_noisy_and_one_far_from_its_minimum_unsettled():
    assert Timing(1.0, 0.9, 1.0, 0.9, 9).flags("cpu") == []
    assert Timing(1.0, 0.9, 1.4, 0.9, 9).flags("cpu") == ["noisy"]
    assert Timing(1.0, 0.9, 1.4, 0.4, 9).flags("cpu") == ["noisy", "unsettled"]
    assert Timing(1.0, 0.9, 1.02, 0.9, 9).flags("cuda") == ["noisy"]


def test_a_call_is_timed_by_its_best_on_a_processor_and_its_median_on_a_gpu():
    timing = Timing.of([3.0, 1.0, 2.0])
    assert (timing.best("cpu"), timing.best("cuda"), timing.n) == (1.0, 2.0, 3)


def test_repetitions_follow_the_estimate():
    assert (repeated(1.0, 0.15), repeated(1e-6, 0.15), repeated(0.01, 0.15)) == (FEWEST, MOST, 15)


# --- a run -----------------------------------------------------------------------------------------------------------

SMALL = [spec("gemm", "float32", m=64 * i, n=64, k=64) for i in range(1, 6)]
HUGE = spec("gemm", "float32", m=8192, n=8192, k=8192)


def runner(clock, build=None, **more):
    return Runner(result([]) | {"wall_s": 0.0, "sentinels": []}, clock.timer(), clock=clock, cap=0.02,
                  build=build or (lambda each, device: (clock.run, "made up")), **more)  # fmt: skip


def test_a_run_measures_everything_and_tells_each_time():
    clock, told = Clock(0.01), []
    found = runner(clock, advance=lambda r: told.append(len(r["records"]))).run(SMALL)
    assert told == [1, 2, 3, 4, 5]
    assert [r["time_s"]["min"] for r in found["records"]] == pytest.approx([0.01] * 5)
    assert found["wall_s"] == pytest.approx(clock.now)
    assert len(found["sentinels"]) == 1


def test_what_does_not_fit_into_the_budget_is_listed_and_the_rest_is_measured():
    clock = Clock(1e-3)
    found = runner(clock, budget=1.0).run([SMALL[0], HUGE, SMALL[1]])
    assert len(found["records"]) == 2
    assert [(s["params"]["m"], s["reason"]) for s in found["skipped"]] == [(8192, "budget")]


def test_what_does_not_fit_into_memory_is_not_tried():
    found = runner(Clock(1e-3)).run([spec("copy", "float32", rows=2**22, columns=1024)])
    assert [s["reason"] for s in found["skipped"]] == ["memory"]


def test_out_of_memory_is_noted_and_the_run_goes_on():
    clock = Clock(0.01)

    def build(each, device):
        if each.params.get("m") == 128:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate: out of memory\n…")
        return clock.run, "made up"

    found = runner(clock, build).run(SMALL)
    assert [s["reason"] for s in found["skipped"]] == ["out of memory"]
    assert len(found["records"]) == 4
    assert told_of(NotImplementedError()) == "NotImplementedError"


def test_more_rounds_keep_the_better_times_while_the_budget_lasts():
    clock = Clock(*[0.02] * 60, 0.01)
    found = runner(clock, rounds=50, budget=8.0).run(SMALL)
    assert min(r["time_s"]["min"] for r in found["records"]) == pytest.approx(0.01)
    assert all(r["time_s"]["n"] > FEWEST for r in found["records"])
    assert clock.now < 10.0


def test_records_after_a_drop_of_the_sentinel_are_marked():
    clock = Clock(*[0.01] * 200, 0.02)
    found = runner(clock).run([spec("gemm", "float32", m=i, n=64, k=64) for i in range(1, 60)])
    marked = ["throttled" in r["flags"] for r in found["records"]]
    assert not marked[0]
    assert marked[-1]


def test_a_gpu_that_was_cool_at_first_does_not_make_the_rest_slow():
    """800 TFLOP/s before it was warm, and 770 for ever after; and a drop to 700 is one."""
    rates = [800.0] * 25 + [770.0] * 375 + [700.0]
    records = [record("gemm", m=i + 1, n=64, k=64) | {"gemm_tflops_beside": rate} for i, rate in enumerate(rates)]
    found = result(records, "cuda")
    mark_slowed(found)
    assert [number for number, r in enumerate(found["records"]) if "throttled" in r["flags"]] == [400]
