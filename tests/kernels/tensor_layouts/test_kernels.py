"""Contractions and fused kernels in any layout compute what torch computes, without a copy behind one's back."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'amped[torch]')")

from amped.base.errors import ConfigError  # noqa: E402
from amped.kernels.layer_shape import Dimensions  # noqa: E402
from amped.kernels.tensor_layouts import bench, bench_rows, fused, running  # noqa: E402
from amped.kernels.tensor_layouts.bench import Bench, run  # noqa: E402
from amped.kernels.tensor_layouts.bench_rows import Room  # noqa: E402
from amped.kernels.tensor_layouts.exact import select  # noqa: E402
from amped.kernels.tensor_layouts.fused import Choices  # noqa: E402
from amped.kernels.tensor_layouts.gemms import gemm_layouts  # noqa: E402
from amped.kernels.tensor_layouts.plan import row_major  # noqa: E402
from amped.kernels.tensor_layouts.spec import ENCODER  # noqa: E402
from amped.kernels.tensor_layouts.table import Table  # noqa: E402
from amped.kernels.tensor_layouts.tensors import allocate, contract, hidden_copies, logical, stored  # noqa: E402
from amped.kernels.timing import Timing  # noqa: E402
from tests.helpers.bench import needs_gpu  # noqa: E402
from tests.helpers.tensor_layouts import CONTRACTIONS  # noqa: E402

torch.set_num_threads(1)  # tests run side by side
ODD = Dimensions(2, 3, 5, 35, 11)
DOUBLE = {"dtype": torch.float64}


@pytest.mark.parametrize("operator", CONTRACTIONS, ids=lambda o: o.name)
def test_every_layout_of_a_contraction_is_right(operator):
    """All 1 248, into outputs full of NaN: what was there must not be read."""
    torch.manual_seed(0)
    a, b, c = operator.einsum.replace("->", ",").split(",")
    sizes = ODD.sizes
    left, right = (torch.randn([sizes[letter] for letter in term], **DOUBLE) for term in (a, b))
    want = 0.3 * torch.einsum(operator.einsum, left, right)
    lefts, rights = ({lay: stored(values, term, lay) for lay in lays} for values, term, lays in (
        (left, a, {next(iter(each.values())) for each in gemm_layouts(operator)}),
        (right, b, {list(each.values())[1] for each in gemm_layouts(operator)}),
    ))  # fmt: skip
    for layouts in gemm_layouts(operator):
        first, second, last = layouts.values()
        out = allocate(last, sizes, DOUBLE).fill_(float("nan"))
        contract(operator.einsum, (first, second, last), lefts[first], rights[second], out, sizes, 0.3)
        torch.testing.assert_close(logical(out, last, c), want, rtol=1e-12, atol=1e-12)


def test_hidden_copies_are_seen_where_they_are_known_and_not_where_there_are_none():
    x = torch.randn(4, 5, 6, 7)
    w, y = torch.randn(7, 6, 3), torch.randn(3, 4, 5)
    sizes = Dimensions(4, 5, 6, 42).sizes
    scores = torch.empty(6, 4, 5, 5)
    keys = torch.randn(6, 4, 5, 7)
    calls = [
        lambda: torch.einsum("bjhp,bkhp->bhjk", x, x),
        lambda: torch.einsum("phi,ibj->bjhp", w, y),
        lambda: contract("phbk,phbj->hbjk", ("hbkp", "hbjp", "hbjk"), keys, keys, scores, sizes, 1.0),
    ]
    both, one, none = map(hidden_copies, calls)
    assert "aten::clone" in both
    assert "aten::clone" in one
    assert not none


# --- fused kernels --------------------------------------------------------------------------------------------------


def anyhow(*shape, seed=0, **like):
    """Random numbers in a tensor whose dimensions lie in reverse order."""
    generator = torch.Generator().manual_seed(seed + len(shape) + sum(shape))
    values = torch.randn(*reversed(shape), generator=generator, **(like or DOUBLE))
    return values.permute(*reversed(range(len(shape))))


def like(tensor):
    return anyhow(*tensor.shape).fill_(float("nan"))


@pytest.fixture(params=[1.0, 0.7], ids=["no dropout", "dropout"])
def keep(request):
    return request.param


def mask_of(keep, *shape):
    return None if keep == 1.0 else anyhow(*shape, seed=9) > -0.5


def dropped(values, mask, keep):
    return values if mask is None else values * mask / keep


def same(*pairs):
    for got, want in pairs:
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)


def test_softmax_and_its_backward(keep):
    scores, mask, grad = anyhow(3, 2, 5, 4).requires_grad_(), mask_of(keep, 3, 2, 5, 4), anyhow(3, 2, 5, 4, seed=1)
    want = dropped(torch.softmax(scores, -1), mask, keep)
    (dscores,) = torch.autograd.grad(want, scores, grad)
    out, kept, back = like(scores), like(scores), like(scores)
    fused.softmax(scores.detach(), mask, kept, out, Choices(keep))
    fused.bs(grad, mask, kept, back, Choices(keep))
    same((out, want), (kept, torch.softmax(scores, -1)), (back, dscores))


def test_bias_dropout_residual_norm_and_its_backward(keep):
    values, residual = (anyhow(2, 3, 8, seed=s).requires_grad_() for s in (1, 2))
    bias, scale, shift = (anyhow(8, seed=s).requires_grad_() for s in (3, 4, 5))
    mask, grad = mask_of(keep, 2, 3, 8), anyhow(2, 3, 8, seed=6)
    summed = dropped(values + bias, mask, keep) + residual
    want = torch.nn.functional.layer_norm(summed, (8,), scale, shift)
    grads = torch.autograd.grad(want, (values, residual, scale, shift, bias), grad)
    out, unit, inverse = like(values), like(values), anyhow(2, 3)
    inputs = [x.detach() for x in (values, bias, residual, scale, shift)]
    fused.bdrln(*inputs, mask, unit, inverse, out, Choices(keep))
    dln, dresidual, dvalues, dscale, dshift = like(values), like(values), like(values), like(scale), like(scale)
    fused.bsb(grad, unit, scale.detach(), dln, dscale, dshift, Choices(keep))
    fused.blnrd(dln, unit, inverse, mask, dresidual, dvalues, Choices(keep))
    dbias = like(scale)
    fused.baob(dvalues, dbias, Choices(keep))
    same((out, want), *zip((dvalues, dresidual, dscale, dshift, dbias), grads, strict=True))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_bias_activation_dropout_and_its_backward(keep, activation):
    values, bias = anyhow(2, 3, 8).requires_grad_(), anyhow(8).requires_grad_()
    mask, grad = mask_of(keep, 2, 3, 8), anyhow(2, 3, 8, seed=1)
    want = dropped(getattr(torch.nn.functional, activation)(values + bias), mask, keep)
    grads = torch.autograd.grad(want, (values, bias), grad)
    out, before, dvalues, dbias = like(values), like(values), like(values), like(bias)
    choices = Choices(keep, activation=activation)
    fused.bad(values.detach(), bias.detach(), mask, before, out, choices)
    fused.bdrlb(grad, mask, before, dvalues, dbias, choices)
    same((out, want), *zip((dvalues, dbias), grads, strict=True))


def test_residual_and_norm_backward_in_one():
    residual, grad, unit, last = (anyhow(2, 3, 8, seed=s) for s in range(4))
    scale = anyhow(8)
    out, dscale, dshift, dbias = like(residual), like(scale), like(scale), like(scale)
    fused.ebsb(residual, grad, unit, last, scale, out, dscale, dshift, dbias, Choices())
    both = residual + grad
    same(
        (out, both * scale), (dscale, (both * unit).sum((0, 1))), (dshift, both.sum((0, 1))), (dbias, last.sum((0, 1)))
    )


def test_attention_biases_and_the_input_gradient():
    kqv, bias = anyhow(3, 4, 2, 2, 5), anyhow(3, 4, 2)
    out, dbias = like(kqv), like(bias)
    fused.aib(kqv, bias, out, Choices())
    fused.baib(kqv, dbias, Choices())
    total = like(out[0, 0])
    fused.bei(kqv[0, 0], kqv[1, 1], total, Choices())
    same((out, kqv + bias[..., None, None]), (dbias, kqv.sum((-2, -1))), (total, kqv[0, 0] + kqv[1, 1]))


def test_half_precision_sums_in_single():
    """A row of large equal numbers, whose squares half precision cannot hold, normalizes to almost nothing."""
    values = torch.full((1, 1, 512), 300.0, dtype=torch.float16) + torch.arange(512) % 2
    zero, one = torch.zeros(512, dtype=torch.float16), torch.ones(512, dtype=torch.float16)
    out, unit, inverse = (torch.empty_like(x) for x in (values, values, values[..., 0]))
    fused.bdrln(values, zero, torch.zeros_like(values), one, zero, None, unit, inverse, out, Choices())
    want = torch.nn.functional.layer_norm(values.double(), (512,))
    torch.testing.assert_close(out.double(), want, rtol=2e-3, atol=2e-3)


# --- timing ---------------------------------------------------------------------------------------------------------


def test_the_table_of_a_small_layer_has_every_row_and_a_plan():
    table = run(Bench(Dimensions(2, 8, 2, 8, 32), budget=0.0))
    assert len(table.rows) == 413
    assert {row["op"] for row in table.rows} == {o.name for o in ENCODER}
    gemms = [row for row in table.rows if "gemm" in row]
    assert max(row["max_rel_err"] for row in gemms) < 1e-4
    assert not any(row["hidden_copy"] for row in gemms)
    assert min(row["time_us"] for row in table.rows) > 0
    plan = select(table)
    assert plan.predicted_us >= plan.lower_bound_us > 0
    assert min(plan.ceilings) > 0


def test_an_interrupted_table_is_gone_on_with(monkeypatch):
    """What was kept counts; a GEMM that it has a row of is not measured again, also for another operator."""
    asked = Bench(Dimensions(2, 8, 2, 8, 32), budget=0.0, only=("lin1", "dXlin2", "bad"))
    kept = []

    def interrupt(done, of):
        if done == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(bench, "KEEP_EVERY", -1.0)
    with pytest.raises(KeyboardInterrupt):
        run(asked, interrupt, keep=lambda table: kept.append([dict(row) for row in table.rows]))
    before = Table(asked.dimensions, bench.about(asked), kept[-1])
    assert len(before.rows) == 20
    monkeypatch.setattr(Room, "_gemm", lambda *_: pytest.fail("measured again"))
    table = run(asked, before=before)
    assert table.rows[:20] == before.rows
    assert [row["op"] for row in table.rows] == ["lin1"] * 16 + ["bad"] * 16 + ["dXlin2"] * 16
    assert run(asked, before=table).rows == table.rows
    with pytest.raises(ConfigError, match="not of one kind"):
        run(asked, before=Table(ODD, before.measured, []))


class Watched:
    """A timer that times nothing, and notes what it is asked."""

    device = "cuda"

    def __init__(self):
        self.cold, self.operands = [], []

    def measure(self, call, cap, cold=None):
        self.cold.append(cold)
        self.operands += [cell.cell_contents for cell in call.__closure__ or () if torch.is_tensor(cell.cell_contents)]
        return Timing.of([1.0] * 5)


def test_a_gpu_s_operators_find_their_tensors_in_memory_and_not_in_a_cache():
    """On a processor they are called as often as their time allows, one after another."""
    for device, cold in (("cuda", True), ("cpu", False)):
        room = Room(Dimensions(2, 8, 2, 8, 32), "cpu", "float32", 0.9, 0.0)
        room.timer, room.device = Watched(), device
        room._timed(lambda: None)
        assert room.timer.cold == [cold]


def test_ceilings_are_measured_with_random_numbers(monkeypatch):
    watched = Watched()
    monkeypatch.setattr(bench, "timer_for", lambda device: watched)
    bench.ceilings(Bench(Dimensions(2, 8, 2, 8, 32), budget=0.0))
    read = [t for t in watched.operands if t.std() > 0.9]
    assert len(read) == len(watched.operands) == 5


def test_a_kernel_that_cannot_be_launched_has_no_row_and_the_others_have_theirs(monkeypatch):
    """Triton's errors are not errors of run time: one tile that is too large must not end the run."""

    class OutOfResources(Exception):  # noqa: N818 (Triton's name)
        pass

    def fails(self, operator, layouts, flat):
        if layouts == every[1]:
            raise OutOfResources("out of resource: shared memory, Required: 300000")
        return {"impl": "triton", "time_us": 1.0}

    asked = Bench(Dimensions(2, 8, 2, 8, 32), only=("bad",))
    (operator,), every = asked.operators, asked.rows()["bad"]
    monkeypatch.setattr(bench_rows, "launch_errors", lambda: (OutOfResources,))
    monkeypatch.setattr(Room, "_fused", fails)
    room = Room(asked.dimensions, "cpu", "float32", 0.9, 0.0)
    with pytest.warns(UserWarning, match=r"bad with .* is left out: out of resource: shared memory"):
        found = list(room.rows(operator, every))
    assert [row["layouts"] for row in found] == [layouts for layouts in every if layouts != every[1]]


def test_a_plan_that_cannot_be_launched_says_why_and_torch_s_layers_are_timed(monkeypatch):
    class OutOfResources(Exception):  # noqa: N818 (Triton's name)
        pass

    class Layer(torch.nn.Module):
        def forward(self, x):
            raise OutOfResources("out of resource: shared memory, Required: 300000")

    monkeypatch.setattr(running, "launch_errors", lambda: (OutOfResources,))
    monkeypatch.setattr(running, "from_torch", lambda *_: Layer())
    dimensions = Dimensions(1, 4, 2, 8, 16)
    _, runs = running.compare(row_major(dimensions), dimensions, "cpu", "float32", 0.0, 0.01, compiled=False)
    assert [run.why_not for run in runs[-2:]] == ["out of resource: shared memory, Required: 300000"] * 2
    assert all(run.total for run in runs[:2])


def test_all_rows_are_all_valid_layouts():
    rows = Bench(ODD, every_row=True, only=("QKT", "lin1", "bad")).rows()
    assert {name: len(of) for name, of in rows.items()} == {"QKT": 128, "lin1": 16, "bad": 36}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"dtype": "float31"}, "--dtype 'float31' is not supported"),
        ({"device": "tpu"}, "--device 'tpu' is not known"),
        ({"dropout": 1.0}, "dropout"),
        ({"only": ("QTK",)}, "did you mean"),
    ],
)
def test_what_cannot_be_measured_is_refused(more, told):
    with pytest.raises(ConfigError, match=told):
        Bench(ODD, **more)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_told():
    with pytest.raises(ConfigError, match="no GPU"):
        Bench(ODD, device="cuda")


@needs_gpu
@pytest.mark.parametrize("name", ["aib", "bad", "bdrlb", "bdrln", "bei", "blnrd", "bs", "softmax"])
def test_triton_kernels_are_the_reference_in_every_lean_layout(name, keep):
    from tests.helpers.tensor_layouts import differences

    found = differences(name, Dimensions(2, 24, 4, 64), torch.bfloat16, "cuda", keep)
    assert max(found) <= torch.finfo(torch.bfloat16).eps  # one step at the largest value


@needs_gpu
def test_on_a_gpu_a_plan_takes_the_sum_of_its_operators():
    from amped.kernels.tensor_layouts.running import compare

    dimensions = Dimensions(8, 512, 16, 1024)
    plan = select(run(Bench(dimensions, "cuda", "bfloat16", budget=60.0)))
    _, runs = compare(plan, dimensions, "cuda", "bfloat16", dropout=0.1, budget=10.0, compiled=False)
    assert runs[-1].total == pytest.approx(plan.predicted_without_input_gradient, rel=0.10)
