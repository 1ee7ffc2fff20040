"""Fits: planted coefficients come back, one constant does worse, waves and layouts are seen, guard rails hold."""

import dataclasses

import numpy as np
import pytest

from amped.base.errors import ConfigError, FileError
from amped.kernels import rows
from amped.kernels.calibration import calibrated, layouts
from amped.kernels.error_groups import stratum_of
from amped.kernels.fitting import fitted, halves
from amped.kernels.machine import machine_of
from amped.kernels.predicting import predicted, samples
from amped.kernels.specs import spec
from amped.kernels.suites import suite
from amped.tables.tables import Tables
from tests.helpers.bench import CPU, DEFAULTS, GPU, planted, record, result

SIDES = (512, 1024, 2048, 4096, 8192)
PRODUCTS = [
    spec("gemm", "bfloat16", m=m, n=n, k=k) for m in SIDES for n in (1024, 4096, 8192) for k in (256, 1024, 4096)
]
COPIES = [spec("copy", "bfloat16", rows=1 << i, columns=1024) for i in range(4, 18)]
TRUTH = {"gemm_sustained_fraction": 0.74, "gemm_ramp_depth": 170.0, "medium_tile_efficiency": 0.85,
         "small_tile_efficiency": 0.65, "smallest_tile_efficiency": 0.45, "wave_quantization": 1.0,
         "memory_bandwidth_efficiency": 0.9, "bandwidth_ramp_bytes": 1.2e6, "kernel_overhead_time": 2e-6}  # fmt: skip
# What the fit stands on where it has nothing to fit to.
KNOWN = {name: DEFAULTS[name] for name in DEFAULTS} | {"kernel_overhead_time": 2e-6, "wave_quantization": 1.0}


def fit_of(content, machine, defaults=KNOWN):
    return calibrated(content, machine, defaults)


@pytest.fixture(scope="module")
def of_gpu():
    return fit_of(planted([*PRODUCTS, *COPIES], TRUTH, GPU), GPU)


@pytest.mark.parametrize(("name", "tolerance"), [
    ("gemm_sustained_fraction", 0.02), ("gemm_ramp_depth", 0.15), ("medium_tile_efficiency", 0.04),
    ("memory_bandwidth_efficiency", 0.02), ("bandwidth_ramp_bytes", 0.1),
])  # fmt: skip
def test_planted_coefficients_come_back(of_gpu, name, tolerance):
    assert of_gpu.values[name] == pytest.approx(TRUTH[name], rel=tolerance)


def test_halves_that_were_held_out_are_predicted_within_four_percent(of_gpu):
    whole = {s.family: s for s in of_gpu.strata if s.name == "all"}
    assert set(whole) == {"streaming", "products bfloat16"}
    assert max(s.held_out for s in whole.values()) < 0.04
    assert {s.name for s in of_gpu.strata if s.family == "products bfloat16"} == {"all", "small", "medium", "large"}


def test_one_constant_for_all_products_does_worse(of_gpu):
    content = planted(PRODUCTS, TRUTH, GPU)
    (own,) = samples(content["records"], "median", "cuda")

    def constant(columns):
        return own.operator.flops / (GPU.peaks["bfloat16"] * columns["share"])

    alone = fitted(constant, own.times, {"share": (0.05, 1.05)})
    together = next(s for s in of_gpu.strata if s.family == "products bfloat16" and s.name == "all")
    assert np.mean(np.abs(alone.held_out)) > 2 * together.held_out


def test_a_processor_s_ramps_come_back():
    truth = {"fp32_gemm_sustained_fraction": 0.85, "gemm_ramp_depth": 30.0, "gemm_ramp_rows": 20.0,
             "cached_operand_bytes": 2e6, "exposed_operand_fraction": 1.0, "wave_quantization": 0.0, "medium_tile_efficiency": 1.0,
             "small_tile_efficiency": 1.0, "smallest_tile_efficiency": 1.0, "memory_bandwidth_efficiency": 0.95,
             "bandwidth_ramp_bytes": 4e5, "kernel_overhead_time": 2e-6}  # fmt: skip
    content = planted(
        [s for s in suite("quick", "cpu", "float32", 0.0) if s.kernel in ("gemm", "copy", "read", "write", "add")],
        truth,
        CPU,
        kind="cpu",
    )
    found = fit_of(content, CPU)
    assert found.values["fp32_gemm_sustained_fraction"] == pytest.approx(0.85, rel=0.03)
    assert found.values["gemm_ramp_rows"] == pytest.approx(20.0, rel=0.35)
    assert found.values["cached_operand_bytes"] == pytest.approx(2e6, rel=0.1)
    assert next(s for s in found.strata if s.family == "products float32").held_out < 0.04


def test_predicted_time_jumps_where_a_wave_is_full_and_grows_with_depth():
    def seconds(rows_of_tiles, columns_of_tiles, k=1000):
        sizes = {"m": 256 * rows_of_tiles, "n": 128 * columns_of_tiles, "k": k}
        (own,) = samples([record("gemm", "bfloat16", **sizes)], "min", "cuda")
        others = dict.fromkeys(("medium_tile_efficiency", "small_tile_efficiency", "smallest_tile_efficiency"), 1e-6)
        return float(predicted(own, {**DEFAULTS, **TRUTH, **others}, GPU).reshape(-1)[0])

    assert seconds(7, 19) > 1.8 * seconds(12, 11)  # 133 tiles on 132 cores
    assert seconds(12, 11) == pytest.approx(seconds(10, 10), rel=1e-6)
    assert np.all(np.diff([seconds(12, 11, k) for k in range(512, 8192, 256)]) > 0)


def test_a_product_with_a_vector_loses_no_rows():
    def seconds(m):
        (own,) = samples([record("gemm", m=m, n=2048, k=2048)], "min", "cpu")
        truth = {"gemm_ramp_rows": 64.0, "exposed_operand_fraction": 0.0, "wave_quantization": 0.0, "gemm_ramp_depth": 0.0,
                 "fp32_gemm_sustained_fraction": 1.0, "memory_bandwidth_efficiency": 1.0, "bandwidth_ramp_bytes": 0.0,
                 "kernel_overhead_time": 0.0}  # fmt: skip
        return float(predicted(own, {**DEFAULTS, **truth}, CPU).reshape(-1)[0])

    assert seconds(1) == pytest.approx(4 * (2048 * 2048 + 2 * 2048) / 10e9)  # memory's pace
    assert seconds(64) == pytest.approx(2 * (64 + 64) * 2048 * 2048 / 160e9)


def test_a_processor_s_product_waits_for_what_its_caches_do_not_keep():
    def seconds(kept, exposed):
        (own,) = samples([record("gemm", m=1024, n=1024, k=1024)], "min", "cpu")
        truth = {"cached_operand_bytes": kept, "exposed_operand_fraction": exposed, "wave_quantization": 0.0,
                 "gemm_ramp_depth": 0.0, "fp32_gemm_sustained_fraction": 1.0, "memory_bandwidth_efficiency": 1.0,
                 "bandwidth_ramp_bytes": 0.0, "kernel_overhead_time": 0.0}  # fmt: skip
        return float(predicted(own, {**DEFAULTS, **truth}, CPU).reshape(-1)[0])

    moved, hidden = 3 * 4 * 1024**2, 2 * 1024**3 / 160e9
    assert seconds(0, 0) == pytest.approx(hidden)
    assert seconds(0, 1) == pytest.approx(hidden + moved / 10e9)
    assert seconds(2e6, 1) == pytest.approx(hidden + (moved - 2e6) / 10e9)
    assert seconds(2e6, 0.5) == pytest.approx(hidden + (moved - 2e6) / 20e9)
    assert seconds(2 * moved, 1) == pytest.approx(hidden)


def test_layouts_are_told_apart():
    shapes = [{"m": 512 * i, "n": 1024, "k": 1024} for i in range(1, 9)]
    slower = {"TN": 1.0, "NN": 1.04, "NT": 0.95}
    records = [record("gemm", "bfloat16", layout=layout, **s) for s in shapes for layout in slower]
    errors = np.array([1 / slower[r["params"]["layout"]] - 1 for r in records])
    assert layouts(records, errors) == pytest.approx(slower)


def test_fewer_than_eight_clean_records_tell_nothing():
    few = planted(PRODUCTS[:7], TRUTH, GPU)
    noisy = planted(PRODUCTS[:20], TRUTH, GPU)
    for each in noisy["records"][5:]:
        each["flags"] = ["noisy", "unsettled"]
    for content in (few, noisy):
        found = fit_of(content, GPU)
        assert found.values == {}
        assert "a fit needs 8: the defaults stay" in found.refused["products bfloat16"]
        assert found.coefficients["gemm_sustained_fraction"] == DEFAULTS["gemm_sustained_fraction"]


def test_shares_stay_below_what_a_datasheet_allows():
    content = planted(
        [*PRODUCTS, *COPIES], TRUTH | {"gemm_sustained_fraction": 1.6, "memory_bandwidth_efficiency": 1.5}, GPU
    )
    found = fit_of(content, GPU)
    assert found.values["gemm_sustained_fraction"] <= 1.05
    assert found.values["memory_bandwidth_efficiency"] <= 1.05


def test_launches_are_taken_as_they_were_measured():
    content = planted([*COPIES], TRUTH, GPU)
    content["records"] += [
        record("launch", "bfloat16", 4e-6, mode="eager"),
        record("launch", "bfloat16", 1.2e-6, mode="graph"),
    ]
    found = fit_of(content, GPU)
    assert found.values["kernel_launch_time"] == 4e-6
    assert found.values["kernel_overhead_time"] == 1.2e-6


def test_records_at_a_lower_clock_count_as_they_would_at_the_best():
    content = planted([*PRODUCTS], TRUTH, GPU)
    for number, each in enumerate(content["records"]):
        slow = number % 2
        each.update(flags=["throttled"] * slow, gemm_tflops_beside=560.0 if slow else 700.0)
        each["time_s"].update({n: each["time_s"][n] / (0.8 if slow else 1) for n in ("median", "min", "p10", "p90")})
    assert fit_of(content, GPU).values["gemm_sustained_fraction"] == pytest.approx(0.74, rel=0.02)


def test_products_are_told_apart_by_shape_and_size():
    def of(**sizes):
        return stratum_of(record("gemm", "float32", **sizes), "cpu")

    assert of(m=16, n=2048, k=2048) == "skinny"
    assert [of(m=s, n=s, k=s) for s in (128, 512, 1024)] == ["small", "medium", "large"]


def test_every_record_is_held_out_once():
    one, two = halves(7)
    assert np.all(one ^ two)


# --- rows ------------------------------------------------------------------------------------------------------------


def test_a_processor_has_the_peak_of_its_instructions_and_the_bandwidth_of_its_copies():
    content = result(
        [record("copy", seconds=1e-3, rows=1024, columns=1024), record("gemm", seconds=1e-3, m=256, n=256, k=256)]
    )
    machine = machine_of(content, Tables())
    assert (machine.name, machine.known) == ("a processor 1 thread", False)
    assert machine.peaks == {"float32": 2 * 32 * 2.5e9}
    assert machine.bandwidth == pytest.approx(8 * 2**20 / 1e-3)


def test_gpus_are_known_by_their_drivers_names_and_others_must_be_named():
    assert machine_of(result([], "cuda", "NVIDIA H100 80GB HBM3"), Tables()).name == "H100 SXM"
    assert machine_of(result([], "cuda", "NVIDIA L40S"), Tables()).name == "L40S"
    with pytest.raises(ConfigError, match="name one with --accelerator"):
        machine_of(result([], "cuda", "NVIDIA Nobody"), Tables())
    with pytest.raises(ConfigError, match="has no copy"):
        machine_of(result([]), Tables())
    with pytest.raises(ConfigError, match=r"has no product \(gemm\), and a processor's peak is not known otherwise"):
        machine_of(result([record("copy", seconds=1e-3, rows=4, columns=4)]), Tables())


def test_a_row_says_what_it_was_fitted_on_and_stands_on_the_one_before(of_gpu):
    assert rows.base_row(Tables(), "H100 SXM", True) == "H100 SXM"
    assert rows.base_row(Tables(), "L40S", True) == "L40S"
    content = planted(PRODUCTS, TRUTH, GPU)
    source = rows.source_of(content, "amped bench fit r.json", "0.1.0")
    row = rows.kernel_row(of_gpu, content, "H100 SXM", source)
    assert row["extends"] == "H100 SXM"
    assert set(row["fitted"]) == set(of_gpu.fitted) <= set(row)
    assert row["bandwidth_ramp_bytes"].endswith(" MB")
    assert "amped bench fit r.json" in row["sources"][0]
    assert "2026-11-20" in row["sources"][0]
    assert "held out" in row["notes"]


def test_rows_are_added_to_what_is_there_and_never_to_amped_s_own(tmp_path, of_gpu):
    row = rows.kernel_row(of_gpu, planted(PRODUCTS, TRUTH, GPU), "H100 SXM", "a source")
    rows.write_rows(tmp_path, {rows.KERNELS: ("one", row)})
    (path,) = rows.write_rows(tmp_path, {rows.KERNELS: ("two", row)})
    tables = Tables((tmp_path,))
    assert tables.row(rows.KERNELS, "one").columns["fitted"] == tables.row(rows.KERNELS, "two").columns["fitted"]
    with pytest.raises(FileError, match="has a row 'two' already"):
        rows.write_rows(tmp_path, {rows.KERNELS: ("two", row)})
    rows.write_rows(tmp_path, {rows.KERNELS: ("two", row)}, replace=True)
    path.write_text("[]")
    with pytest.raises(FileError, match="is not a table"):
        rows.write_rows(tmp_path, {rows.KERNELS: ("three", row)})
    from importlib import resources

    with pytest.raises(FileError, match="come with amped"):
        rows.write_rows(resources.files("amped.lookup_tables"), {rows.KERNELS: ("three", row)})


def test_other_columns_than_the_fitted_are_untouched(of_gpu):
    assert dataclasses.asdict(of_gpu)["defaults"] == KNOWN
