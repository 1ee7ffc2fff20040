"""What torch.compile makes of it: in-place functions stay whole in its graph, and a smaller budget of its own keeps less.

One file, so that one process of the test run loads the compiler.
"""

import copy
import dataclasses
import warnings
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.kernels import memory  # noqa: E402
from amped.kernels.layer_shape import Dimensions  # noqa: E402
from amped.kernels.memory import bench  # noqa: E402
from tests.helpers.memory import IN_PLACE, in_place_of  # noqa: E402
from tests.kernels.memory.test_autocast import losses  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fresh():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of torch's own tracer
        torch.compiler.reset()
        yield


@pytest.mark.parametrize(("name", "dtype"), [*((name, torch.float32) for name in IN_PLACE), ("silu", torch.bfloat16)])
def test_a_compiled_graph_takes_them_whole(name, dtype):
    """SiLU in bf16 keeps a bit more than the others."""
    mine, theirs = IN_PLACE[name]
    compiled = torch.compile(lambda x: mine(2 * x).sin(), backend="aot_eager", fullgraph=True)
    x = torch.randn(37, dtype=dtype, requires_grad=True)
    found, exact = (torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, lambda x: theirs(2 * x).sin()))
    assert torch.allclose(found, exact, atol=1e-3 if dtype == torch.float32 else 3e-2)
    (uncompiled,) = torch.autograd.grad(mine(2 * x).sin().sum(), x)
    assert torch.equal(found, uncompiled)


def test_a_compiled_graph_takes_recomputed_products_whole_under_autocast():
    weight, x = torch.randn(5, 37, requires_grad=True), torch.randn(8, 37, requires_grad=True)
    functions = torch.compile(memory.act_linear, backend="aot_eager", fullgraph=True), memory.act_linear
    found = []
    for function in functions:
        with torch.autocast("cpu", torch.bfloat16):
            y = function(2 * x, weight)
        found.append((y, *torch.autograd.grad(y.float().square().sum(), (x, weight))))
    assert found[0][0].dtype == torch.bfloat16
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_compiled_graph_does_not_keep_what_is_computed_again():
    """Though the compiler sees that the forward pass has it: under autocast, a network as `convert` makes it."""
    plain = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 24))
    x = torch.randn(8, 24, requires_grad=True)
    kept, found = [], []
    for convert in (False, True):
        made = copy.deepcopy(plain)
        with torch.autocast("cpu", torch.bfloat16):
            if convert:
                memory.convert(made, memory.Policy(("activation_function_recomputation",)), x)
            compiled = torch.compile(made, backend="aot_eager_decomp_partition", fullgraph=True)
            kept.append(memory.stash_bytes(compiled, x, exclude=list(made.parameters())).bytes)
        found.append(losses(compiled, x))
    more = kept[0] - kept[1] - 8 * 40 * 2  # than the output of GELU in bf16
    assert more in (0, 24 * 40 * 2)  # from torch 2.14 on, the plain network also keeps a weight in bf16
    assert found[1] == pytest.approx(found[0], rel=4e-3)


@pytest.mark.parametrize("checked", [False, True])
def test_a_norm_that_is_compiled_before_it_was_checked_keeps_its_input(checked):
    """A weight of zero would make its gradients infinite, and a compiled graph cannot look; an eager pass before it can."""
    plain = torch.nn.LayerNorm(37)
    x = torch.randn(8, 37, requires_grad=True)
    made = in_place_of(plain)
    if checked:
        made(x)
    else:
        with torch.no_grad():
            plain.weight[3] = 0
    compiled = torch.compile(made, backend="aot_eager", fullgraph=True)
    found, exact = (torch.autograd.grad(f(x).square().sum(), (x, *plain.parameters())) for f in (compiled, plain))
    for a, b in zip(found, exact, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    in_place = memory.stash_bytes(compiled, x, exclude=plain.parameters()).bytes < memory.stash_bytes(plain, x).bytes
    assert in_place == checked


def test_a_smaller_budget_of_the_compiler_keeps_less():
    x = torch.randn(2, 16, 32, requires_grad=True)
    whole, less = (bench._compiled(Dimensions(2, 16, 2, 32), b, x, "aot_eager_decomp_partition")[0] for b in (1.0, 0.5))
    assert not whole.note + less.note
    assert less.kept_bytes < 0.7 * whole.kept_bytes


def test_times_of_the_compiler_stand_in_the_tables_and_what_is_missing_is_told(monkeypatch):
    """Without a C++ compiler, which inductor needs on a processor, there is a reason in place of a time."""
    from amped.report.memory import memory_markdown

    monkeypatch.setattr(bench.shutil, "which", lambda name: None)
    found = bench.run_bench(Dimensions(2, 4, 2, 8), "cpu", "float32", (1.0, 0.5), cap=0.0)
    rows = [row for row in found.variants if "torch.compile" in row.name]
    assert [row.note for row in rows] == [bench.NO_COMPILER] * 2
    assert memory_markdown(dataclasses.asdict(found)).count(bench.NO_COMPILER) == 2
    monkeypatch.setattr(bench, "_compiled", partial(bench._compiled, backend="aot_eager_decomp_partition"))
    found = bench.run_bench(Dimensions(2, 4, 2, 8), "cpu", "float32", (0.5,), cap=0.0)
    (row,) = (row for row in found.variants if "torch.compile" in row.name)
    assert (row.note, row.step_time > 0) == ("", True)
    assert f"{bench.FUSED}, torch.compile, budget 0.5 |" in memory_markdown(dataclasses.asdict(found))
