"""What is measured: work and traffic of each kernel by hand and by torch's own count, sizes as people write them, suites."""

import pytest

from amped.base.errors import ConfigError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.kernels import suites
from amped.kernels.specs import FAMILIES, KernelSpec, sizes_of, spec
from tests.helpers.bench import HAS_TORCH, needs_torch

# Kernel, format, sizes; operations and bytes worked out by hand.
BY_HAND = [
    ("gemm", "bfloat16", {"m": 8192, "n": 12288, "k": 4096}, 824_633_720_832, 369_098_752),
    ("batched_gemm", "float32", {"m": 2, "n": 3, "k": 5, "batch": 7}, 420, 868),
    ("grouped_gemm", "bfloat16", {"m": 4, "n": 8, "k": 2, "batch": 2}, 256, 2 * 2 * (8 + 16 + 32)),
    ("fp8_gemm", "float8_e4m3fn", {"m": 16, "n": 16, "k": 32}, 16384, 512 + 512 + 256),
    ("copy", "float32", {"rows": 10, "columns": 100}, 0, 8000),
    ("read", "float32", {"rows": 10, "columns": 100}, 1000, 4000),
    ("write", "float32", {"rows": 10, "columns": 100}, 0, 4000),
    ("add", "float32", {"rows": 10, "columns": 100}, 1000, 12000),
    ("softmax", "bfloat16", {"rows": 4, "columns": 8}, 128, 128),
    ("layer_norm_backward", "bfloat16", {"rows": 4, "columns": 8}, 416, 320),
    ("dropout", "bfloat16", {"rows": 4, "columns": 8}, 32, 160),
    ("adamw", "float32", {"parameters": 1000}, 15000, 28000),
    ("attention", "bfloat16", {"batch": 2, "heads": 4, "queries": 8, "head_dimension": 16, "causal": False},
     4 * 2 * 4 * 8 * 8 * 16, 4 * 2 * 4 * 8 * 16 * 2),
    ("attention", "bfloat16", {"batch": 2, "heads": 4, "queries": 8, "head_dimension": 16, "direction": "backward"},
     4 * 2 * 4 * 8 * 8 * 16 * 1.25, 8 * 2 * 4 * 8 * 16 * 2),
    ("all_reduce", "float32", {"bytes": 4096, "ranks": 4}, 0, 6144),
    ("all_gather", "float32", {"bytes": 4096, "ranks": 4}, 0, 3072),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "dtype", "sizes", "flop", "moved"), BY_HAND)
def test_work_and_traffic_are_those_worked_out_by_hand(kernel, dtype, sizes, flop, moved):
    each = spec(kernel, dtype, **sizes)
    assert (each.flop, each.bytes) == (flop, moved)


@needs_torch
@pytest.mark.parametrize("kernel", ["gemm", "batched_gemm", "grouped_gemm", "attention"])
def test_work_is_what_torch_counts(kernel):
    from torch.utils.flop_counter import FlopCounterMode

    from amped.kernels.callables import built

    sizes = {"m": 32, "n": 48, "k": 64, "batch": 1 if kernel == "gemm" else 3}
    if kernel == "attention":
        sizes = {"batch": 2, "heads": 3, "queries": 16, "head_dimension": 8, "causal": False, "backend": "math"}
    each = spec(kernel, "float32", **sizes)
    call, _ = built(each, "cpu")
    with FlopCounterMode(display=False) as counter:
        call()
    assert counter.get_total_flops() == each.flop


def test_every_kernel_that_is_no_collective_can_be_built():
    if not HAS_TORCH:
        pytest.skip("needs PyTorch: pip install 'amped[torch]'")
    from amped.kernels.callables import BUILDERS

    assert set(BUILDERS) == {name for name, family in FAMILIES.items() if family.kind != "collective"}


@pytest.mark.parametrize(("written", "kernel", "found"), [
    ("m=4, n=8,k=16", "gemm", {"m": 4, "n": 8, "k": 16}),
    ("H=16,B=96,S=512,D=64", "attention", {"heads": 16, "batch": 96, "queries": 512, "head_dimension": 64}),
    ("b=1,h=2,s=8,causal=false", "attention", {"batch": 1, "heads": 2, "queries": 8, "causal": False}),
    ("", "launch", {}),
])  # fmt: skip
def test_sizes_as_people_write_them(written, kernel, found):
    assert sizes_of(written, kernel) == found


@pytest.mark.parametrize(("kernel", "sizes", "told"), [
    ("gem", "m=1", "did you mean 'gemm'"),
    ("gemm", "m=4,n=4", "gemm needs k"),
    ("gemm", "m=4,n=4,k=0", "not positive"),
    ("gemm", "m=4,n=4,k=big", "no whole number"),
    ("gemm", "m=4,n=4,k", "not NAME=VALUE"),
    ("gemm", "m=4,n=4,k=4,depth=3", "no dimension 'depth'"),
])  # fmt: skip
def test_sizes_that_are_none_are_refused(kernel, sizes, told):
    with pytest.raises(ConfigError, match=told):
        spec(kernel, "float32", **sizes_of(sizes, kernel))


@pytest.mark.parametrize(("name", "device", "least"), [("quick", "cpu", 60), ("full", "cuda", 280)])
def test_suites_hold_each_kernel_once_and_the_most_telling_first(name, device, least):
    made = suites.suite(name, device, "float32" if device == "cpu" else "bfloat16", 64e9)
    assert len({each.key for each in made}) == len(made) >= least
    assert made[0].kernel == "launch"
    kinds = [each.kernel for each in made]
    assert kinds.index("copy") < kinds.index("gemm") < kinds.index("adamw")
    assert {each.params["layout"] for each in made if each.kernel == "gemm"} == {"TN", "NN", "NT"}


def test_a_model_s_suite_is_its_layer():
    e = estimated(read_scenario("default", {"flash_attention": True}))
    shape = {"batch": 1, "heads": 12, "queries": 2048, "head_dimension": 128}
    made = suites.of_operators(e.results.records("layer_operators"), "bfloat16", shape, gated=False)
    products = {(each.params["m"], each.params["n"], each.params["k"]) for each in made if each.kernel == "gemm"}
    # GPT-3 on 8 tensor-parallel accelerators: a micro-batch of 2048 tokens, 12288 wide.
    assert products >= {
        (2048, 4608, 12288),
        (2048, 12288, 1536),
        (2048, 6144, 12288),
        (2048, 12288, 6144),
        (12288, 6144, 2048),
    }
    assert {each.kernel for each in made} >= {"gemm", "attention", "layer_norm", "gelu", "gelu_backward"}
    assert all(isinstance(each, KernelSpec) for each in made)
