"""What eager PyTorch moves between products, counted operation by operation, with its gradients.

The modules are those of torchtitan's Llama of 2024, written from what they compute. Rows of `software_specifications` quote the ratio
to the bytes of fused kernels.
"""

import pytest

from amped.tables.table_files import SOFTWARE
from amped.tables.tables import Tables
from tests.helpers.traffic import both_passes

TOKENS = 16
# Width, width of the feed-forward network, heads, heads of keys and values; heads of 128.
NETWORKS = {
    "Llama 3 8B": (4096, 14336, 32, 8),
    "Llama 3 70B": (8192, 28672, 64, 8),
    "Llama 2 13B": (5120, 13824, 40, 40),
}


@pytest.fixture(autouse=True)
def torch():
    return pytest.importorskip("torch", reason="counts what PyTorch's operators move")


def moved(function, *shapes, weights=()):
    """Bytes for each token, forward and backward."""
    import torch

    like = {"dtype": torch.bfloat16, "requires_grad": True}
    inputs = [torch.rand(1, TOKENS, *shape, **like) for shape in shapes] + [torch.rand(n, **like) for n in weights]
    return sum(map(sum, both_passes(function, *inputs))) / TOKENS


def six_kernels(x, weight):
    import torch

    wide = x.to(torch.float32)
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True).add_(1e-5)) * weight).type_as(x)


def rotated(x, turns):
    import torch

    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def repeated(x, times):
    return x[:, :, :, None].expand(*x.shape[:3], times, x.shape[3]).reshape(1, TOKENS, -1, x.shape[3])


def factor(network, norm_bytes):
    """The bytes of eager operations of a layer as a multiple of those of fused kernels; a norm moves `norm_bytes`."""
    import torch

    width, wide, heads, few = NETWORKS[network]
    turns = torch.polar(torch.ones(1, TOKENS, 1, 64), torch.rand(1, TOKENS, 1, 64))
    eager = 2 * norm_bytes + moved(lambda q, k: (rotated(q, turns), rotated(k, turns)), (heads, 128), (few, 128))
    if heads > few:
        eager += moved(lambda k, v: (repeated(k, heads // few), repeated(v, heads // few)), (few, 128), (few, 128))
    eager += moved(lambda up, by: torch.nn.functional.silu(up) * by, (wide,), (wide,))
    residuals = 2 * 12 * width  # both sums are one kernel, forward and backward
    return (eager + residuals) / (2 * 14 * width + 8 * 128 * (heads + few) + 16 * wide + residuals)


@pytest.mark.parametrize("network", NETWORKS)
def test_torchtitan_of_2024_moves_what_its_row_says(network):
    width = NETWORKS[network][0]
    assert factor(network, moved(six_kernels, (width,), weights=(width,))) == pytest.approx(
        row("torchtitan 2024"), rel=0.06
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_with_one_kernel_for_a_norm_less_than_half_of_it_is_left(network):
    assert factor(network, 14 * NETWORKS[network][0]) == pytest.approx(row("torchtitan"), rel=0.06)


def test_compiled_blocks_move_what_fused_kernels_move():
    assert row("torchtitan 2024 compiled") == row("torchtitan compiled") == 1


def row(name):
    return Tables().row(SOFTWARE, name).columns["streaming_traffic_factor"]
