"""What is computed again: dropout between softmax and values, activation functions and norms before a product."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch.nn import functional as F  # noqa: E402, N812

from amped.base.errors import ConfigError  # noqa: E402
from amped.kernels import memory  # noqa: E402
from amped.kernels.memory.attention import RecomputedAttention  # noqa: E402

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


MASKS = {
    "no mask": (None, None),
    "truths": (torch.ones(5, 5, dtype=torch.bool).triu(1), torch.tensor([[False] * 5, [False] * 4 + [True]])),
    "numbers": (torch.linspace(-1, 1, 150, dtype=torch.float64).view(6, 5, 5), None),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["self", "cross", "other widths"])
def test_attention_is_torch_s_to_the_last_dropped_weight(kind, need_weights, batch_first, mask):
    """Outputs, weights, and the gradients of inputs and parameters through both; the same random numbers are drawn."""
    torch.manual_seed(0)
    widths = {"kdim": 10, "vdim": 14} if kind == "other widths" else {}
    made = torch.nn.MultiheadAttention(12, 3, 0.3, batch_first=batch_first, dtype=torch.float64, **widths)
    shape = (2, 5) if batch_first else (5, 2)
    inputs = [
        torch.randn(*shape, width, dtype=torch.float64)
        for width in (12, widths.get("kdim", 12), widths.get("vdim", 12))
    ]
    more = dict(zip(("attn_mask", "key_padding_mask"), MASKS[mask], strict=True))
    found = []
    for attention in (torch.nn.MultiheadAttention, RecomputedAttention):
        made.__class__ = attention
        leaves = [x.clone().requires_grad_() for x in inputs]
        given = [leaves[0]] * 3 if kind == "self" else leaves
        torch.manual_seed(1)
        outputs = made(*given, need_weights=need_weights, average_attn_weights=batch_first, **more)
        loss = sum((o * torch.arange(o.numel()).view(o.shape).sin()).sum() for o in outputs if o is not None)
        gradients = torch.autograd.grad(loss, [*leaves[: 1 if kind == "self" else 3], *made.parameters()])
        found.append([*(o for o in outputs if o is not None), *gradients])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_attention_under_autocast_has_gradients_of_the_right_formats():
    torch.manual_seed(0)
    made, x = torch.nn.MultiheadAttention(16, 2, 0.2), torch.randn(9, 2, 16)
    found = []
    for attention in (torch.nn.MultiheadAttention, RecomputedAttention):
        made.__class__ = attention
        leaf = x.clone().requires_grad_()
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = made(leaf, leaf, leaf)[0].float().square().sum()
        found.append(torch.autograd.grad(loss, [leaf, *made.parameters()]))
    for a, b in zip(*found, strict=True):
        assert (a.dtype, b.dtype) == (torch.float32, torch.float32)
        assert (a - b).norm() < 0.02 * a.norm()


@pytest.mark.parametrize(("call", "told"), [
    (lambda x: memory.act_linear(x, x, None, "gelo"), "did you mean 'gelu'"),
    (lambda x: memory.norm_linear(x, x[0], x[0], x, rms=True), "an RMS norm has no shift"),
    (lambda x: memory.softmax_dropout_matmul(x, x, 1.5), "no probability"),
    (lambda x: memory.softmax_dropout_matmul(x, x[:2]), "do not fit"),
])  # fmt: skip
def test_what_does_not_fit_is_told(call, told):
    with pytest.raises(ConfigError, match=told):
        call(torch.ones(3, 3))
