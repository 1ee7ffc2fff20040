"""The timer of a GPU on a simulated one: kernels have the time that the GPU needs for them, whatever the host does."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.kernels import running
from amped.kernels.cuda_timer import CAPTURED, WARM_TIME, CudaTimer
from amped.kernels.running import Runner
from amped.kernels.specs import spec
from amped.kernels.timing import FEWEST
from tests.helpers.bench import needs_gpu, result
from tests.helpers.simulated.gpu import Gpu, Graph


def timer(gpu):
    made = gpu.timer()
    gpu.launches = gpu.flushes = 0
    return made


# --- warm-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capturable", [False, True])
def test_a_slow_first_call_is_not_counted_and_does_not_choose_how_a_kernel_is_timed(capturable):
    """20 ms for a module that is loaded, or a kernel that is compiled; 5 µs from then on."""
    gpu = Gpu()
    timing = timer(gpu).measure(gpu.compiled_by_its_first_call(5e-6, 20e-3), cold=False, capturable=capturable)
    assert (timing.min, timing.p90) == pytest.approx((5e-6, 5e-6))
    assert (gpu.replays > 0) == capturable
    assert timing.flags("cuda") == []


def test_warm_up_goes_on_until_two_means_agree():
    """A clock that rises from idle: each call is 3 % shorter than the one before it, until it is 1.6 ms."""
    gpu = Gpu()
    rising = [max(1.6e-3, 2.8e-3 * 0.97**i) for i in range(60)]
    timing = timer(gpu).measure(gpu.kernel(*rising))
    assert (timing.min, timing.p90) == pytest.approx((1.6e-3, 1.6e-3), rel=1e-6)


def test_warm_up_ends_after_a_fifth_of_a_second_and_a_record_that_still_drifts_is_noisy():
    gpu = Gpu()
    drifting = [0.02 * 0.98**i for i in range(200)]
    began = gpu.now
    timing = timer(gpu).measure(gpu.kernel(*drifting), cap=0.3)
    assert gpu.now - began < WARM_TIME + 1.0
    assert timing.flags("cuda") == ["noisy"]


def test_a_short_share_of_a_budget_is_not_spent_on_the_warm_up():
    gpu, made = Gpu(), timer(Gpu())
    made = gpu.timer()
    began = gpu.now
    made.measure(gpu.kernel(*[1e-3 * 1.05 ** (i % 2) for i in range(500)]), cap=0.01)
    assert gpu.now - began < 0.06


def test_what_a_gpu_s_events_cannot_tell_apart_is_no_noise():
    gpu = Gpu()
    timing = timer(gpu).measure(gpu.kernel(*[4.0e-6, 5.5e-6] * 200), cap=0.01)
    assert timing.p90 > 1.1 * timing.p10
    assert timing.flags("cuda") == []


def test_a_gpu_that_throttles_within_a_record_makes_it_noisy():
    gpu = Gpu()
    timing = timer(gpu).measure(gpu.kernel(*[2e-3] * 40, 2.6e-3), cap=0.2)
    assert timing.flags("cuda") == ["noisy"]


# --- the host --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("launch_time", [2e-6, 60e-6, 400e-6, 8e-3])
def test_a_kernel_has_its_own_time_and_not_that_of_its_launch(launch_time, cold):
    gpu = Gpu()
    timing = timer(gpu).measure(gpu.kernel(5e-6, launch_time=launch_time), cap=0.02, cold=cold)
    assert (timing.min, timing.p90) == pytest.approx((5e-6, 5e-6), rel=1e-6)
    assert timing.n >= FEWEST
    assert timing.flags("cuda") == []
    assert (gpu.flushes >= timing.n) == cold


def test_a_launch_that_takes_longer_than_any_sleep_is_told():
    gpu = Gpu()
    timing = timer(gpu).measure(gpu.kernel(5e-6, launch_time=0.2), cap=0.02)
    assert timing.flags("cuda") == ["host_bound"]


def test_calls_in_turns_have_their_own_times_though_each_has_a_host_of_its_own():
    """As forward and backward pass of a layer: its operators are launched for 2 ms, and the GPU has 0.8 ms of work."""
    gpu, left = Gpu(), []
    forward, backward = gpu.kernel(0.3e-3, launch_time=0.7e-3), gpu.kernel(0.5e-3, launch_time=1.4e-3)

    def first():
        left.append(forward())

    def second():
        left.pop()
        backward()

    found = timer(gpu).together([first, second], cap=0.05)
    assert [timing.median for timing in found] == pytest.approx([0.3e-3, 0.5e-3], rel=1e-6)
    assert all(timing.n >= FEWEST and timing.flags("cuda") == [] for timing in found)


def test_launches_are_timed_by_the_host():
    gpu = Gpu(launch_time=4e-6)
    assert timer(gpu).dispatched(gpu.kernel(1e-6)).median == pytest.approx(4e-6)


def test_a_call_of_many_kernels_is_launched_alone_so_that_the_host_never_waits():
    gpu = Gpu(launch_time=4e-6)
    calls = []
    timer(gpu).dispatched(lambda: calls.append(gpu.kernel(1e-6)()), in_a_row=1)
    assert len(calls) == 1 + FEWEST


@pytest.mark.parametrize("capturable", [False, True])
def test_what_the_events_add_to_a_kernel_is_not_its_time(capturable):
    """Alone, a kernel of an H200 seems 2.2 µs longer than in a row of others."""
    gpu = Gpu(events_time=2.2e-6)
    timing = timer(gpu).measure(gpu.kernel(5e-6), cap=0.02, cold=False, capturable=capturable)
    assert timing.median == pytest.approx(5e-6, rel=0.03)


# --- events ----------------------------------------------------------------------------------------------------------


def test_calls_whose_events_are_out_of_order_do_not_count():
    gpu = Gpu()
    made = timer(gpu)
    all_of_them = made.measure(gpu.kernel(1e-3), cap=0.02).n
    gpu.out_of_order = set(range(gpu.read + 14, gpu.read + 18))  # the first ten are those of the warm-up
    timing = made.measure(gpu.kernel(1e-3), cap=0.02)
    assert (timing.min, timing.p90) == pytest.approx((1e-3, 1e-3))
    assert timing.n == all_of_them - 4
    gpu.out_of_order = set(range(10_000))
    with pytest.raises(RuntimeError, match="events are out of order"):
        made.measure(gpu.kernel(1e-3), cap=0.02)


# --- one way for all records of a kernel --------------------------------------------------------------------------------

# Short and long ones of each; on the simulated GPU, which moves a byte in a nanosecond, from 0.8 µs to 8 ms.
SIZES = (1, 100, 10_000)
ROWWISE = [spec(kernel, "bfloat16", rows=rows, columns=200) for kernel in ("softmax", "copy") for rows in SIZES]
PRODUCTS = [spec("gemm", "bfloat16", m=16 * i, n=64, k=64) for i in (1, 4, 16)]


def ways_of_timing(runner, kernels):
    """How each kernel was timed: with cold caches or with warm ones, and as a graph of many or by itself."""
    found, told, timer = {}, [], runner.timer
    build, measure, captured = runner.build, timer.measure, timer._captured

    def built(each, device):
        told[:] = [each.kernel]
        return build(each, device)

    def measured(call, cap, cold=True, capturable=False):
        timer._captured = lambda call: found.setdefault(told[0], set()).add("a graph") or captured(call)
        found.setdefault(told[0], set()).add("cold" if cold else "warm")
        return measure(call, cap, cold, capturable)

    runner.build, timer.measure = built, measured
    runner.run(kernels)
    return found


def test_all_records_of_a_kernel_are_timed_in_one_way_however_short_they_are():
    gpu = Gpu()
    runner = Runner(result([], "cuda") | {"sentinels": []}, timer(gpu), clock=gpu.wall, cap=0.01,
                    build=lambda each, device: (gpu.kernel(each.bytes * 1e-9), "made up"))  # fmt: skip
    found = ways_of_timing(runner, [spec("launch", "bfloat16", mode="graph"), *ROWWISE, *PRODUCTS])
    assert found == {"launch": {"warm", "a graph"}, **{name: {"cold"} for name in ("softmax", "copy", "gemm")}}
    assert len(runner.result["records"]) == 1 + len(ROWWISE) + len(PRODUCTS)


@needs_gpu
def test_on_a_gpu_all_records_of_a_kernel_are_timed_in_one_way():
    runner = Runner(running.new_result("cuda", 1, None, "", ""), CudaTimer(), cap=0.01)
    found = ways_of_timing(runner, [spec("launch", "bfloat16", mode="graph"), *ROWWISE, *PRODUCTS])
    assert found == {"launch": {"warm", "a graph"}, **{name: {"cold"} for name in ("softmax", "copy", "gemm")}}
    assert runner.result["skipped"] == []
    assert [r["kernel"] for r in runner.result["records"] if "host_bound" in r["flags"]] == []


# --- capture ---------------------------------------------------------------------------------------------------------


def test_what_can_be_captured_runs_as_a_graph_of_many():
    gpu = Gpu(launch_time=20e-6)
    timing = timer(gpu).measure(gpu.kernel(1e-6), cold=False, capturable=True)
    assert timing.median == pytest.approx(1e-6)
    assert gpu.replays >= timing.n
    assert gpu.launches < 10 + CAPTURED + 3 * 5
    assert gpu.stream == "default"


def test_what_cannot_be_captured_is_not_tried():
    gpu = Gpu(captures=False)
    timer(gpu).measure(gpu.kernel(5e-6), cold=False)
    assert (gpu.refusals, gpu.stream) == (0, "default")


def test_a_refused_capture_leaves_the_stream_as_it_was_and_is_the_last_one():
    """And its graph is kept, because the allocator asks it."""
    gpu = Gpu(captures=False)
    made = timer(gpu)
    for _ in range(2):
        timing = made.measure(gpu.kernel(5e-6), cold=False, capturable=True)
        assert timing.median == pytest.approx(5e-6)
        assert (gpu.refusals, gpu.stream) == (1, "default")
        assert isinstance(made.refused, Graph)


def test_a_run_goes_on_after_a_refused_capture_and_a_kernel_without_memory(monkeypatch):
    """What frees memory after it meets an allocator that still lists the capture."""
    gpu = Gpu(captures=False)

    def build(each, device):
        if each.params.get("m") == 512:
            raise RuntimeError("CUDA out of memory")
        return gpu.kernel(5e-6), "made up"

    monkeypatch.setattr(running, "torch", gpu)
    runner = Runner(result([], "cuda") | {"sentinels": []}, timer(gpu), build=build, clock=gpu.wall)
    products = [spec("gemm", "bfloat16", m=m, n=64, k=64) for m in (64, 512, 128)]
    found = runner.run([spec("launch", "bfloat16", mode="graph"), *products])
    assert gpu.refusals == 1
    assert [r["kernel"] for r in found["records"]] == ["launch", "gemm", "gemm"]
    assert [s["reason"] for s in found["skipped"]] == ["out of memory"]
