"""Bytes that autograd keeps are those of the closed forms, and those that the performance model counts for its policies."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
import amped  # noqa: E402
from amped.kernels import memory  # noqa: E402
from amped.kernels.layer_shape import Dimensions  # noqa: E402
from amped.kernels.memory.activation_functions import bits_kept  # noqa: E402
from amped.kernels.memory.bench import TECHNIQUES  # noqa: E402
from amped.kernels.memory.conversion import NO_SAVING  # noqa: E402
from amped.kernels.memory.variants import Variant, saved_bytes, stack  # noqa: E402
from amped.theory.language.quantity import ACCELERATOR, SYSTEM  # noqa: E402
from tests.helpers.bench import needs_gpu  # noqa: E402
from tests.helpers.formulas import sectioned  # noqa: E402
from tests.helpers.layers import whole_bytes  # noqa: E402

torch.set_num_threads(1)
SIZES = Dimensions(batch=2, seq=64, heads=4, hidden=128)
DTYPES = {4: torch.float32, 2: torch.bfloat16}
ROWS, STREAM, SQUARE = 2 * 64, 2 * 64 * 128, 2 * 4 * 64 * 64
WIDTHS = pytest.mark.parametrize("w", [4, 2], ids=["fp32", "bf16"])
TEMPO = ("in_place_activation", "in_place_norm", "dropout_recomputation")
ALL = Variant("dropout_recomputed", "in_place", "in_place")


def kept(variant, dtype, activation=None, device="cpu"):
    """What each further layer keeps; its activation function GELU unless another module is given."""
    x = torch.randn(2, 64, 128, dtype=dtype, device=device, requires_grad=True)
    layers = [stack(SIZES, variant, n).to(device, dtype) for n in (1, 2)]
    for layer in (*layers[0], *layers[1]):
        layer.activation = activation or layer.activation
    one, two = (memory.stash_bytes(each, x).bytes for each in layers)
    return two - one


def modeled(w, policies, **more):
    """What the performance model counts for such a layer."""
    sizes = {"layers": 2, "dimensionality": 128, "attention_heads": 4, "context": 64, "microbatch_size": 2, "batch_size": 2,
             "vocabulary_size": 1000, "number_of_accelerators": 1, "tokens_to_train": "1 G", "flash_attention": False,
             "tensor_parallel_degree": 1, "dropout": 0.1, "activation_precision": f"{w} B", "norm_position": "post"}  # fmt: skip
    machine = {SYSTEM: "Selene", ACCELERATOR: "A100 SXM 80GB"}
    return whole_bytes(amped.estimate(sectioned(sizes | dict.fromkeys(policies, True) | more, machine)))


def test_counting_keeps_nothing():
    """A softmax keeps its own output: a graph that gets it back would hold itself, and all that it keeps, for good."""
    x, left = torch.randn(4, 8, requires_grad=True), []

    def run():
        y = x.softmax(-1)
        left.append(weakref.ref(y))
        return y.sum()

    assert memory.stash_bytes(run).bytes == x.nbytes
    gc.collect()
    assert left[0]() is None


@WIDTHS
def test_the_layer_keeps_what_is_published(w):
    """34 B·S·H + 5 B·A·S² of 16 bit, 66 and 9 of fp32; mean and 1/σ of both norms beside it."""
    stream, square = {4: (66, 9), 2: (34, 5)}[w]
    assert kept(Variant(), DTYPES[w]) == stream * STREAM + square * SQUARE + 2 * 2 * ROWS * w


@WIDTHS
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_each_technique_saves_its_closed_form(technique, w):
    saved = kept(Variant(), DTYPES[w]) - kept(TECHNIQUES[technique], DTYPES[w])
    assert saved == saved_bytes(SIZES, w, w, bits_kept("gelu", DTYPES[w]))[technique]


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_on_a_gpu_each_technique_saves_its_closed_form_to_the_byte(technique, dtype):
    """There, the statistics of torch's norms are in fp32 whatever the format of the input."""
    plain, made = (kept(variant, dtype, device="cuda") for variant in (Variant(), TECHNIQUES[technique]))
    assert plain - made == saved_bytes(SIZES, dtype.itemsize, 4, bits_kept("gelu", dtype))[technique]


@WIDTHS
def test_fused_attention_keeps_no_scores(w):
    assert kept(Variant("fused"), DTYPES[w]) < kept(Variant(), DTYPES[w]) - SQUARE * w


@WIDTHS
@pytest.mark.parametrize("policies", [(), *[(name,) for name in TECHNIQUES], TEMPO], ids="+".join)
def test_the_performance_model_counts_the_same_bytes(policies, w):
    """Its layer is this one (norms behind the blocks); it counts no statistics of norms."""
    measured = kept(ALL if policies == TEMPO else TECHNIQUES[policies[0]] if policies else Variant(), DTYPES[w])
    statistics = ROWS * (4 if "in_place_norm" in policies else 2 * w)
    assert measured - 2 * statistics == modeled(w, policies)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float32, 1), (torch.float16, 1), (torch.bfloat16, 2)], ids=str)
def test_silu_in_bf16_keeps_a_bit_more_and_the_performance_model_can_say_so(dtype, bits):
    """The model knows no activation function by name: `packed_mask_precision` is what it keeps of an entry."""
    w, alone = dtype.itemsize, ("in_place_activation",)
    plain, in_place = (kept(Variant(), dtype, made) for made in (torch.nn.SiLU(), memory.InplaceSiLU()))
    assert bits_kept("silu", dtype) == bits
    assert plain - in_place == saved_bytes(SIZES, w, w, bits)[alone[0]] == 4 * STREAM * (w - bits / 8)
    assert plain - in_place == modeled(w, ()) - modeled(w, alone, packed_mask_precision=f"{bits / 8} B")


class UnderAutocast(torch.nn.Sequential):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x)


def test_under_autocast_a_norm_in_place_saves_nothing_and_the_report_says_so():
    """The norm puts out fp32 and the product keeps a cast of it: only the norm's mean is saved."""
    made = UnderAutocast(torch.nn.LayerNorm(16), torch.nn.Linear(16, 16))
    x = torch.randn(5, 16, requires_grad=True)
    before = memory.stash_bytes(made, x).bytes
    report = memory.convert(made, memory.Policy(("in_place_norm",)), x)
    assert [(choice.saved_bytes, choice.refused) for choice in report.refused] == [(5 * 4, NO_SAVING)]
    assert (report.taken, report.before_bytes, report.after_bytes) == ([], before, before)


def test_a_storage_counts_once_and_parameters_do_not():
    x = torch.randn(10, requires_grad=True)
    found = memory.stash_bytes(lambda x: (x[:5] * x[5:]).sin() * x[2:7], x)
    assert found.bytes == 40 + 20 + 20
    linear = torch.nn.Linear(10, 3)
    assert memory.stash_bytes(linear, x).bytes == 40
