"""The kernels for accelerators in Triton's interpreter, which needs no GPU: they compute what those in plain torch do.

Triton decides when it is imported whether it interprets: one process of its own computes all that is compared here.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.helpers.cli import ROOT

LACKING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"pip install {' '.join(LACKING)}, to interpret Triton's kernels")
# Kernels, and the probabilities that dropout keeps a value: two of them have none.
FUSED = [*((name, keep) for name in ("bad", "bdrlb", "bdrln", "blnrd", "bs", "softmax") for keep in (1.0, 0.7)),
         ("aib", 1.0), ("bei", 1.0)]  # fmt: skip
IN_PLACE = [("gelu", "float32"), ("gelu_tanh", "bfloat16"), ("silu", "float16"), ("silu", "bfloat16")]
CASTS = [("e4m3", "float32"), ("e4m3", "bfloat16"), ("e5m2", "bfloat16")]
NORMS = ("layer", "layer without weights", "rms")
COMPUTE = """
import json, sys
import torch
from amped.kernels.layer_shape import Dimensions
from tests.helpers.tensor_layouts import differences
from tests.helpers.triton import activation, cast_to_fp8, far, guarded, norm, zero_weight
torch.set_num_threads(1)
asked = json.loads(sys.argv[1])
size = Dimensions(2, 3, 2, 10, 6)
found = {f"{name} {keep}": max(differences(name, size, torch.float32, "cpu", keep, most=2)) for name, keep in asked["fused"]}
found |= {f"{name} {dtype}": activation(name, getattr(torch, dtype)) for name, dtype in asked["in_place"]}
found |= {f"{kind} {dtype}": cast_to_fp8(kind, getattr(torch, dtype)) for kind, dtype in asked["casts"]}
found["far"], found["zero weight"] = far(), zero_weight()
from amped.kernels.memory.triton_norm import warps
found["warps"] = [warps(block, 8) for block in (64, 1024, 4096, 16384)]
from amped.kernels.tensor_layouts.fused import launch_errors
from triton.runtime.errors import OutOfResources
found["errors"] = issubclass(OutOfResources, launch_errors())
found |= {name: norm(name) for name in asked["norms"]}
found["guards"] = guarded()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    """Largest differences, by name."""
    asked = json.dumps({"fused": FUSED, "in_place": IN_PLACE, "norms": NORMS, "casts": CASTS})
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPUTE, asked], cwd=ROOT, env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("the interpreter of this Triton does not run loops with this numpy (Triton 3.6 with numpy 2.5)")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("name", "keep"), FUSED)
def test_fused_kernels_are_the_reference(found, name, keep):
    """Over layouts from the first to the last of each kernel; every one of them, on a GPU."""
    assert 0 <= found[f"{name} {keep}"] < 1e-5


def test_each_launch_is_on_the_device_of_its_tensors(found):
    assert set(found["guards"].values()) == {0}


def test_wide_rows_have_more_warps(found):
    assert found["warps"] == [1, 4, 16, 16]


def test_a_weight_of_zero_gives_the_reference_s_finite_gradients(found):
    assert found["zero weight"] < 1e-6


def test_tiles_that_are_too_large_are_known(found):
    assert found["errors"]


def test_places_of_more_than_32_bits_are_right(found):
    assert found["far"] == 0


@pytest.mark.parametrize(("name", "dtype"), IN_PLACE)
def test_activations_in_place_are_the_reference(found, name, dtype):
    """Bits right; outputs and gradients within a few units in the last place, of which the larger ratio is told."""
    assert 0 <= found[f"{name} {dtype}"] < 1


@pytest.mark.parametrize("name", NORMS)
def test_norms_in_place_are_the_reference(found, name):
    """Outputs and all gradients against autograd in double precision, relative."""
    assert 0 < found[name] < 1e-6


@pytest.mark.parametrize(("kind", "dtype"), CASTS)
def test_casts_to_fp8_are_the_reference_in_rows_and_in_columns(found, kind, dtype):
    """What is no number stays none, and a number that is too large is the largest."""
    assert found[f"{kind} {dtype}"] == 0
