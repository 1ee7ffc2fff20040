"""An encoder layer in any layouts is torch's: forward, every gradient, parameters there and back."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'amped[torch]')")

from amped.base.errors import ConfigError  # noqa: E402
from amped.kernels.layer_shape import Dimensions  # noqa: E402
from amped.kernels.tensor_layouts import tensors  # noqa: E402
from amped.kernels.tensor_layouts.encoder import (  # noqa: E402
    PARAMETERS,
    LayoutEncoderLayer,
    PlanWarning,
    from_state,
    from_torch,
    torch_layer,
)
from amped.kernels.tensor_layouts.plan import Plan, row_major  # noqa: E402
from amped.kernels.tensor_layouts.spec import LETTERS  # noqa: E402
from amped.kernels.tensor_layouts.tensors import logical  # noqa: E402
from tests.helpers.tensor_layouts import MEASURED, SMALL, random_plan  # noqa: E402

torch.set_num_threads(1)  # tests run side by side
EXACT = {"rtol": 0, "atol": 1e-10}


def reference(dropout=0.0, activation="relu", seed=0, dimensions=SMALL):
    """Torch's layer in double precision, with weights large enough to matter."""
    torch.manual_seed(seed)
    layer = torch_layer(dimensions, dropout=dropout, activation=activation, dtype=torch.float64)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def inputs(dimensions=SMALL):
    x, grad = (torch.randn(dimensions.batch, dimensions.seq, dimensions.hidden, dtype=torch.float64) for _ in range(2))
    return x, grad


def gradients(layer, x, grad):
    """Output, gradient of the input, gradients of the parameters by name."""
    x = x.clone().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    y.backward(grad)
    return y.detach(), x.grad, {name: p.grad for name, p in layer.named_parameters()}


def compare(torch_made, layer, x, grad):
    y, dx, dparameters = gradients(torch_made, x, grad)
    own_y, own_dx, own = gradients(layer, x, grad)
    torch.testing.assert_close(own_y, y, **EXACT)
    torch.testing.assert_close(own_dx, dx, **EXACT)
    want = from_state(dparameters, layer.dimensions)
    for name in PARAMETERS:
        torch.testing.assert_close(logical(own[name], layer.plan.layout(name), LETTERS[name]), want[name], **EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_any_plan_gives_the_output_and_gradients_of_torch(seed):
    layer = reference(seed=seed)
    compare(layer, from_torch(layer, random_plan(seed)), *inputs())


@pytest.mark.parametrize("attention", ["explicit", "sdpa"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_both_attentions_and_activations_do(attention, activation):
    layer = reference(activation=activation)
    plan = random_plan(7, layer="sdpa") if attention == "sdpa" else row_major(SMALL)
    compare(layer, from_torch(layer, plan), *inputs())


def test_a_second_pass_derives_no_strides_again(monkeypatch):
    """What depends on the layouts only: on a GPU, a pass of Python for each of 40 operators takes longer than they do."""
    layer, given = from_torch(reference(), random_plan(11)), inputs()
    before = gradients(layer, *given)
    monkeypatch.setattr(tensors, "stride_of", None)
    assert all(torch.equal(a, b) for a, b in zip(gradients(layer, *given)[:2], before, strict=False))


def test_sizes_that_are_all_alike_are_not_mixed_up():
    """Batch, length, heads and head size 4 each: nothing may be told apart by its size."""
    alike = Dimensions(4, 4, 4, 16, 16)
    layer = reference(dimensions=alike)
    compare(layer, from_torch(layer, random_plan(3, alike)), *inputs(alike))


@pytest.mark.parametrize("seed", range(3))
def test_dropout_is_differentiated_under_its_own_masks(seed):
    layer = from_torch(reference(dropout=0.3), random_plan(seed))
    x = torch.randn(1, 3, SMALL.hidden, dtype=torch.float64, requires_grad=True)

    def seeded(values, *_):
        torch.manual_seed(5)
        return layer(values)

    assert torch.autograd.gradcheck(seeded, (x, *layer.parameters()), atol=1e-6, fast_mode=True)
    assert not torch.equal(seeded(x), layer(x))


def test_dropout_keeps_the_expected_value_and_is_off_in_evaluation():
    layer = from_torch(reference(dropout=0.5))
    x, _ = inputs()
    layer.eval()
    torch.testing.assert_close(layer(x), from_torch(reference())(x), **EXACT)


def test_parameters_come_back_bit_for_bit():
    layer = reference()
    made = from_torch(layer, random_plan(1))
    for name, values in from_state(layer.state_dict(), SMALL).items():
        assert torch.equal(logical(getattr(made, name), made.plan.layout(name), LETTERS[name]), values)


def test_a_fresh_layer_trains():
    torch.manual_seed(0)
    layer = LayoutEncoderLayer(SMALL, random_plan(2), dropout=0.0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    x = torch.randn(2, 5, 12)
    target = torch.randn(2, 5, 12)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_an_input_that_lies_right_is_not_copied():
    layer = LayoutEncoderLayer(SMALL, random_plan(0), dtype=torch.float64)
    layout = layer.plan.layout("X")
    sizes = SMALL.sizes
    lying = logical(torch.randn([sizes[letter] for letter in layout], dtype=torch.float64), layout, "bji")
    assert layer.laid_out(lying, "X").data_ptr() == lying.data_ptr()
    other = lying.transpose(0, 1).contiguous().transpose(0, 1)[:, :3]
    assert layer.laid_out(other, "X").data_ptr() != other.data_ptr()
    layer(lying)
    layer(other)


def test_other_batches_and_lengths_run_and_backward_may_be_had_twice():
    layer = from_torch(reference(), random_plan(4))
    x, grad = torch.randn(1, 9, 12, dtype=torch.float64), torch.randn(1, 9, 12, dtype=torch.float64)
    compare(reference(), layer, x, grad)
    y = layer(x)
    once = torch.autograd.grad(y, list(layer.parameters()), grad, retain_graph=True)
    twice = torch.autograd.grad(y, list(layer.parameters()), grad)
    assert all(torch.equal(a, b) for a, b in zip(once, twice, strict=True))


def test_a_weight_changed_before_the_backward_pass_is_noticed():
    layer = LayoutEncoderLayer(SMALL, dtype=torch.float64)
    y = layer(inputs()[0])
    with torch.no_grad():
        layer.WO.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_plan_measured_elsewhere_says_so_once():
    plan = Plan(SMALL, random_plan(0).layouts, measured=MEASURED | {"device_type": "cuda", "device": "a GPU"})
    layer = LayoutEncoderLayer(SMALL, plan, dtype=torch.float64)
    with pytest.warns(PlanWarning, match="seq 5, not 4; a GPU, not cpu"):
        layer(torch.randn(2, 4, 12, dtype=torch.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(torch.randn(2, 4, 12, dtype=torch.float64))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"plan": random_plan(0, Dimensions(2, 5, 4, 16))}, "another layer: heads 4, not 3, hidden 16, not 12"),
        ({"plan": random_plan(0), "attention": "sdpa"}, "explicit attention, not sdpa"),
        ({"activation": "geglu"}, "there are relu and gelu"),
        ({"dropout": 1.0}, r"not in \[0, 1\)"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        LayoutEncoderLayer(SMALL, **arguments)


def test_inputs_that_do_not_fit_are_refused():
    layer = LayoutEncoderLayer(SMALL)
    with pytest.raises(ConfigError, match=r"takes \(batch, sequence, 12\), not \(5, 12\)"):
        layer(torch.randn(5, 12))
    with pytest.raises(ConfigError, match="float64"):
        layer(torch.randn(2, 5, 12, dtype=torch.float64))


def test_layers_of_another_kind_are_not_converted():
    layer = reference()
    other = copy.deepcopy(layer)
    other.norm_first = True
    with pytest.raises(ConfigError, match="post-norm"):
        from_torch(other)
    with pytest.raises(ConfigError, match="sequence first"):
        from_torch(torch.nn.TransformerEncoderLayer(12, 3, 7))
