"""Triton compiles each kernel for a GPU, which need not be there: what its interpreter runs need not be what it can compile."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.helpers.cli import ROOT

LACKING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"pip install {' '.join(LACKING)}, to compile Triton's kernels")
COMPILE = """
import json
import torch
from tests.helpers.triton_compiled import compiled
torch.set_num_threads(1)
print(json.dumps(compiled()))
"""


def test_every_kernel_can_be_compiled_for_a_gpu(tmp_path):
    """In a process of its own, because Triton keeps what it has compiled, and the GPU for which it does."""
    more = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILE], cwd=ROOT, env=os.environ | more,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 25
    assert {name: told for name, told in found.items() if told} == {}
