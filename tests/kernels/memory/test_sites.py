"""Where a model can keep less: what its modules compute, whoever wrote them, and which product takes whose output."""

import copy
import pickle
import warnings
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch import nn  # noqa: E402

from amped.kernels import memory  # noqa: E402
from amped.kernels.memory import conversion  # noqa: E402
from amped.kernels.memory.kin import activation_of, norm_of  # noqa: E402
from amped.kernels.memory.sites import NO_PRODUCT  # noqa: E402

torch.set_num_threads(1)
NORMS = memory.Policy(("in_place_norm",))
AGAIN = memory.Policy(("activation_function_recomputation",))


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch):
    monkeypatch.setattr(conversion, "_seconds", lambda alone, x: 0.0)


@pytest.fixture
def x():
    return torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))


class OwnRMS(nn.Module):
    """As in many models: computed in fp32 by a method of its own."""

    def __init__(self, width=32, eps=1e-6, offset=0.0):
        super().__init__()
        self.weight, self.eps, self.offset = nn.Parameter(torch.full((width,), 1.3 - offset)), eps, offset

    def _norm(self, x):
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * (self.weight + self.offset)


class OwnLayerNorm(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.full((width,), 0.7)), nn.Parameter(torch.full((width,), 0.2))

    def forward(self, x):
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class OwnGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3.0))))


class Counting(OwnGELU):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Quick(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


def gradients(model, *given, **named):
    return torch.autograd.grad(model(*given, **named).square().sum(), list(model.parameters()))


def agree(made, plain, *given, **named):
    for a, b in zip(gradients(made, *given, **named), gradients(plain, *given, **named), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("module", "function"), [
    (OwnGELU(), "gelu_tanh"), (nn.GELU(), "gelu"), (nn.SiLU(), "silu"), (Quick(), ""), (Counting(), ""), (nn.Tanh(), ""),
    (nn.Dropout(), ""), (nn.Identity(), ""), (nn.SiLU(inplace=True), ""), (OwnRMS(), ""),
])  # fmt: skip
def test_an_activation_function_is_what_it_computes(module, function):
    assert activation_of(module) == function


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("module", "kind"), [
    (OwnRMS(), (False, 1e-6, 0.0)), (OwnRMS(eps=1e-5, offset=1.0), (False, 1e-5, 1.0)), (OwnLayerNorm(), (True, 1e-5, 0.0)),
])  # fmt: skip
def test_a_norm_is_what_it_computes(module, kind, dtype):
    found = norm_of(copy.deepcopy(module).to(dtype))
    assert (found.centered, found.eps, found.offset) == kind


@pytest.mark.parametrize("module", [nn.Linear(4, 4), nn.LayerNorm(4), nn.Embedding(4, 4), nn.PReLU(4), OwnGELU()])
def test_what_is_no_norm_or_is_known_by_its_class_is_not_one(module):
    assert norm_of(module) is None


@pytest.mark.parametrize("norm", [OwnRMS, partial(OwnRMS, offset=1.0), OwnLayerNorm])
def test_norms_of_your_own_keep_their_output_and_stay_what_they_are(x, norm):
    plain = nn.Sequential(nn.Linear(32, 32), norm(), nn.Linear(32, 32))
    made = copy.deepcopy(plain)
    report = memory.convert(made, NORMS, x)
    assert [c.name for c in report.taken] == ["1"]
    assert report.after_bytes == memory.stash_bytes(made, x).bytes < report.before_bytes
    for model in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert isinstance(model[1], type(plain[1]))
        agree(model, plain, x)
    assert memory.revert(made) == 1
    assert (type(made[1]), vars(made[1]).keys()) == (type(plain[1]), vars(plain[1]).keys())


class Feeding(nn.Module):
    """A feed-forward network in which the activation function and the product after it stand apart."""

    def __init__(self, between=lambda y: y):
        super().__init__()
        self.up, self.act, self.down, self.between = nn.Linear(32, 64), OwnGELU(), nn.Linear(64, 32), between

    def forward(self, hidden=None, mask=None):
        y = self.act(self.up(hidden))
        return self.down(self.between(y)) if mask is None else self.down(self.between(y)) * mask


def test_a_product_anywhere_that_takes_the_very_output_computes_it_again(x):
    plain = Feeding()
    made = copy.deepcopy(plain)
    (choice,) = memory.convert(made, AGAIN, x).taken
    assert choice.saved_bytes >= x.nbytes * 2
    agree(made, plain, x)


@pytest.mark.parametrize("between", [lambda y: y * 2, lambda y: y[:, :4], lambda y: y.mul_(2)])
def test_it_does_not_if_the_output_is_another_by_then(x, between):
    with warnings.catch_warnings():
        report = memory.convert(Feeding(between), AGAIN, x)
    assert (report.taken, [c.refused for c in report.refused]) == ([], [NO_PRODUCT])


def test_whoever_else_takes_the_output_gets_right_gradients_and_changes_in_place_are_seen(x):
    plain = Feeding()
    made = copy.deepcopy(plain)
    memory.convert(made, AGAIN, x)
    for model in (made, plain):
        model.forward = lambda x, m=model: (lambda y: m.down(y) + y[..., :32])(m.act(m.up(x)))
    agree(made, plain, x)
    for model in (made, plain):
        model.forward = lambda x, m=model: m.down(m.act(m.up(x)).mul_(3))
    agree(made, plain, x)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_converted_model_answers_without_gradients(x, mode):
    plain = nn.Sequential(Feeding(), OwnRMS(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 32))
    made = copy.deepcopy(plain)
    assert memory.convert(made, memory.Policy(), x).taken
    with mode():
        torch.testing.assert_close(made(x), plain(x))


class Parallel(nn.Module):
    """Two norms of one input: neither lets go of it alone."""

    def __init__(self):
        super().__init__()
        self.before = nn.Linear(32, 32)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(2))
        self.products = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    def forward(self, x):
        x = self.before(x)
        return x + sum(product(norm(x)) for norm, product in zip(self.norms, self.products, strict=True))


def test_norms_of_one_input_are_converted_together(x):
    plain = Parallel()
    made = copy.deepcopy(plain)
    report = memory.convert(made, NORMS, x)
    assert [c.name for c in report.taken] == ["norms.0 + norms.1"]
    assert report.refused == []
    assert report.before_bytes - report.after_bytes == x.nbytes + 2 * 2 * 8 * 4  # the input, and both norms' means
    agree(made, plain, x)
    assert memory.revert(made) == 2


def test_each_site_is_measured_by_itself(x):
    """The first norm's output is dropped out, that of the second is not; both have one shape."""
    made = nn.Sequential(
        nn.Linear(32, 32), nn.LayerNorm(32), nn.Dropout(), nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 32)
    )
    report = memory.convert(made, NORMS, x)
    assert {c.name: c.refused for c in (*report.taken, *report.refused)} == {"1": conversion.NO_SAVING, "4": ""}


def test_what_keeps_the_input_as_well_is_told(x):
    class Branching(Parallel):
        def forward(self, x):
            x = self.before(x)
            return self.products[0](self.norms[0](x)) + self.products[1](x)

    report = memory.convert(Branching(), NORMS, x)
    assert {c.name: c.refused for c in report.refused} == {"norms.0": conversion.KEPT_ANYWAY, "norms.1": "is not run"}


def test_a_batch_may_be_keywords_or_a_dict_and_a_dict_may_be_an_input(x):
    batch = {"hidden": x, "mask": torch.ones(2, 8, 1)}
    for given, named in (((), batch), ((batch,), {})):
        assert memory.convert(Feeding(), AGAIN, *given, **named).taken
    model = Feeding()
    model.forward = lambda given: Feeding.forward(model, **given)
    assert memory.convert(model, AGAIN, batch).taken


def test_modules_placed_by_hand_stay(x):
    made = nn.Sequential(
        nn.Linear(32, 32), memory.InplaceLayerNorm(32), nn.Linear(32, 32), memory.InplaceGELU(), nn.Linear(32, 32)
    )
    kinds = [type(module) for module in made]
    report = memory.convert(made, memory.Policy(), x)
    assert (report.taken, report.before_bytes) == ([], report.after_bytes)
    assert memory.revert(made) == 0
    assert [type(module) for module in made] == kinds
