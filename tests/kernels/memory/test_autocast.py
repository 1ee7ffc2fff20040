"""Under autocast, what keeps less computes what torch's own functions compute there, forward and backward."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from amped.kernels import memory  # noqa: E402
from amped.kernels.memory import conversion  # noqa: E402

torch.set_num_threads(1)
WIDTH = 16
# What is recomputed, the same by torch's own functions, and the shapes of the leaves; the first are inputs of the layer.
RECOMPUTED = {
    **{act: (lambda x, w, b, act=act: memory.act_linear(x, w, b, act),
             lambda x, w, b, f=f: F.linear(f(x), w, b), ((24, WIDTH), (5, WIDTH), (5,)))
       for act, f in (("gelu", F.gelu), ("silu", F.silu), ("relu", F.relu))},
    "layer norm": (memory.norm_linear, lambda x, g, s, w, b: F.linear(F.layer_norm(x, (WIDTH,), g, s), w, b),
                   ((24, WIDTH), (WIDTH,), (WIDTH,), (5, WIDTH), (5,))),
    "rms norm": (lambda x, g, w: memory.norm_linear(x, g, None, w, eps=1e-6, rms=True),
                 lambda x, g, w: F.linear(F.rms_norm(x, (WIDTH,), g, 1e-6), w), ((24, WIDTH), (WIDTH,), (5, WIDTH))),
    "swiglu": (lambda x, w: memory.swiglu_linear(x, x.tanh(), w), lambda x, w: F.linear(F.silu(x) * x.tanh(), w),
               ((24, WIDTH), (5, WIDTH))),
}  # fmt: skip


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


def stepped(function, leaves):
    """The output, and the gradient of each leaf."""
    with autocast():
        y = function(*leaves)
        loss = y.float().square().sum()
    return [y.detach(), *torch.autograd.grad(loss, leaves)]


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's RMS norm tells that it takes its slower kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", RECOMPUTED)
def test_recomputed_products_are_torch_s(name, dtype):
    """The input is that of a network in fp32, or of a product before it in bf16; the parameters are in fp32."""
    mine, theirs, shapes = RECOMPUTED[name]
    torch.manual_seed(0)
    x, *parameters = (torch.randn(shape) for shape in shapes)
    leaves = [t.requires_grad_() for t in (x.to(dtype), *parameters)]
    for a, b in zip(stepped(mine, leaves), stepped(theirs, leaves), strict=True):
        assert a.dtype == b.dtype
        assert (a.double() - b.double()).norm() <= 0.008 * b.double().norm()  # two units of bf16; most are equal


def test_a_weight_that_two_products_share_has_the_gradient_of_both():
    """Autocast keeps the casts of weights; one that was made without a gradient must not be among them."""
    torch.manual_seed(0)
    leaves = [torch.randn(shape, requires_grad=True) for shape in ((24, WIDTH), (5, WIDTH))]
    found = stepped(lambda x, w: memory.act_linear(x, w) + F.linear(x, w), leaves)
    exact = stepped(lambda x, w: F.linear(F.gelu(x), w) + F.linear(x, w), leaves)
    assert (found[2] - exact[2]).norm() < 0.01 * exact[2].norm()


class Block(nn.Module):
    """A block of a transformer, whose attention writes its scores."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y)[0]
        return x + self.mlp(self.norm2(x))


def losses(model, x, steps=10):
    optimizer, found = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(steps):
        torch.manual_seed(step)
        with autocast():
            loss = (model(x) - x.flip(0)).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_a_converted_transformer_trains_as_it_did_before(monkeypatch):
    """The same weights, batches and random numbers: losses are equal up to the rounding of bf16."""
    monkeypatch.setattr(conversion, "_CAP", 0.0)  # what a site costs does not matter here
    torch.manual_seed(0)
    plain, x = nn.Sequential(Block(), nn.LayerNorm(WIDTH)), torch.randn(4, 6, WIDTH)
    made = copy.deepcopy(plain)
    with autocast():
        taken = {choice.technique for choice in memory.convert(made, memory.Policy(conversion.TECHNIQUES), x).taken}
    assert {"activation_function_recomputation", "dropout_recomputation"} <= taken
    before, after = (losses(model, x) for model in (plain, made))
    assert before[-1] < 0.95 * before[0]
    assert after == pytest.approx(before, rel=4e-3)
