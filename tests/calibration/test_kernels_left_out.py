"""Kernels of an accelerator that no fit has seen, predicted from its datasheet and from its kin."""

import json

import pytest

from amped.base.errors import ConfigError
from amped.calibration.kernel_errors import machine
from amped.calibration.kernels_left_out import bare, kernels_left_out
from amped.measured_kernels.kernel_files import read_kernels
from amped.measured_kernels.kinds import KINDS
from amped.tables.tables import Tables
from tests.helpers.cli import amped

pytest.importorskip("pyarrow")
pytest.importorskip("scipy")
HEAD = "accelerator,software,kernel,precision,m,n,k,time_us"
SIDES = [512, 768, 1024, 2048, 4096, 8192, 16384]
# What the kernels of the made-up tables cost: no row of the lookup tables has all of these values.
TRUTH = {"gemm_sustained_fraction": 0.8, "cache_intensity": 60.0, "tile_latency": 1e-6, "wave_quantization": 0.5,
         "gemm_ramp_depth": 0.0, "medium_tile_efficiency": 1.0, "small_tile_efficiency": 1.0,
         "smallest_tile_efficiency": 1.0}  # fmt: skip


def rows(accelerator, scale=1.0, fixed=0.0, software="own 1.0", **changed):
    """A table's rows of an accelerator whose kernels follow the law with the coefficients above."""
    predictor = machine(accelerator, "bfloat16", Tables(), None, {**TRUTH, **changed})
    for m in SIDES:
        for n in SIDES:
            shape = {"m": [float(m)], "n": [float(n)], "k": [4096.0], "software": ["own"], "precision": ["bfloat16"]}
            time = scale * float(KINDS["products"].time(shape, predictor)[0]) * 1e6 + fixed
            yield f"{accelerator},{software},fast,bfloat16,{m},{n},4096,{time!r}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Kernels of three accelerators: two kin of one generation, and one whose kernels are far slower."""
    made = tmp_path_factory.mktemp("kernels")
    lines = [HEAD, *rows("B200 SXM"), *rows("GB200", software="own 2.0"), *rows("H100 SXM", scale=3.0)]
    (made / "products.csv").write_text("\n".join(lines) + "\n")
    return made


@pytest.fixture(scope="module")
def found(folder):
    return {e.accelerator: e for e in kernels_left_out(read_kernels(folder))}


def test_an_accelerator_is_predicted_from_the_kernels_of_its_generation(found):
    assert found["B200 SXM"].mean_absolute_error_fraction < 0.03
    assert found["GB200"].mean_absolute_error_fraction < 0.03


def test_its_own_kernels_are_not_seen(found):
    # its kin are three times as fast as it is, and nothing else is known of it
    assert found["H100 SXM"].mean_signed_error_fraction == pytest.approx(1 / 3 - 1, abs=0.05)
    assert found["H100 SXM"].kept_out == found["H100 SXM"].rows == len(SIDES) ** 2


def test_a_library_is_the_same_in_another_version():
    assert bare("TRTLLM 1.3.0rc20 torch_flow") == bare("TRTLLM 1.0.0 torch_flow") == "TRTLLM torch_flow"


def test_one_accelerator_has_no_kin(tmp_path):
    (tmp_path / "products.csv").write_text("\n".join([HEAD, *rows("H100 SXM")]) + "\n")
    with pytest.raises(ConfigError, match="no two accelerators"):
        kernels_left_out(read_kernels(tmp_path))


class TestTheCommand:
    @pytest.mark.thorough
    def test_it_says_what_error_means(self, folder):
        told = amped("validate", "--kernels", ".", "--leave-out", "accelerator", folder=folder).stdout
        assert "that no fit has seen" in " ".join(told.split())
        assert "GB200" in told

    @pytest.mark.thorough
    def test_as_json(self, folder):
        told = amped("validate", "--kernels", ".", "--leave-out", "accelerator", "--json", folder=folder).stdout
        assert {e["accelerator"] for e in json.loads(told)["kernels"]} == {"B200 SXM", "GB200", "H100 SXM"}

    def test_a_source_of_kernels_cannot_be_left_out(self, folder):
        told = amped("validate", "--kernels", ".", "--leave-out", "source", folder=folder)
        assert told.returncode == 2
        assert "--leave-out accelerator" in told.stderr
