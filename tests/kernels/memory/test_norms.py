"""Norms in place: gradients over scales of weights, when they are safe, and what happens where they are not."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch import nn  # noqa: E402

from amped.kernels import memory  # noqa: E402
from amped.kernels.memory import in_place_norm  # noqa: E402
from amped.kernels.memory.in_place_norm import CHECK_EVERY, largest_ratio, why_unsafe  # noqa: E402
from tests.helpers.bench import needs_gpu  # noqa: E402
from tests.helpers.memory import in_place_of  # noqa: E402

torch.set_num_threads(1)
WIDTH = 48


def layer(scale=1.0, dtype=torch.float64, shift=0.5, rms=False, affine=True):
    torch.manual_seed(0)
    made = nn.RMSNorm(WIDTH, 1e-6, affine) if rms else nn.LayerNorm(WIDTH, 1e-5, affine)
    if affine:
        with torch.no_grad():
            made.weight.copy_(scale * (0.5 + torch.rand(WIDTH)) * torch.randn(WIDTH).sign())
            if not rms:
                made.bias.copy_(shift * torch.randn(WIDTH).clamp(-2, 2))
    return made.to(dtype)


def gradients(module, x, incoming):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(module(x), [x, *module.parameters()], incoming)


def error(found, exact):
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, exact, strict=True))


def compared(scale, dtype, rms=False):
    """Errors of gradients in place, and of torch's own, against float64."""
    plain = layer(scale, dtype, rms=rms)
    x, incoming = (torch.randn(64, WIDTH).to(dtype) for _ in range(2))
    exact = gradients(layer(scale, dtype, rms=rms).double(), x.double(), incoming.double())
    made = in_place_of(plain)
    return error(gradients(made, x, incoming), exact), error(gradients(plain, x, incoming), exact)


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_gradcheck(rms, affine):
    plain = layer(rms=rms, affine=affine)
    made = in_place_of(plain)
    x = torch.randn(2, 1, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(made, (x,))
    incoming = torch.randn_like(x)
    assert error(gradients(made, x, incoming), gradients(plain, x, incoming)) < 1e-12
    assert torch.allclose(made(x), plain(x), atol=1e-14)


@pytest.mark.parametrize("scale", [1, 0.1, 0.01])
def test_fp32_gradients_over_scales_of_the_weights(scale):
    mine, _ = compared(scale, torch.float32)
    assert mine < 4e-7 * (1 + 1.5 / (0.5 * scale))


@pytest.mark.parametrize("scale", [1, 0.2])
def test_bf16_gradients_are_as_good_as_torch_s_where_they_are_safe(scale):
    mine, native = compared(scale, torch.bfloat16)
    assert mine < max(3 * native, 0.02)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 1.6e-2)], ids=str)
@pytest.mark.parametrize("scale", [1, 1e-3])
def test_an_rms_norm_is_exact_to_rounding_whatever_its_weights(scale, dtype, tolerance):
    assert compared(scale, dtype, rms=True)[0] < tolerance


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 12.8), (torch.float16, 102.4), (torch.float32, 838861)])
def test_safe_is_below_the_ratio_of_the_format(dtype, limit):
    assert largest_ratio(dtype) == pytest.approx(limit, rel=1e-5)
    weight, bias = torch.full((4,), -0.5), torch.zeros(4)
    for share, safe in ((0.99, True), (1.01, False)):
        bias[2] = 0.5 * limit * share
        assert (not why_unsafe(weight, bias, dtype)) is safe
    assert not why_unsafe(None, None, dtype)


@pytest.mark.parametrize("value", [0.0, 1e-7, float("nan")])
def test_a_weight_of_zero_is_never_safe(value):
    weight = torch.ones(4)
    weight[1] = value
    assert why_unsafe(weight, None, torch.float32)


@pytest.mark.parametrize("rms", [False, True])
def test_where_it_is_not_safe_torch_s_own_norm_runs_and_says_so(rms):
    plain = layer(rms=rms)
    with torch.no_grad():
        plain.weight[3] = 0
    made = in_place_of(plain)
    x, incoming = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    with pytest.warns(UserWarning, match=f"an {type(made).__name__} keeps its input: its smallest weight is 0"):
        found = gradients(made, x, incoming)
    assert error(found, gradients(plain, x, incoming)) == 0
    function = memory.inplace_rms_norm if rms else memory.inplace_layer_norm
    with pytest.warns(UserWarning, match="keeps its input"):
        function(x.requires_grad_(), (WIDTH,), plain.weight)


def test_a_module_looks_again_after_a_while_and_says_it_once(recwarn):
    made = in_place_of(layer(dtype=torch.float32))
    x = torch.randn(2, WIDTH)
    kept = memory.stash_bytes(made, x).bytes
    with torch.no_grad():
        made.weight[0] = 0
    for _ in range(2 * CHECK_EVERY):
        made(x)
    assert len([w for w in recwarn if "keeps its input" in str(w.message)]) == 1
    assert memory.stash_bytes(made, x).bytes > kept


def test_without_gradients_nothing_is_kept_and_nothing_checked():
    made = in_place_of(layer(scale=0.0))
    with torch.no_grad():
        assert torch.equal(
            made(torch.ones(2, WIDTH, dtype=torch.float64)), layer(scale=0.0)(torch.ones(2, WIDTH).double())
        )


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("rms", [False, True])
def test_on_a_gpu_the_kernels_give_the_reference_s_gradients(rms, affine, dtype):
    """With and without weights; the exact gradients are those of the weights as rounded to the format."""
    plain = layer(dtype=dtype, rms=rms, affine=affine)
    x, incoming = torch.randn(2, 999, WIDTH).to(dtype)
    exact = gradients(layer(dtype=dtype, rms=rms, affine=affine).double(), x.double(), incoming.double())
    made = in_place_of(plain).cuda()
    found = gradients(made, x.cuda(), incoming.cuda())
    assert [g.dtype for g in found] == [dtype] * len(exact)
    assert error([g.cpu() for g in found], exact) < {torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]


# --- what a GPU meets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rms", [False, True])
def test_a_batch_without_entries_has_gradients_of_zero(rms):
    plain = layer(dtype=torch.float32, rms=rms)
    made = in_place_of(plain)
    x = torch.empty(0, WIDTH)
    for found, exact in zip(gradients(made, x, x), gradients(plain, x, x), strict=True):
        assert torch.equal(found, exact)


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("grad", [True, False])
def test_under_autocast_of_a_gpu_a_norm_is_in_fp32_as_torch_s_own_is(rms, grad, monkeypatch):
    """Where autocast widens torch's norms; autocast of a processor does not, and leaves the format of the input."""
    plain = layer(dtype=torch.float32, rms=rms)
    made = in_place_of(plain)
    x, incoming = torch.randn(64, WIDTH).bfloat16(), torch.randn(64, WIDTH)
    with torch.set_grad_enabled(grad), pytest.MonkeyPatch.context() as patched:
        patched.setattr(in_place_norm, "_widened_by_autocast", lambda x: True)
        function = memory.inplace_rms_norm if rms else memory.inplace_layer_norm
        parameters = [p for p in (plain.weight, getattr(plain, "bias", None)) if p is not None]
        assert function(x, (WIDTH,), *parameters, eps=plain.eps).dtype == torch.float32
        if grad:
            found = gradients(made, x, incoming)
            exact = gradients(plain, x.float(), incoming)
            assert [g.dtype for g in found] == [torch.bfloat16, *(torch.float32 for _ in parameters)]
            assert error(found, exact) < 5e-3


def test_weights_are_not_looked_at_while_a_graph_is_captured():
    """Which would wait for the GPU, and end the capture; nor do they count as safe without a look before."""
    made = in_place_of(layer(dtype=torch.float32))
    made.weight = None  # a look would take its smallest entry
    assert made._unsafe(torch.float32, capturing=True)
    assert not made._unsafe(torch.float32, capturing=False)
    assert not made._unsafe(torch.float32, capturing=True)


@pytest.mark.parametrize("rms", [False, True])
def test_a_weight_that_became_zero_since_the_last_look_gives_finite_gradients(rms):
    plain = layer(dtype=torch.float64, rms=rms)
    made = in_place_of(plain)
    x, incoming = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    made(x)
    with torch.no_grad():
        plain.weight[3] = 0
    found, exact = (gradients(module, x, incoming) for module in (made, plain))
    others = torch.arange(WIDTH) != 3  # the input of that entry is lost
    assert torch.allclose(found[0][:, others], exact[0][:, others], rtol=0, atol=1e-12)
    assert all(g.isfinite().all() for g in found)
