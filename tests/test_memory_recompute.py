"""What is computed again: dropout between softmax and values, activation functions and norms before a product."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch.nn import functional as F  # noqa: E402, N812

from amped.errors import ConfigError  # noqa: E402
from amped.kernels import memory  # noqa: E402

torch.set_num_threads(1)
ACTS = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu}


def tensors(*shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def same(mine, theirs, leaves):
    outputs = [function(*leaves) for function in (mine, theirs)]
    assert torch.allclose(*outputs, rtol=0, atol=1e-12)
    incoming = torch.randn_like(outputs[0])
    found, exact = (torch.autograd.grad(o, leaves, incoming) for o in outputs)
    for a, b in zip(found, exact, strict=True):
        assert (a - b).abs().max() < 1e-12 * max(1, b.abs().max())


@pytest.mark.parametrize("act", ACTS)
def test_act_linear(act):
    leaves = tensors((3, 4, 6), (5, 6), (5,))
    same(lambda x, w, b: memory.act_linear(x, w, b, act), lambda x, w, b: F.linear(ACTS[act](x), w, b), leaves)
    same(lambda x, w: memory.act_linear(x, w, None, act), lambda x, w: F.linear(ACTS[act](x), w), leaves[:2])


def test_norm_linear():
    x, scale, shift, w, b = tensors((3, 4, 6), (6,), (6,), (5, 6), (5,))
    same(memory.norm_linear, lambda x, g, s, w, b: F.linear(F.layer_norm(x, (6,), g, s), w, b), [x, scale, shift, w, b])
    same(lambda x, g, w: memory.norm_linear(x, g, None, w, eps=1e-6, rms=True),
         lambda x, g, w: F.linear(F.rms_norm(x, (6,), g, 1e-6), w), [x, scale, w])  # fmt: skip


def test_swiglu_linear():
    same(memory.swiglu_linear, lambda g, u, w: F.linear(F.silu(g) * u, w), tensors((3, 6), (3, 6), (5, 6)))


def test_only_the_gradients_that_are_needed():
    x, w = tensors((3, 6), (5, 6))
    memory.act_linear(x.detach(), w).sum().backward()
    assert (x.grad, w.grad.shape) == (None, (5, 6))


def test_what_they_keep():
    x, scale, shift, w, b = tensors((32, 6), (6,), (6,), (5, 6), (5,))
    own = [x, scale, shift, w, b]
    assert memory.stash_bytes(memory.act_linear, x, w, b, exclude=own).bytes == 0
    assert memory.stash_bytes(memory.norm_linear, *own, exclude=own).bytes == 2 * 32 * 8
    assert memory.stash_bytes(memory.swiglu_linear, x, x * 1, w, exclude=own).bytes == 32 * 6 * 8


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_is_drawn_as_torch_draws_it(p):
    scores, values = tensors((2, 3, 5, 7), (2, 3, 7, 4))

    def mine(s, v):
        torch.manual_seed(1)
        return memory.softmax_dropout_matmul(s, v, p)

    def theirs(s, v):
        torch.manual_seed(1)
        return F.dropout(s.softmax(-1), p) @ v

    same(mine, theirs, [scores, values])


def test_almost_everything_dropped_and_nothing_when_not_training():
    scores, values = tensors((2, 50, 50), (2, 50, 4))
    found = memory.softmax_dropout_matmul(scores, values, 0.999)
    assert torch.isfinite(torch.autograd.grad(found.sum(), scores)[0]).all()
    assert torch.equal(memory.softmax_dropout_matmul(scores, values, 0.5, training=False), scores.softmax(-1) @ values)


def test_gradcheck_without_dropout():
    assert torch.autograd.gradcheck(memory.softmax_dropout_matmul, tensors((2, 3, 4), (2, 4, 3)))


def test_it_keeps_softmax_mask_and_values():
    scores, values = (t.detach().float().requires_grad_() for t in tensors((2, 8, 16), (2, 16, 4)))
    found = memory.stash_bytes(lambda s, v: memory.softmax_dropout_matmul(s, v, 0.5), scores, values)
    assert found.bytes == 2 * 8 * 16 * (4 + 1) + 2 * 16 * 4 * 4


@pytest.mark.parametrize(("call", "told"), [
    (lambda x: memory.act_linear(x, x, None, "gelo"), "did you mean 'gelu'"),
    (lambda x: memory.norm_linear(x, x[0], x[0], x, rms=True), "an RMS norm has no shift"),
    (lambda x: memory.softmax_dropout_matmul(x, x, 1.5), "no probability"),
    (lambda x: memory.softmax_dropout_matmul(x, x[:2]), "do not fit"),
])  # fmt: skip
def test_what_does_not_fit_is_told(call, told):
    with pytest.raises(ConfigError, match=told):
        call(torch.ones(3, 3))
