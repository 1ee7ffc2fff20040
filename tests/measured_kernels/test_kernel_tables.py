"""Tables of measured kernels: how they are read, what a library's scale and fixed time are, and what is refused."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from amped.base.errors import FileError
from amped.calibration.kernel_errors import Predicted, by_kind, kernel_errors, library, machine, predicted
from amped.cli.app import app
from amped.measured_kernels.kernel_files import read_kernels
from amped.measured_kernels.kinds import KINDS
from amped.measured_kernels.table_reading import is_kept_out
from amped.tables.tables import Tables

pytest.importorskip("pyarrow")
SIDES = [256, 512, 1024, 2048, 4096, 8192]
HEAD = "accelerator,software,kernel,precision,m,n,k,time_us"


def law(precision, *shape):
    """Seconds of one product on an H100 by the law alone."""
    columns = {"software": ["own"], "precision": [precision]}
    columns |= dict(zip("mnk", ([float(side)] for side in shape), strict=True))
    return float(KINDS["products"].time(columns, machine("H100 SXM", precision, Tables()))[0])


def written(folder, lines, name="products.csv", head=HEAD):
    (folder / name).write_text("\n".join([head, *lines]) + "\n")
    return folder


def products(scale, fixed, library="own,fast", accelerator="H100 SXM", precision="bfloat16"):
    """A table's rows of a library that takes so much of the law's time, and so many microseconds beside it."""
    for m in SIDES:
        for n in SIDES[2:]:
            time = scale * law(precision, m, n, 4096) * 1e6 + fixed
            yield f"{accelerator},{library},{precision},{m},{n},4096,{time!r}"


def test_a_library_is_told_by_its_scale_and_its_fixed_time(tmp_path):
    own = kernel_errors(read_kernels(written(tmp_path, [*products(1.3, 4.0), *products(0.9, 0.0, "own,slow")])))
    assert [e.library for e in own] == ["own fast", "own slow"]
    assert [e.scale for e in own] == pytest.approx([1.3, 0.9], rel=0.02)
    assert own[0].fixed_time == pytest.approx(4e-6, rel=0.1)
    assert all(e.mean_absolute_error_fraction < 0.02 for e in own)
    assert own[0].law_alone_error_fraction > 0.2


def test_the_shapes_kept_out_are_not_seen_by_the_scale(tmp_path):
    rows = [row.rsplit(",", 1) for row in products(1.0, 0.0)]
    odd = [f"{shape},{float(time) * (10 if is_kept_out(shape.split(',', 4)[4]) else 1)!r}" for shape, time in rows]
    (own,) = kernel_errors(read_kernels(written(tmp_path, odd)))
    assert 0 < own.kept_out < own.rows
    assert own.scale == pytest.approx(1.0, rel=0.01)
    assert own.mean_absolute_error_fraction == pytest.approx(0.9, rel=0.01)


def test_a_fifth_of_the_shapes_is_kept_out_whatever_ran_them():
    drawn = [is_kept_out(f"{m},{n},{k}") for m in SIDES for n in SIDES for k in SIDES]
    assert np.mean(drawn) == pytest.approx(0.2, abs=0.06)


def test_the_law_is_that_of_estimates(tmp_path):
    (own,) = read_kernels(written(tmp_path, products(1.0, 0.0)))
    assert predicted(own, machine("H100 SXM", "bfloat16", Tables())).law == pytest.approx(own.times)


def test_a_fallback_is_listed_and_not_scored(tmp_path):
    rows = [*products(1.0, 0.0), *products(3.0, 0.0, "own,TritonFp8BlockScaledMMKernel")]
    found = kernel_errors(read_kernels(written(tmp_path, rows)))
    assert [e.scored for e in found] == [False, True]
    (every, _) = by_kind(found)
    assert every[3] == found[1].kept_out


def test_what_has_no_row_is_returned_with_its_reason(tmp_path):
    (own,) = kernel_errors(read_kernels(written(tmp_path, products(1.0, 0.0, accelerator="H999"))))
    assert "H999" in own.reason
    assert own.mean_absolute_error_fraction is None


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_scale_and_fixed_time_are_found_again(share):
    times = np.geomspace(1e-5, 1e-2, 40)
    fixed = share * 2e-5
    own = library(Predicted(times, np.ones(40)), 2 * times + fixed)
    assert (own.scale, own.fixed) == (pytest.approx(2.0, rel=0.03), pytest.approx(fixed, rel=0.15, abs=1e-7))
    assert not own.waits


def test_a_library_that_waits_for_its_host_has_a_least_time():
    times = np.geomspace(1e-6, 1e-2, 40)
    own = library(Predicted(times, np.ones(40)), np.maximum(1.5 * times, 1e-4))
    assert own.waits
    assert (own.scale, own.fixed) == (pytest.approx(1.5), pytest.approx(1e-4))


class TestWrongTables:
    def test_no_folder(self, tmp_path):
        with pytest.raises(FileError, match="no such file or folder"):
            read_kernels(tmp_path / "nowhere")

    def test_a_folder_without_a_table_says_how_one_is_named(self, tmp_path):
        with pytest.raises(FileError, match="named products, "):
            read_kernels(tmp_path)

    def test_a_missing_column(self, tmp_path):
        with pytest.raises(FileError, match="has no column 'k', 'time_us'"):
            read_kernels(
                written(tmp_path, ["H100 SXM,a,b,bfloat16,1,2"], head="accelerator,software,kernel,precision,m,n")
            )

    def test_what_is_no_number_is_told_by_row_and_column(self, tmp_path):
        rows = ["H100 SXM,a,b,bfloat16,zero,1,1,5", "H100 SXM,a,b,bfloat16,1,1,1,-5"]
        with pytest.raises(FileError) as told:
            read_kernels(written(tmp_path, rows))
        assert [p.where for p in told.value.problems] == ["row 1, column 'm'", "row 2, column 'time_us'"]

    def test_no_table_at_all(self, tmp_path):
        (tmp_path / "products.parquet").write_text("nothing")
        with pytest.raises(FileError, match="is no table"):
            read_kernels(tmp_path)

    def test_an_unknown_precision_is_told_with_those_that_are_known(self, tmp_path):
        (own,) = kernel_errors(read_kernels(written(tmp_path, [r.replace("bfloat16", "int3") for r in products(1, 0)])))
        assert "int3" in own.reason
        assert "bfloat16" in own.reason


def test_the_command_prints_both_tables(tmp_path):
    folder = written(tmp_path, products(1.2, 2.0))
    told = CliRunner().invoke(app, ["validate", "--kernels", str(folder)]).stdout
    assert "products bfloat16" in told
    assert "own fast" in told
    (own,) = json.loads(CliRunner().invoke(app, ["validate", "--kernels", str(folder), "--json"]).stdout)["kernels"]
    assert own["kept_out"] > 0
