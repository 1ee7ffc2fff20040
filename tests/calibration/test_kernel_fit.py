"""Coefficients from measured kernels: found again where the law itself made the kernels, and written as a row."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from amped.base.errors import ConfigError
from amped.calibration.kernel_errors import Predicted, library, machine
from amped.calibration.kernel_fit import fitted_each
from amped.cli.app import app
from amped.measured_kernels.kernel_files import read_kernels
from amped.measured_kernels.kinds import KINDS
from amped.tables.tables import Tables

pytest.importorskip("pyarrow")
pytest.importorskip("scipy")
TRUTH = {"gemm_sustained_fraction": 0.8, "cache_intensity": 60.0, "tile_latency": 1e-6}
SIDES = (512, 1024, 2048, 4096, 8192)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Products of an H100 that the law makes from known coefficients, 2 us late."""
    made = tmp_path_factory.mktemp("kernels")
    of, lines = (
        machine("H100 SXM", "bfloat16", Tables(), None, TRUTH),
        ["accelerator,software,kernel,precision,m,n,k,time_us"],
    )
    for m, n, k in [(m, n, k) for m in SIDES for n in SIDES for k in SIDES[::2]]:
        columns = {"software": ["own"], "precision": ["bfloat16"], "m": [m], "n": [n], "k": [k]}
        seconds = float(KINDS["products"].time(columns, of)[0]) + 2e-6
        lines.append(f"H100 SXM,own,fast,bfloat16,{m},{n},{k},{seconds * 1e6!r}")
    (made / "products.csv").write_text("\n".join(lines) + "\n")
    return made


def test_a_fit_predicts_the_shapes_that_it_has_not_seen(folder):
    (fit,) = fitted_each(read_kernels(folder), Tables())
    assert fit.family == "products"
    assert fit.fastest == {"bfloat16": "own fast"}
    assert fit.error_kept_out < 0.03
    assert fit.values["gemm_sustained_fraction"] == pytest.approx(0.8, rel=0.1)


def test_the_command_writes_a_row_that_estimates_read(folder, tmp_path):
    path = tmp_path / "tables" / "kernel_efficiencies.json"
    path.parent.mkdir()
    done = CliRunner().invoke(app, ["calibrate", "--kernels", str(folder), "-o", str(path)])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(path.read_text("utf-8"))["rows"].values()
    assert row["extends"] == "H100 SXM"
    found = machine("H100 SXM", "bfloat16", Tables([path.parent]), path.parent).rates.products.tiles
    assert found.latency.item() == pytest.approx(float(row["tile_latency"].split()[0]) * 1e-6)


def test_too_few_kernels_tell_nothing(folder, tmp_path):
    (tmp_path / "products.csv").write_text("\n".join((folder / "products.csv").read_text().splitlines()[:9]) + "\n")
    with pytest.raises(ConfigError, match="tell no coefficient"):
        fitted_each(read_kernels(tmp_path), Tables())


@pytest.mark.parametrize("waits", [True, False])
def test_a_fixed_time_is_longer_where_the_host_takes_longer(waits):
    """Half of the kernels take twice 20 us, of the host: as a least time, or besides work of 1 to 200 us."""
    told = Predicted(np.geomspace(1e-6, 2e-4, 40), np.where(np.arange(40) % 2, 2.0, 1.0))
    work, fixed = 1.5 * told.law, 2e-5 * told.host
    measured = np.maximum(work, fixed) if waits else work + fixed
    found = library(told, measured)
    assert found.waits == waits
    assert found.scale == pytest.approx(1.5, rel=0.05)
    assert found.fixed == pytest.approx(2e-5, rel=0.05)
    assert found.time(told) == pytest.approx(measured, rel=0.05)
