"""What eager PyTorch moves between products, counted: the bytes that each operation reads and writes, with its gradients.

The modules are those of torchtitan's Llama of 2024, written from what they compute. Rows of `software_specifications` quote the ratio
to the bytes of fused kernels.
"""

import pytest

from amped.tables.table_files import SOFTWARE
from amped.tables.tables import Tables

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

BF16, FP32, TOKENS = torch.bfloat16, torch.float32, 16
# Width, width of the feed-forward network, heads, heads of keys and values; heads of 128.
NETWORKS = {
    "Llama 3 8B": (4096, 14336, 32, 8),
    "Llama 3 70B": (8192, 28672, 64, 8),
    "Llama 2 13B": (5120, 13824, 40, 40),
}
# Operations that only look at a tensor in another way.
VIEWS = {"alias", "as_strided", "detach", "expand", "_reshape_alias", "select", "slice", "split", "squeeze", "t", "transpose", "unbind", "unsqueeze",
         "_unsafe_view", "view", "view_as_complex", "view_as_real", "_conj", "permute", "empty_like"}  # fmt: skip


class Moved(TorchDispatchMode):
    """Adds up the bytes of all tensors that operations read and write; a dimension that is expanded is read once."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **(kwargs or {}))
        if operation.overloadpacket.__name__ not in VIEWS:
            self.bytes += sum(own_bytes(t) for t in tree_leaves((args, kwargs, found)) if isinstance(t, torch.Tensor))
        return found


def own_bytes(tensor):
    return (
        tensor.element_size()
        * torch.Size(n for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step).numel()
    )


def moved(compute, *shapes, weights=()):
    """Bytes for each token, forward and backward."""
    inputs = [torch.randn(1, TOKENS, *shape, dtype=BF16, requires_grad=True) for shape in shapes]
    inputs += [torch.randn(shape, dtype=BF16, requires_grad=True) for shape in weights]
    with Moved() as seen:
        found = compute(*inputs)
        found = found if isinstance(found, tuple) else (found,)
    gradients = [torch.randn_like(each) for each in found]
    with seen:
        torch.autograd.grad(found, inputs, gradients)
    return seen.bytes / TOKENS


def six_kernels(x, weight):
    wide = x.to(FP32)
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True).add_(1e-5)) * weight).type_as(x)


def rotated(x, turns):
    return (
        torch.view_as_real(torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * turns).flatten(3).type_as(x)
    )


def repeated(x, times):
    return x[:, :, :, None].expand(*x.shape[:3], times, x.shape[3]).reshape(1, TOKENS, -1, x.shape[3])


def factor(network, norm_bytes):
    """The bytes of eager operations of a layer as a multiple of those of fused kernels; each norm moves `norm_bytes`, fused 14 an entry."""
    width, wide, heads, few = NETWORKS[network]
    turns = torch.polar(torch.ones(1, TOKENS, 1, 64), torch.randn(1, TOKENS, 1, 64))
    rotary = moved(lambda q, k: (rotated(q, turns), rotated(k, turns)), (heads, 128), (few, 128))
    copies = (
        moved(lambda k, v: (repeated(k, heads // few), repeated(v, heads // few)), (few, 128), (few, 128))
        if heads > few
        else 0
    )
    gate = moved(lambda up, by: torch.nn.functional.silu(up) * by, (wide,), (wide,))
    residual = 12 * width  # both sums are one operation, forward and backward
    eager = 2 * norm_bytes + rotary + copies + gate + 2 * residual
    return eager / (28 * width + 8 * 128 * (heads + few) + 16 * wide + 2 * residual)


@pytest.mark.parametrize("network", NETWORKS)
def test_torchtitan_of_2024_moves_what_its_row_says(network):
    width = NETWORKS[network][0]
    norm = moved(six_kernels, (width,), weights=[(width,)])
    assert factor(network, norm) == pytest.approx(row("torchtitan 2024"), rel=0.06)


@pytest.mark.parametrize("network", NETWORKS)
def test_with_one_kernel_for_a_norm_less_than_half_of_it_is_left(network):
    assert factor(network, 14 * NETWORKS[network][0]) == pytest.approx(row("torchtitan"), rel=0.06)


def test_compiled_blocks_move_what_fused_kernels_move():
    assert row("torchtitan 2024, compiled") == row("torchtitan, compiled") == 1


def row(name):
    return Tables().row(SOFTWARE, name).columns["streaming_traffic_factor"]
