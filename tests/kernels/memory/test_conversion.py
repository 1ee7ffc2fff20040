"""Converting a model: what is chosen, that it is the same model, and that it can be undone."""

import copy
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch import nn  # noqa: E402

from amped.base.errors import ConfigError  # noqa: E402
from amped.kernels import memory  # noqa: E402
from amped.kernels.memory import conversion  # noqa: E402
from amped.kernels.memory.sites import NO_PRODUCT, NOT_ALONE  # noqa: E402

torch.set_num_threads(1)
EVERYTHING = memory.Policy(conversion.TECHNIQUES)
TIMES = {"InplaceLayerNorm": 2e-5, "InplaceGELU": 4e-5, "RecomputedActivation": 1e-5}


class Block(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(32, eps=1e-6), nn.Linear(32, 128), act, nn.Linear(128, 32))

    def forward(self, x):
        return x + self.inner(x)


def model(act=nn.GELU):
    torch.manual_seed(0)
    return nn.Sequential(*(Block(act()) for _ in range(3)))


@pytest.fixture
def x():
    return torch.randn(4, 8, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch):
    """Times by kind of module, so that what is chosen does not depend on the machine's mood."""

    def seconds(alone, x):
        alone(x).sum().backward()
        return TIMES.get(type(alone.module).__name__, 0.0)

    monkeypatch.setattr(conversion, "_seconds", seconds)


@pytest.mark.parametrize("act", [nn.GELU, lambda: nn.GELU("tanh"), nn.SiLU, nn.ReLU])
def test_it_is_the_same_model_and_reverting_gives_the_old_one(x, act):
    made = model(act)
    before, names = copy.deepcopy(made), [type(m) for m in made.modules()]
    parameters, eps = list(made.parameters()), made[0].inner[0].eps
    report = memory.convert(made, memory.Policy(), x)
    assert report.taken
    assert report.after_bytes == memory.stash_bytes(made, x).bytes < report.before_bytes
    assert all(a is b for a, b in zip(parameters, made.parameters(), strict=True))
    assert list(made.state_dict()) == list(before.state_dict())
    assert (made[0].inner[0].eps, eps) == (1e-6, 1e-6)
    assert torch.allclose(made(x), before(x), atol=1e-6)
    assert torch.allclose(copy.deepcopy(made)(x), before(x), atol=1e-6)
    assert memory.revert(made) > 0
    assert [type(m) for m in made.modules()] == names
    assert memory.stash_bytes(made, x).bytes == report.before_bytes
    assert [vars(m).keys() for m in made.modules()] == [vars(m).keys() for m in before.modules()]


@pytest.mark.parametrize(("act", "dtype", "bits"), [(nn.GELU, torch.bfloat16, 1), (nn.SiLU, torch.float16, 1),
                                                    (nn.SiLU, torch.bfloat16, 2)])  # fmt: skip
def test_the_report_counts_the_bits_that_are_kept(x, act, dtype, bits):
    made, narrow = model(act).to(dtype), x.to(dtype)
    report = memory.convert(made, memory.Policy(("in_place_activation",)), narrow)
    assert [c.saved_bytes for c in report.taken] == [4 * 8 * 128 * (2 - bits / 8)] * 3
    assert report.before_bytes - report.after_bytes == 3 * report.taken[0].saved_bytes


def losses(made, x):
    """Of fifty steps of training."""
    optimizer = torch.optim.Adam(made.parameters(), 1e-3)
    found = []
    for _ in range(50):
        loss = (made(x) - x.roll(1, 0)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found)


def test_it_trains_as_before(x):
    plain = losses(model(), x)
    assert plain[-1] < 0.8 * plain[0]
    for techniques in (conversion.TECHNIQUES, ("in_place_norm", "in_place_activation")):
        made = model()
        assert memory.convert(made, memory.Policy(techniques), x).taken
        assert (plain - losses(made, x)).abs().max() < 1e-3


def test_most_bytes_a_microsecond_first_and_no_more_than_the_target_needs(x):
    made = model()
    everything = memory.convert(made, memory.Policy(), x)
    assert [c.technique for c in everything.taken] == ["activation_function_recomputation"] * 3 + ["in_place_norm"] * 3
    worth = [c.saved_bytes / c.added_time for c in everything.taken]
    assert worth == sorted(worth, reverse=True)
    one = everything.taken[0].saved_bytes
    some = memory.convert(made, memory.Policy(target_bytes=everything.before_bytes - one - 1), x)
    assert (len(some.taken), some.fits) == (2, True)
    assert memory.convert(made, memory.Policy(target_bytes=everything.before_bytes), x).taken == []


def test_what_does_not_pay_is_left_out_unless_it_is_named_and_the_report_says_so(x):
    made = nn.Sequential(*model(), Attending(), nn.GELU())  # those before a product are computed again
    report = memory.convert(made, memory.Policy(), x)
    assert {c.technique for c in report.taken} == {"activation_function_recomputation", "in_place_norm"}
    left_out = {c.name: c.technique for c in report.refused if c.refused == conversion.NOT_TRIED}
    assert left_out == {"3.attention": "dropout_recomputation", "3.core": "dropout_recomputation"}
    assert {c.technique: c.refused for c in report.refused if c.name == "4"} == {
        "in_place_activation": conversion.NO_SAVING,
        "activation_function_recomputation": NO_PRODUCT,
    }
    assert "3.core: not dropout_recomputation: by `amped memory bench` it does not pay" in str(report)
    assert memory.convert(made, memory.Policy(("in_place_norm",)), x).refused == []


def test_a_target_out_of_reach_is_told(x):
    report = memory.convert(model(), memory.Policy(target_bytes=100), x)
    assert not report.fits
    assert "the target of 100 is NOT met" in str(report)
    assert len(report.taken) == 6


def test_a_norm_that_is_not_safe_is_left_alone_and_named(x):
    made = model()
    with torch.no_grad():
        made[1].inner[0].weight[0] = 0
    report = memory.convert(made, memory.Policy(("in_place_norm",)), x)
    assert [c.name for c in report.taken] == ["0.inner.0", "2.inner.0"]
    assert "1.inner.0: not in_place_norm: its smallest weight is 0" in str(report)


def test_what_others_use_or_watch_is_left_alone(x):
    act = nn.GELU()
    shared = nn.Sequential(nn.Linear(32, 64), act, nn.Linear(64, 32), act, nn.Linear(32, 32))
    watched = model()
    watched[0].inner[2].register_forward_hook(lambda *_: None)
    only = memory.Policy(("activation_function_recomputation",))
    report = memory.convert(shared, only, x)
    assert (report.taken, [c.refused for c in report.refused]) == ([], [NOT_ALONE])
    assert [c.name for c in memory.convert(watched, only, x).taken] == ["1.inner.2", "2.inner.2"]


@pytest.mark.parametrize(("dropout", "taken"), [(0.0, {"norm1", "activation"}), (0.1, {"norm1", "self_attn"})])
def test_torch_s_encoder_layer_whose_dropout_stands_between(x, dropout, taken):
    made = nn.TransformerEncoderLayer(32, 4, 128, dropout, "gelu", batch_first=True)
    state = torch.get_rng_state()
    report = memory.convert(made, EVERYTHING, x)
    assert torch.equal(torch.get_rng_state(), state)
    assert {c.name for c in report.taken} == taken
    assert {c.refused for c in report.refused} == {conversion.NO_SAVING}
    memory.revert(made)
    assert made.activation is nn.functional.gelu


class Attending(nn.Module):
    """Torch's attention, whose weights somebody wants, behind one of one's own."""

    def __init__(self, dropout=0.2):
        super().__init__()
        self.before = nn.Linear(32, 32)
        self.attention = nn.MultiheadAttention(32, 4, dropout, batch_first=True)
        self.core = memory.SoftmaxDropoutMatmul(dropout)

    def forward(self, x):
        x = self.before(x)
        x = self.core(x @ x.transpose(-2, -1), x)
        found, self.weights = self.attention(query=x, key=x, value=x)
        return found


def test_attention_that_writes_its_scores_is_converted_and_reverted(x):
    """On a processor dropout keeps a mask of full width, and the product's input beside it: a byte is left."""
    torch.manual_seed(0)
    made = Attending()
    before = copy.deepcopy(made)
    report = memory.convert(made, EVERYTHING, x)
    scores = {"attention": 4 * 4 * 8 * 8, "core": 4 * 8 * 8}
    assert {c.name: c.saved_bytes for c in report.taken} == {name: n * (2 * 4 - 1) for name, n in scores.items()}
    assert {c.technique for c in report.taken} == {"dropout_recomputation"}
    assert list(made.state_dict()) == list(before.state_dict())
    outputs = []
    for each in (made, before):
        torch.manual_seed(1)
        outputs.append((each(x), each.weights))
    torch.testing.assert_close(*outputs)
    assert memory.revert(made) == 2
    assert [type(m) for m in made.modules()] == [type(m) for m in before.modules()]
    assert memory.stash_bytes(made, x).bytes == report.before_bytes


def test_attention_is_chosen_by_its_bytes_a_microsecond_too(x, monkeypatch):
    monkeypatch.setitem(TIMES, "RecomputedAttention", 1e-3)
    made = nn.Sequential(*model(), Attending())
    report = memory.convert(made, EVERYTHING, x)
    worth = [c.saved_bytes / c.added_time if c.added_time else float("inf") for c in report.taken]
    assert worth == sorted(worth, reverse=True)
    assert (report.taken[0].name, report.taken[-1].name) == ("3.core", "3.attention")
    enough = replace(EVERYTHING, target_bytes=report.after_bytes + report.taken[-1].saved_bytes)
    assert "3.attention" not in {c.name for c in memory.convert(made, enough, x).taken}


def test_attention_with_nothing_to_compute_again_is_left_alone(x):
    assert memory.convert(Attending(0.0), EVERYTHING, x).refused == []
    report = memory.convert(Attending().eval(), EVERYTHING, x)
    assert [c.refused for c in report.refused] == [conversion.FUSED] * 2
    assert report.taken == []


@pytest.mark.parametrize(("call", "told"), [
    (lambda: memory.Policy(("in_place_norms",)), "did you mean 'in_place_norm'"),
    (lambda: memory.Policy(target_bytes=0), "a target of 0 bytes is none"),
    (lambda: memory.convert(model(), memory.Policy()), "no input to measure with"),
])  # fmt: skip
def test_mistakes_are_told(call, told):
    with pytest.raises(ConfigError, match=told):
        call()


def test_modules_of_a_converted_container_and_slices_of_it_compute_what_they_say(x):
    """Features are often taken from the middle of a container: behind its activation function, not before it."""
    made = model()[0].inner
    plain = copy.deepcopy(made)
    report = memory.convert(made, memory.Policy(("activation_function_recomputation",)), x)
    assert [choice.name for choice in report.taken] == ["2"]
    assert torch.equal(made(x), plain(x))
    assert torch.equal(made[2](x), plain[2](x))
    for part in (slice(0, 3), slice(2, 4), slice(2, None)):
        given = x if part.start == 0 else plain[:2](x)
        assert torch.equal(made[part](given), plain[part](given))
    assert type(made) is type(plain)
    assert torch.equal(copy.deepcopy(made)(x), plain(x))
    seen = []
    handle = made[2].register_forward_hook(lambda module, args, output: seen.append(output))
    assert torch.equal(made(x), plain(x))
    assert torch.equal(seen[0], plain[:3](x))
    handle.remove()
    assert memory.stash_bytes(made, x).bytes == report.after_bytes
