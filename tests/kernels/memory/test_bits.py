"""The bits that activation functions in place keep beside their output: how they are packed, and SiLU's second one in bf16."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")

from amped.kernels import memory  # noqa: E402
from amped.kernels.memory import activation_functions as functions  # noqa: E402
from amped.kernels.memory.bits import pack_bits, unpack_bits  # noqa: E402
from amped.kernels.memory.in_place_activation import _BLOCK  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("length", range(34))
def test_bits_come_back_as_they_were_packed(length):
    mask = torch.rand(length, generator=torch.Generator().manual_seed(length)) > 0.5
    packed = pack_bits(mask)
    assert packed.dtype == torch.uint8
    assert packed.numel() == math.ceil(length / 8)
    assert torch.equal(unpack_bits(packed, mask.shape), mask)
    assert [int(byte) & 1 for byte in packed] == mask[::8].int().tolist()


def test_bits_of_a_mask_that_is_not_contiguous():
    mask = (torch.rand(5, 7, 3) > 0.5).permute(2, 0, 1)[:, ::2]
    assert torch.equal(unpack_bits(pack_bits(mask), mask.shape), mask)


def every_bf16():
    """All that are numbers, but the largest, which have no other farther from zero."""
    numbers = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(torch.bfloat16)
    return numbers[numbers.abs() < torch.finfo(torch.bfloat16).max]


@pytest.mark.parametrize("farther", [True, False])
def test_the_middle_of_each_half_of_what_is_rounded_to_a_number(farther):
    """Half way from a number of bf16 to where its neighbor takes over, which below a power of two is half as far."""
    y = every_bf16()
    y = y[(y != 0) & (y.abs() > 1e-37)]  # a processor may take smaller ones for zero
    neighbor = (y.view(torch.int16) + (1 if farther else -1)).view(torch.bfloat16).double()
    taken_over = (y.double() + neighbor) / 2
    middle = functions.middle_of_half(y, torch.full(y.shape, farther))
    assert torch.equal(middle.double(), (y.double() + taken_over) / 2)
    assert torch.equal(middle.bfloat16(), y)
    # A quarter of its own unit in the last place, eps·2^exponent; an eighth toward zero from a power of two.
    mantissa, exponent = y.double().abs().frexp()
    unit = torch.finfo(torch.bfloat16).eps * 2.0 ** (exponent - 1)
    less = (mantissa == 0.5) & (not farther)
    assert less.any() != farther
    assert torch.equal((middle.double() - y.double()).abs() / unit, torch.where(less, 1 / 8, 1 / 4).double())


def test_zero_and_what_is_no_number_have_no_halves():
    y = torch.tensor([0.0, -0.0, math.nan, math.inf], dtype=torch.bfloat16)
    for farther in (True, False):
        middle = functions.middle_of_half(y, torch.full(y.shape, farther))
        assert middle[:2].tolist() == [0, 0]
        assert middle[2].isnan()
    assert middle[3] > 3e38  # an infinite output is not exceeded: the slope there is 1
    assert gradient(torch.tensor([math.inf, 0.0, -0.0], dtype=torch.bfloat16)).tolist() == [1, 0.5, 0.5]


def gradient(x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(memory.inplace_silu(x).sum(), x)[0]


@pytest.mark.parametrize("length", [*range(18), _BLOCK - 1, _BLOCK + 11, 2 * _BLOCK])
def test_silu_in_bf16_keeps_the_side_of_the_minimum_and_that_of_its_rounded_output(length):
    x = (1.5 * torch.randn(length, generator=torch.Generator().manual_seed(length))).bfloat16()
    output, packed = torch.ops.amped.activation_in_place(x, "silu")
    assert packed.shape == (2, math.ceil(length / 8))
    side, farther = (unpack_bits(row, x.shape) for row in packed)
    exact = functions.SILU.value(x.double())
    assert torch.equal(output, torch.nn.functional.silu(x))
    assert torch.equal(side, x.double() >= functions.SILU.minimum_input)
    assert torch.equal(farther, exact.abs() > output.double().abs())
    assert length < 100 or 0.4 < farther.double().mean() < 0.6


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", functions.FUNCTIONS)
def test_elsewhere_there_is_one_bit(name, dtype):
    x = torch.linspace(-4, 4, 43, dtype=dtype)
    _, packed = torch.ops.amped.activation_in_place(x, name)
    assert packed.shape == (functions.bits_kept(name, dtype), 6) == (1, 6)
    assert torch.equal(unpack_bits(packed[0], x.shape), x.double() >= functions.FUNCTIONS[name].minimum_input)


def test_the_second_bit_takes_a_third_off_the_largest_error():
    """Of the slope, over all inputs of bf16 from −8 to 8; the same bit turned round adds to it."""
    x = every_bf16()
    x = x[(x > -8) & (x < 8)]
    exact, ones = functions.SILU.slope(x.double()), torch.ones(x.shape)
    output, packed = torch.ops.amped.activation_in_place(x, "silu")
    turned = torch.stack([packed[0], ~packed[1]])
    right, without, wrong = (
        (torch.ops.amped.activation_in_place_backward(ones, output, bits, "silu") - exact).abs().max()
        for bits in (packed, packed[:1], turned)
    )
    assert 1.5 * right < without < wrong / 1.2


@pytest.mark.parametrize("made", [
    lambda x: x.T, lambda x: x[:, ::2], lambda x: x[None].expand(3, -1, -1), lambda x: x.view(5, 3, 3).permute(2, 0, 1),
])  # fmt: skip
def test_an_input_that_is_not_contiguous(made):
    x = made(torch.randn(5, 9, generator=torch.Generator().manual_seed(0)).bfloat16())
    assert not x.is_contiguous()
    assert torch.equal(memory.inplace_silu(x), memory.inplace_silu(x.contiguous()))
    assert torch.equal(gradient(x), gradient(x.contiguous()))
    assert (gradient(x).double() - functions.SILU.slope(x.double())).abs().max() < 0.01
