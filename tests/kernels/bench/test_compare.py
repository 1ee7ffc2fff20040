"""Comparisons: three points by hand, parts, worst, extrapolation, drift, plots with a mark for each record, the verb."""

import csv
import io
import json

import pytest

from amped.base.errors import ConfigError
from amped.kernels import comparing
from amped.kernels.comparing import Point
from amped.report.bench_plots import kernel_scatter
from tests.helpers.bench import GPU, planted, record, result
from tests.helpers.cli import verb
from tests.kernels.bench.test_fit import COPIES, PRODUCTS, TRUTH


def point(measured, predicted, stratum="large", flags=()):
    return Point(f"k {measured}", "gemm", "products", stratum, measured, predicted, flags)


def test_three_points_by_hand():
    found = comparing.accuracy("products", "all", [point(1.0, 1.1), point(2.0, 1.6), point(4.0, 4.0)])
    assert found.count == 3
    assert found.mape == pytest.approx((0.1 + 0.2 + 0.0) / 3)
    assert found.bias == pytest.approx((0.1 - 0.2) / 3)
    assert found.largest == pytest.approx(0.2)
    assert found.p90 == pytest.approx(0.18)
    assert found.time_weighted == pytest.approx((0.1 + 0.4) / 7)
    assert 0.9 < found.r_squared < 1


def test_parts_of_a_family_are_told_apart_and_the_worst_come_first():
    points = [point(1.0, 1.1), point(1.0, 3.0, "skinny"), point(1.0, 0.2, "skinny")]
    assert [(a.name, a.count) for a in comparing.accuracies(points)] == [("all", 3), ("large", 1), ("skinny", 2)]
    report = comparing.Report(points * 6, comparing.accuracies(points), {})
    assert [p.predicted for p in report.worst] == [0.2] * 6 + [3.0] * 4


def test_true_coefficients_predict_what_was_planted():
    content = planted([*PRODUCTS, *COPIES], TRUTH, GPU, noise=0.0)
    report = comparing.compared(content, GPU, {**_defaults(), **TRUTH})
    assert max(a.largest for a in report.families) < 1e-9
    assert len(report.points) == len(PRODUCTS) + len(COPIES)


def _defaults():
    from tests.helpers.bench import DEFAULTS

    return DEFAULTS


def test_records_outside_of_what_a_fit_has_seen_are_marked():
    seen = [record("gemm", m=s, n=s, k=s) for s in (256, 1024)]
    hull = comparing.hull_of(seen)
    assert not comparing.outside(hull, record("gemm", m=512, n=512, k=512))
    assert comparing.outside(hull, record("gemm", m=2048, n=512, k=2048))
    assert comparing.outside(hull, record("copy", rows=4, columns=4))
    content = planted([PRODUCTS[0], PRODUCTS[-1]], TRUTH, GPU)
    report = comparing.compared(content, GPU, {**_defaults(), **TRUTH}, content["records"][:1])
    assert [p.flags for p in report.points] == [(), ("extrapolated",)]


def test_drift_is_the_geometric_mean_by_family():
    one = result([record("gemm", m=s, n=s, k=s, seconds=1.0) for s in (8, 16)] + [record("copy", rows=4, columns=4)])
    two = result([record("gemm", m=8, n=8, k=8, seconds=2.0), record("gemm", m=16, n=16, k=16, seconds=8.0)])
    assert comparing.drift(one, two) == {"products float32": (pytest.approx(4.0), 2)}


@pytest.mark.thorough
def test_the_plot_has_a_mark_for_each_record():
    points = [point(10.0**-i, 1.1 * 10.0**-i, flags=("noisy",) if i % 2 else ()) for i in range(1, 8)]
    drawn = kernel_scatter(points, "made up", "svg").decode()
    assert [f'id="record-{i}"' in drawn for i in range(8)] == [True] * 7 + [False]
    assert kernel_scatter(points, "made up", "png").startswith(b"\x89PNG")


# --- the verb --------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = planted([*PRODUCTS, *COPIES], TRUTH, GPU)
    content["device"]["name"] = "NVIDIA H100 80GB HBM3"
    path = tmp_path / "r.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.thorough
def test_a_fitted_row_predicts_better_than_the_shipped_one(measured, capsys):
    verb("bench", "compare", measured, "--json")
    before = json.loads(capsys.readouterr().out)["families"]
    verb("bench", "fit", measured, "-o", "tables")
    told = capsys.readouterr()
    assert "H100 SXM" in told.out
    assert "held out" in told.out
    assert "--set 'kernel_efficiencies=H100 SXM'" in told.err
    verb("bench", "compare", measured, "--json", "--lookup-tables", "tables")
    after = json.loads(capsys.readouterr().out)["families"]
    assert [f["family"] for f in after] == [f["family"] for f in before]
    assert all(a["mape"] < 0.05 for a in after if a["name"] == "all")
    assert after[0]["mape"] < before[0]["mape"]


@pytest.mark.thorough
def test_an_estimate_uses_the_row(measured, capsys):
    from amped.library import estimate

    verb("bench", "fit", measured, "-o", "tables", "--name", "mine")
    capsys.readouterr()
    used = estimate(accelerator="H100 SXM", lookup_tables="tables", kernel_efficiencies="mine")
    row = json.loads((measured.parent / "tables" / "kernel_efficiencies.json").read_text())["rows"]["mine"]
    assert used["gemm_sustained_fraction"] == row["gemm_sustained_fraction"]
    assert used["step_time"] != estimate(accelerator="H100 SXM")["step_time"]


@pytest.mark.thorough
def test_a_table_a_csv_and_plots(measured, capsys):
    verb("bench", "compare", measured, "--plot", "--output-dir", "out")
    told = capsys.readouterr()
    assert max(map(len, told.out.splitlines())) <= 100
    assert "Worst" in told.out
    assert sorted(p.name[20:] for p in (measured.parent / "out").iterdir()) == ["kernels.png", "kernels.svg"]
    verb("bench", "compare", measured, "--csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == len(PRODUCTS) + len(COPIES)
    assert float(rows[0]["error"]) == pytest.approx(float(rows[0]["predicted_s"]) / float(rows[0]["measured_s"]) - 1)


def test_two_runs_and_nothing_in_common(measured, tmp_path, capsys):
    verb("bench", "compare", measured, measured, "--json")
    assert json.loads(capsys.readouterr().out)["streaming"] == {"ratio": 1.0, "count": len(COPIES)}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(result([record("softmax", rows=3, columns=3)])))
    with pytest.raises(ConfigError, match="no kernel in common"):
        verb("bench", "compare", measured, other)
