"""Products in fp8 as a GPU would run them: what casts move, layouts by torch's own checks of GPUs, and compilation around."""

import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from amped.kernels import dense_layer as layers  # noqa: E402
from amped.kernels.ladder import climbing, fp8  # noqa: E402
from amped.kernels.ladder.fp8 import Float8, ScaleState, update  # noqa: E402
from amped.kernels.ladder.fp8_cast import cast_both_ways, quantized, range_of  # noqa: E402
from amped.kernels.layer_shape import Shape  # noqa: E402

torch.set_num_threads(1)
# For each entry of a cast: read in 16 bits, written twice in 8; and read once more if its range is searched.
CAST_BYTES, LOOK_BYTES = 4.0, 2.0
TOY = Shape(hidden=64, ffn=128, heads=4, seq=16, batch=2, dtype="bfloat16", dropout=0.0)


class Moved(TorchDispatchMode):
    """The bytes of the matrices that each operator reads and writes, and how many operators ran."""

    def __init__(self):
        super().__init__()
        self.bytes, self.operators = Counter(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        tensors = [*args, *(found if isinstance(found, tuple) else [found])]
        matrices = [t for t in tensors if isinstance(t, torch.Tensor) and t.dim() == 2]
        self.bytes[func._schema.name] += sum(t.nbytes for t in matrices)
        self.operators += 1
        return found


def a_pass(delayed):
    """The bytes and the number of operators of the second pass; the first one has no scales yet."""
    p, (x, dy) = layers.parameters(TOY, "cpu"), layers.inputs(TOY, "cpu")
    x.requires_grad_()
    float8 = Float8(delayed)
    for _ in range(2):
        with Moved() as seen:
            with float8:
                y = layers.layer(x, p, TOY, layers.fused_attention, float8.linear)
            y.backward(dy)
    return seen


def entries(s):
    """Those that are cast: inputs, weights and gradients of four products."""
    inputs, outputs = s.tokens * (3 * s.hidden + s.ffn), s.tokens * (5 * s.hidden + s.ffn)
    return inputs + s.parameters + outputs


@pytest.mark.parametrize(("delayed", "each"), [(True, CAST_BYTES), (False, CAST_BYTES + LOOK_BYTES)])
def test_casts_move_what_the_prediction_counts(delayed, each):
    """Each entry is read in 16 bits and written twice in 8; it is read once more for a scale of its own range."""
    seen = a_pass(delayed)
    looked = seen.bytes["aten::linalg_vector_norm"]
    assert seen.bytes["amped::fp8_cast"] + looked == each * entries(TOY)
    assert seen.operators < 400  # 559 while each scale was updated by itself


def test_scales_lie_where_a_gpu_reads_them():
    """cuBLASLt refuses a product (CUBLAS_STATUS_NOT_SUPPORTED) whose scale does not lie at a multiple of 16 bytes."""
    states = [ScaleState(448.0, 16) for _ in range(5)]
    for number, state in enumerate(states):
        state.seen(number + 1.0)
    update(states)
    assert [state.inverse.data_ptr() % 16 for state in states] == [0] * 5
    assert [float(state.inverse) for state in states] == pytest.approx([(n + 1.0) / 448 for n in range(5)])


def test_a_cast_gives_the_matrix_both_ways_and_its_range():
    torch.manual_seed(0)
    x, scale = torch.randn(24, 40).bfloat16(), torch.tensor(50.0)
    rows, transposed, amax = cast_both_ways(x, scale, "e4m3")
    assert torch.equal(rows.view(torch.uint8), quantized(x, scale, "e4m3").view(torch.uint8))
    assert transposed.is_contiguous()
    assert torch.equal(transposed.view(torch.uint8), rows.view(torch.uint8).t())
    assert amax == range_of(x) == x.float().abs().max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_gpu_s_checks_take_all_three_products(dtype):
    """Torch's own checks for tensors of a GPU, in which no value is computed: layouts, sides, formats of bias and scales."""
    function, asked = fp8._Float8Linear, (torch.empty(0, dtype=dtype), 32, 48, 64)
    with FakeTensorMode():
        like, tokens, inputs, outputs = {"dtype": asked[0].dtype, "device": "cuda"}, *asked[1:]
        x, weight, bias = (
            torch.empty(shape, **like) for shape in ((2, tokens // 2, inputs), (outputs, inputs), (outputs,))
        )
        ctx, float8 = SimpleNamespace(), Float8()
        ctx.save_for_backward = lambda *tensors: setattr(ctx, "saved_tensors", tensors)
        with float8:
            y = function.forward(ctx, x, weight, bias, float8, "it")
        gradients = function.backward(ctx, torch.empty_like(y))
        found = [(tuple(t.shape), t.dtype, t.device.type) for t in (y, *gradients[:3])]
    shapes = [(2, tokens // 2, outputs), tuple(x.shape), tuple(weight.shape), tuple(bias.shape)]
    assert found == [(shape, dtype, "cuda") for shape in shapes]


@pytest.mark.parametrize("break_it", ["columns", "sides"])
def test_a_gpu_s_checks_refuse_what_we_refuse(break_it):
    """So that what passes above was looked at."""
    with FakeTensorMode():
        like, one = {"dtype": torch.float8_e4m3fn, "device": "cuda"}, torch.ones((), device="cuda")
        left, right = torch.empty(32, 64, **like), torch.empty(48, 64, **like).t()
        if break_it == "columns":
            right = torch.empty(64, 48, **like)
        else:
            left, right = torch.empty(32, 24, **like), torch.empty(48, 24, **like).t()
        with pytest.raises(RuntimeError):
            torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def test_the_layer_around_its_products_can_be_compiled():
    s = replace(TOY, dtype="float32")
    p, (x, dy) = layers.parameters(s, "cpu"), layers.inputs(s, "cpu")
    plain = climbing._outcome(partial(climbing.made("fp8_delayed", p, s, "cpu").once, x, dy), p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of torch's own tracer
        with patch.object(torch, "compile", side_effect=partial(torch.compile, backend="aot_eager")) as compiling:
            rung = climbing._in_fp8(p, s, Float8(), True)
        found = climbing._outcome(partial(rung.once, x, dy), p)
    assert compiling.call_count == 1
    for a, b in zip(found, plain, strict=True):
        assert (a - b).norm() < 1e-5 * b.norm()
