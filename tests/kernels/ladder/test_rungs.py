"""Rungs on a toy layer: the same numbers with shared parameters, fp8 by its rules, and how their speed is taken."""

import math
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.base.errors import ConfigError
from amped.kernels import dense_layer as layers
from amped.kernels.ladder import climbing, engine
from amped.kernels.ladder.fp8 import Float8, ScaleState, refuse_illegal, scale_for, scaled_product, update
from amped.kernels.ladder.fp8_cast import quantized
from amped.kernels.ladder.speed import clock_laps, event_laps, speedometer
from amped.kernels.layer_shape import Shape
from amped.kernels.process_memory import resident_bytes
from amped.kernels.torch_import import has_fp8
from tests.helpers.bench import needs_gpu
from tests.helpers.simulated.gpu import Gpu

TOY = Shape(hidden=64, ffn=128, heads=4, seq=16, batch=2, dtype="float32", dropout=0.0)


def rungs_of(shape, *names, expected=None, peak=None):
    return {row["rung"]: row for row in climbing.climbed(shape, "cpu", names, expected, peak, warm_up=1, passes=2)}


@pytest.mark.parametrize(("shape", "tolerance"), [
    (TOY, 1e-5), (replace(TOY, causal=True), 1e-5), (replace(TOY, dtype="bfloat16"), 1e-2),
])  # fmt: skip
def test_rungs_give_the_first_s_output_and_gradients(shape, tolerance):
    for row in rungs_of(shape, "functional", "sdpa").values():
        assert row["skipped"] == ""
        assert row["output_difference"] < tolerance
        assert row["gradient_difference"] < 2 * tolerance
        assert row["agrees"]
        assert row["ms"] > 0


def test_fp8_rungs_are_off_by_their_mantissa_and_no_more():
    for row in rungs_of(TOY, "fp8_dynamic", "fp8_delayed").values():
        assert 1e-3 < row["output_difference"] < 8e-2
        assert row["agrees"]
        assert row["predicted_ms"] is None  # an emulation tells nothing of a GPU


def test_what_this_machine_lacks_is_said_and_has_no_time():
    rows = rungs_of(TOY, "graph", "transformer_engine")
    assert rows["graph"]["skipped"] == "CUDA graphs need a GPU"
    assert "transformer_engine" in rows["transformer_engine"]["skipped"]
    assert [row["ms"] for row in rows.values()] == [None, None]
    with pytest.raises(ConfigError, match="did you mean 'sdpa'"):
        rungs_of(TOY, "spda")


def test_weights_of_queries_keys_and_values_lie_head_by_head():
    import torch

    q, k, v = (torch.full((8, 3), float(i)) + torch.arange(8.0)[:, None] / 10 for i in range(3))
    joined = torch.stack([w.view(2, -1, *w.shape[1:]) for w in (q, k, v)], dim=1).reshape(-1, *q.shape[1:])
    assert joined[:, 0].tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 1, 1.1, 1.2, 1.3, 2, 2.1, 2.2, 2.3,
                                                   0.4, 0.5, 0.6, 0.7, 1.4, 1.5, 1.6, 1.7, 2.4, 2.5, 2.6, 2.7])  # fmt: skip
    assert all(torch.equal(a, b) for a, b in zip(layers.separated(joined, 2), (q, k, v), strict=True))


def test_work_is_what_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    p, (x, dy) = layers.parameters(TOY, "cpu"), layers.inputs(TOY, "cpu")
    with FlopCounterMode(display=False) as counter:
        y = layers.layer(x.requires_grad_(), p, TOY, layers.explicit_attention)
    assert counter.get_total_flops() == TOY.linear_flops + TOY.attention_flops
    with counter:
        y.backward(dy)
    assert counter.get_total_flops() == 2 * (TOY.linear_flops + TOY.attention_flops)


# --- fp8 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("history", "seen", "scale"), [
    (4, [2.0, 4.0, 8.0], 56.0),  # 448 / 8
    (2, [8.0, 1.0, 1.0, 1.0], 448.0),  # the large one is forgotten
    (4, [0.0], 1.0),
    (4, [math.inf], 1.0),
])  # fmt: skip
def test_scales_follow_ranges(history, seen, scale):
    state = ScaleState(448.0, history)
    for amax in seen:
        state.seen(amax)
        update([state])
    assert float(state.scale) == scale
    assert float(state.ranges[0]) == 0.0


def test_the_scale_of_a_tiny_range_is_finite():
    assert float(scale_for(1e-44, 448.0, 1.0)) == pytest.approx(3.4028235e38)
    assert float(scale_for(math.nan, 448.0, 5.0)) == 5.0


def test_fp8_products_are_near_those_of_full_precision_and_bias_gradients_exact():
    import torch

    random = torch.Generator().manual_seed(0)
    x, w, dy = (torch.randn(*shape, generator=random) for shape in ((64, 96), (48, 96), (64, 48)))
    bias = torch.randn(48, generator=random)
    wanted = [t.clone().requires_grad_() for t in (x, w, bias)]
    found = [t.clone().requires_grad_() for t in (x, w, bias)]
    plain = torch.nn.functional.linear(*wanted)
    with (float8 := Float8()):
        y = float8.linear("it", *found)
    plain.backward(dy)
    y.backward(dy)
    assert _off(y, plain) < 0.06
    assert max(_off(a.grad, b.grad) for a, b in zip(found[:2], wanted[:2], strict=True)) < 0.09
    assert torch.equal(found[2].grad, wanted[2].grad)
    xq, wq = (quantized(t, scale_for(t.abs().max(), 448.0, 1.0), "e4m3") for t in (x, w))
    scales = tuple(scale_for(t.abs().max(), 448.0, 1.0) for t in (x, w))
    reference = (xq.float() / scales[0]) @ (wq.float() / scales[1]).t()
    assert _off(scaled_product(xq, wq.t(), tuple(1 / scale for scale in scales), torch.float32, True), reference) < 0.01


def _off(a, b):
    return float((a.detach().float() - b.detach().float()).norm() / b.detach().float().norm())


def test_what_gpus_refuse_is_refused_on_processors_too():
    import torch

    def of(*shape, kind=torch.float8_e4m3fn):
        return torch.ones(shape).to(kind)

    refuse_illegal(of(32, 64), of(16, 64).t())
    for left, right, told in (
        (of(32, 64), of(64, 16), "right one in columns"),
        (of(32, 90), of(16, 90).t(), "k = 90"),
        (of(32, 64, kind=torch.float8_e5m2), of(16, 64, kind=torch.float8_e5m2).t(), "two E5M2"),
    ):
        with pytest.raises(ConfigError, match=told):
            refuse_illegal(left, right)


def test_fp8_trains_as_well_as_16_bit():
    def last_loss(linear, context):
        import torch

        p, (x, _) = layers.parameters(TOY, "cpu"), layers.inputs(TOY, "cpu")
        target = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
        optimizer = torch.optim.SGD(p.values(), lr=0.05)
        for _ in range(50):
            with context():
                y = layers.layer(x, p, TOY, layers.fused_attention, linear)
            loss = (y - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    from contextlib import nullcontext

    float8 = Float8()
    plain = last_loss(layers.plain_linear, nullcontext)
    assert last_loss(float8.linear, lambda: float8) == pytest.approx(plain, rel=0.05)


# --- speed -----------------------------------------------------------------------------------------------------------


class Sleeper:
    """A layer whose passes take a known time, and that notes what happens."""

    def __init__(self, seconds):
        self.seconds, self.passes, self.notes = seconds, 0, []

    def __call__(self, x):
        self.passes += 1
        self.notes.append("forward")
        return self

    def backward(self, dy):
        self.notes.append("backward")
        time.sleep(self.seconds if self.passes > 2 else 0.2)


def test_the_speedometer_leaves_the_warm_up_out():
    layer = climbing.Rung(Sleeper(0.01))
    speed = speedometer(lambda: layer.once(None, None), clock_laps(time.perf_counter), warm_up=2, passes=5)
    assert layer.forward.passes == 7
    assert 0.01 <= speed.least <= speed.median <= 0.1
    assert speed.least <= speed.mean < 0.15


def test_the_context_is_left_before_backward():
    layer = Sleeper(0.0)

    @contextmanager
    def spy():
        layer.notes.append("in")
        yield
        layer.notes.append("out")

    layer.passes = 9
    climbing.Rung(layer, spy).once(None, None)
    assert layer.notes == ["in", "forward", "out", "backward"]


def test_gradients_add_up():
    import torch

    weight = torch.ones(1, requires_grad=True)
    layer = climbing.Rung(lambda x: x * weight)
    speedometer(lambda: layer.once(torch.ones(1), torch.ones(1)), clock_laps(time.perf_counter), warm_up=1, passes=2)
    assert weight.grad.item() == 3.0


def test_a_gpu_s_passes_are_timed_in_its_stream_and_the_host_waits_once():
    """The host launches a pass in 0.2 ms, and the GPU needs 1 ms for it; the first pass after the warm-up takes 3 ms."""
    gpu = Gpu()
    waits = []
    gpu.cuda.synchronize = lambda: waits.append(gpu.synchronize())
    times = iter([9e-3] * 2 + [2.6e-3])

    def once():
        gpu.launched(0.4e-3, launch_time=0.2e-3)
        gpu.launched(next(times, 0.6e-3))

    speed = speedometer(once, event_laps(gpu.cuda), warm_up=2, passes=5)
    assert (speed.least, speed.median, speed.mean) == pytest.approx((1e-3, 1e-3, 1.4e-3), rel=0.03)
    assert len(waits) == 2


def test_a_graph_s_replay_adds_to_gradients_as_other_rungs_do():
    """Gradients are where they were before the capture, zeroed and not taken away, and streams wait for one another."""
    import torch

    gpu, seen = Gpu(), []
    weight = torch.ones(3, requires_grad=True)

    def forward(x):
        seen.append((gpu.stream, weight.grad if weight.grad is None else weight.grad.sum().item()))
        gpu.launched(1e-3)
        return weight * x

    x, dy = torch.ones(3), torch.ones(3)
    speed = graphed(gpu, climbing.Rung(forward, captured=True), {"w": weight}, x, dy)
    assert seen[-1] == ("side", 0.0)
    assert [stream for stream, _ in seen] == ["side"] * 4
    assert gpu.waits[:2] == [("side", "default"), ("default", "side")]
    assert speed.median == pytest.approx(1e-3, rel=1e-2)


def graphed(gpu, rung, parameters, x, dy):
    """The graph rung on a simulated GPU."""
    from unittest.mock import patch

    with patch.object(climbing, "torch", gpu):
        return speedometer(climbing._captured(lambda: rung.once(x, dy), parameters), event_laps(gpu.cuda), 1, 3)


def test_mfu_and_error_belong_to_the_row_s_own_time():
    for row in rungs_of(TOY, "sdpa", "fp8_delayed", expected={"sdpa": 1e-3, "fp8_delayed": 1e-3}, peak=1e11).values():
        assert row["mfu"] == pytest.approx(TOY.step_flops / (row["ms"] / 1e3) / 1e11)
        assert ("error" in row) == (row["predicted_ms"] is not None) == (row["rung"] == "sdpa")
        if "error" in row:
            assert row["error"] == pytest.approx(row["predicted_ms"] / row["ms"] - 1)


def test_the_peak_is_forgotten_before_each_rung(monkeypatch):
    notes = []
    monkeypatch.setattr(climbing, "forget_peak", lambda device: notes.append("forgotten"))
    monkeypatch.setattr(climbing, "peak_bytes", lambda device: notes.append("told"))
    rungs_of(TOY, "functional", "sdpa")
    assert notes == ["forgotten", "told"] * 2


def test_the_peak_of_a_rung_is_its_own():
    """And not the largest of the process so far, where the system forgets it."""
    import torch

    climbing.forget_peak("cpu")
    if climbing.peak_bytes("cpu") > 1.1 * resident_bytes():
        pytest.skip("this system does not forget the largest resident set")
    large = torch.ones(1 << 25)
    high = climbing.peak_bytes("cpu")
    del large
    climbing.forget_peak("cpu")
    assert climbing.peak_bytes("cpu") < high - (1 << 26)


def test_both_names_of_transformer_engine_s_context_are_known():
    def enter(**more):
        return more

    assert engine.autocast(SimpleNamespace(autocast=enter), enabled=True) == {"enabled": True}
    assert engine.autocast(SimpleNamespace(fp8_autocast=enter), enabled=False) == {"enabled": False}


@needs_gpu
def test_on_a_gpu_rungs_get_faster_and_are_predicted():
    """Each rung that ran is within 15 % of its prediction. Needs a GPU with a row of accelerators; fp8 from Hopper on."""
    from amped.cli.bench_ladder import _expected

    shape, rungs = Shape(dtype="bfloat16"), ("eager", "functional", "sdpa", "compiled", "graph")
    rungs += ("fp8_dynamic", "fp8_delayed") if has_fp8("cuda") else ()
    expected, peak, name = _expected(shape, "cuda", None, None)
    if expected is None:
        pytest.skip(f"no table has a row of {name}")
    rows = {r["rung"]: r for r in climbing.climbed(shape, "cuda", rungs, expected, peak, warm_up=10, passes=20)}
    assert [row["skipped"] for row in rows.values() if row["skipped"]] == []
    assert all(rows[rung]["agrees"] for rung in ("eager", "functional", "sdpa"))
    assert {rung: row["error"] for rung, row in rows.items() if not abs(row["error"]) <= 0.15} == {}
    assert rows["compiled"]["ms"] < rows["sdpa"]["ms"] < rows["eager"]["ms"]
    if has_fp8("cuda"):
        assert rows["fp8_delayed"]["ms"] < rows["compiled"]["ms"]


def test_the_layer_is_compiled_as_one_graph():
    """Where the compiler cannot follow the layer, it runs in pieces, and a rung tells of those."""
    import torch

    p, (x, _) = layers.parameters(TOY, "cpu"), layers.inputs(TOY, "cpu")
    for attention in (layers.explicit_attention, layers.fused_attention):
        found = torch._dynamo.explain(lambda x, attention=attention: layers.layer(x, p, TOY, attention))(x)
        assert (found.graph_count, found.graph_break_count) == (1, 0)
