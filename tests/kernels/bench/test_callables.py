"""Calls of kernels as a GPU would run them, by torch's own checks of its tensors; no value is computed on it here."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from amped.kernels import callables  # noqa: E402
from amped.kernels.running import Runner  # noqa: E402
from amped.kernels.specs import spec  # noqa: E402
from tests.helpers.bench import result  # noqa: E402
from tests.helpers.simulated.gpu import Gpu  # noqa: E402

torch.set_num_threads(1)
STEPS = [3, 0, 6, 4]


def test_groups_are_one_kernel_whose_result_is_that_of_each_product():
    inputs, weights = torch.randn(sum(STEPS), 16).bfloat16(), torch.randn(len(STEPS), 16, 8).bfloat16()
    found = callables.grouped_call(inputs, weights, STEPS)()
    exact = torch.cat([part @ weight for part, weight in zip(inputs.split(STEPS), weights, strict=True)])
    torch.testing.assert_close(found, exact)


def test_a_gpu_s_checks_take_groups():
    with FakeTensorMode():
        like = {"dtype": torch.bfloat16, "device": "cuda"}
        found = callables.grouped_call(torch.empty(64, 16, **like), torch.empty(4, 16, 24, **like), [16] * 4)()
    assert (tuple(found.shape), found.device.type) == ((64, 24), "cuda")


def test_groups_that_no_kernel_takes_are_left_out_with_the_reason():
    """And not launched one by one, by the host."""

    def build(each, device):
        make = SimpleNamespace(device=device, dtype=torch.float16, torch=torch)
        return callables._grouped(make, each.params) if each.kernel == "grouped_gemm" else (gpu.kernel(1e-3), "made up")

    gpu = Gpu()
    runner = Runner(result([], "cuda") | {"sentinels": []}, gpu.timer(), build=build, clock=gpu.wall)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("amped.kernels.running.freed", lambda device: None)
        found = runner.run([spec("grouped_gemm", "float16", batch=4, m=16, n=24, k=16)])
    (skipped,) = found["skipped"]
    assert "has no grouped product of torch.float16" in skipped["reason"]
