"""What torch runs for a kernel: its passes as torch dispatches them, and times of functions and of random numbers."""

import dataclasses

import numpy as np
import pytest

from amped.kernels import specs as eager
from amped.kernels.calibration import calibrated
from amped.kernels.predicting import neutral, predicted, samples
from amped.kernels.specs import FAMILIES, spec
from tests.helpers.bench import CPU, DEFAULTS, GPU, needs_torch, planted, record

NAMES = ("layer_norm", "softmax", "softmax_backward", "gelu", "gelu_backward", "swiglu", "dropout", "rms_norm",
         "rms_norm_backward", "bias_gelu_dropout", "cross_entropy", "cross_entropy_backward")  # fmt: skip
KERNELS = [spec(name, "float32", rows=r, columns=768) for name in NAMES for r in (512, 2048, 8192)]
TRUTH = {"vector_flop_rate": 12e9, "normalization_bandwidth_fraction": 0.8, "elementary_function_time": 1.5e-9,
         "random_number_time": 9e-9, "memory_bandwidth_efficiency": 0.95, "bandwidth_ramp_bytes": 4e5,
         "kernel_overhead_time": 2e-6}  # fmt: skip
KNOWN = DEFAULTS | {
    n: TRUTH[n] for n in ("memory_bandwidth_efficiency", "bandwidth_ramp_bytes", "kernel_overhead_time")
}


@pytest.fixture(scope="module")
def of_processor():
    return calibrated(planted(KERNELS, TRUTH, CPU, kind="cpu"), CPU, KNOWN)


@pytest.mark.parametrize(("name", "tolerance"), [
    ("vector_flop_rate", 0.1), ("elementary_function_time", 0.1), ("random_number_time", 0.05),
    ("normalization_bandwidth_fraction", 0.1),
])  # fmt: skip
def test_planted_times_come_back(of_processor, name, tolerance):
    assert of_processor.values[name] == pytest.approx(TRUTH[name], rel=tolerance)


def test_what_was_held_out_is_predicted_too_and_one_rate_for_all_does_much_worse(of_processor):
    told = next(s for s in of_processor.strata if s.name == "all")
    assert told.held_out < 0.05
    (own,) = [s for s in samples(planted(KERNELS, TRUTH, CPU, kind="cpu")["records"], "min", "cpu") if "dropout" in
              {r["kernel"] for r in s.records}]  # fmt: skip
    without = {**of_processor.coefficients, "elementary_function_time": 0.0, "random_number_time": 0.0}
    times = np.broadcast_to(predicted(own, without, CPU), (1, len(own)))[0]
    assert np.mean(np.abs(times / own.times - 1)) > 0.3


def test_what_no_kernel_does_is_not_fitted():
    norms = [
        spec(name, "float32", rows=r, columns=768) for name in ("layer_norm", "rms_norm") for r in (64, 512, 2048, 4096)
    ]
    found = calibrated(planted(norms, TRUTH, CPU, kind="cpu"), CPU, KNOWN)
    assert "vector_flop_rate" in found.values
    assert not {"elementary_function_time", "random_number_time"} & set(found.values)


def test_accelerators_are_not_fitted_such_times_and_take_none():
    found = calibrated(planted(KERNELS, {}, GPU), GPU, DEFAULTS)
    assert "normalization_bandwidth_fraction" in found.values
    assert not {"elementary_function_time", "random_number_time"} & set(found.values)
    assert neutral()["elementary_function_time"] == neutral()["random_number_time"] == 0


def test_functions_and_random_numbers_take_their_time_beside_additions():
    (own,) = samples([record("dropout", rows=1000, columns=1000)], "min", "cpu")
    slow = {**KNOWN, **TRUTH, "vector_flop_rate": 1e9, "kernel_overhead_time": 0.0}
    assert float(predicted(own, slow, CPU).reshape(-1)[0]) == pytest.approx(1e6 / 1e9 + 1e6 * 9e-9)


def test_counts_are_of_kernels_that_there_are():
    assert {*eager.PASSES, *eager.ON_PROCESSORS} <= set(FAMILIES)
    adam = eager.work_of(record("adamw", parameters=1000), "cpu")
    assert (adam.functions, adam.drawn, adam.read + adam.written) == (3000, 0, 28000)
    norm = record("rms_norm", rows=10, columns=100)
    assert [moved(norm, device) for device in ("cuda", "cpu")] == [8000, 28000]


def moved(of, device):
    work = eager.work_of(of, device)
    return work.read + work.written


@needs_torch
@pytest.mark.parametrize("kernel", [*eager.PASSES, *eager.ON_PROCESSORS])
def test_passes_are_those_of_the_kernels_that_torch_dispatches(kernel):
    each = spec(kernel, "float32", rows=64, columns=512)
    from amped.kernels.callables import built

    call, _ = built(each, "cpu")
    counted = counted_bytes(call)
    assert counted == pytest.approx(moved(dataclasses.asdict(each), "cpu"), rel=0.03)


def counted_bytes(call):
    """Bytes of the tensors that torch's kernels read and write in a call; what is broadcast is read as it lies."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    only_rows = {"aten.nll_loss_forward.default": 0, "aten.nll_loss_backward.default": 1}  # reads labels, writes zeros
    found = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, given=(), named=None):
            made = function(*given, **(named or {}))
            returned = function._schema.returns
            if "empty" in str(function) or any(r.alias_info and not r.alias_info.is_write for r in returned):
                return made  # nothing moves
            out = (named or {}).get("out")
            read = (
                []
                if "bernoulli_" in str(function)
                else tree_leaves((given, {k: v for k, v in (named or {}).items() if k != "out"}))
            )
            tensors = [
                t for t in [*read, *([out] if out is not None else tree_leaves(made))] if isinstance(t, torch.Tensor)
            ]
            sizes = [t.untyped_storage().nbytes() if 0 in t.stride() else t.numel() * t.element_size() for t in tensors]
            whole = only_rows.get(str(function))
            found.append(sum(sizes) if whole is None else whole * max(sizes))
            return made

    with Counting():
        call()
    return sum(found)
