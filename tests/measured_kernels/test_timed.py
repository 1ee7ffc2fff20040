"""Tables of measured kernels and results of benchmarks become times of operators, where a shape is near."""

import json
import os
from dataclasses import asdict

import numpy as np
import pytest

from amped import estimate, explore
from amped.base.errors import AmpedError, FileError
from amped.configuring.scenario import read_scenario
from amped.estimation.breakdown import layer_lines
from amped.estimation.estimation import estimated
from amped.measured_kernels.bench_results import read_bench_result
from amped.measured_kernels.timed import timed_kernels
from tests.helpers.cli import amped
from tests.helpers.places import DATA

RESULT = DATA / "measured_kernels.json"
# A network whose products are those of the result: 12288 wide, 2048 tokens, in 8 parts.
ASKED = {
    "model": "GPT-3 175B",
    "accelerator": "B200 SXM",
    "matrix_precision": "bf16",
    "flash_attention": True,
    "dropout": 0,
}
HEAD = "accelerator,software,kernel,precision,m,n,k,time_us"


def lines_of(table=None, **more):
    given = {**ASKED, **({"measured_kernel_table": str(table)} if table else {}), **more}
    return {(line.name, line.phase): line for line in layer_lines(estimated(read_scenario("default", given)))}


def table(folder, *rows, name="products.csv", head=HEAD):
    pytest.importorskip("pyarrow")
    (folder / name).write_text("\n".join([head, *rows]) + "\n")
    return folder / name


def product(time, m=2048, n=4608, k=12288, precision="bfloat16", accelerator="B200 SXM", software="own"):
    return f"{accelerator},{software},fast,{precision},{m},{n},{k},{time}"


QUERIES = ("query_key_value", "forward")  # 2048 x 12288 with 12288 x 4608, the eighth part of three times 12288


class TestAnOperator:
    def test_of_a_measured_shape_takes_its_time_at_the_clock_of_training(self, tmp_path):
        path = table(tmp_path, product(300.0))
        line = lines_of(path, training_clock_fraction=1, clock_spread_fraction=0)[QUERIES]
        assert line.time_by == "measured"
        assert line.measured_distance == 0
        assert line.time / line.count == pytest.approx(300e-6, rel=1e-12)

    def test_of_a_table_below_a_folder_that_has_changed_is_read_again(self, tmp_path):
        (tmp_path / "kernels" / "of_mine").mkdir(parents=True)
        for time in (300.0, 600.0):
            path = table(tmp_path / "kernels" / "of_mine", product(time))
            os.utime(path, (4e9 + time, 4e9 + time))  # later than all that was made here
            line = lines_of(tmp_path / "kernels", training_clock_fraction=1, clock_spread_fraction=0)[QUERIES]
            assert line.time / line.count == pytest.approx(time * 1e-6, rel=1e-12)

    def test_in_training_is_slower_by_the_law(self, tmp_path):
        path, fast = table(tmp_path, product(300.0)), {"training_clock_fraction": 1, "clock_spread_fraction": 0}
        measured, law = ([lines_of(t, **clock)[QUERIES].time for clock in ({}, fast)] for t in (path, None))
        assert measured[0] / measured[1] == pytest.approx(law[0] / law[1])

    def test_near_a_measured_shape_takes_its_time_scaled_by_the_law(self, tmp_path):
        fast = {"training_clock_fraction": 1, "clock_spread_fraction": 0}
        law = lines_of(**fast)[QUERIES].time / lines_of(**fast)[QUERIES].count
        line = lines_of(table(tmp_path, product(300.0, m=1792)), **fast)[QUERIES]
        assert line.time_by == "interpolated"
        assert line.measured_distance == pytest.approx(np.log(2048 / 1792))
        assert 300e-6 < line.time / line.count < 300e-6 * 2048 / 1792 * 1.05
        assert line.time / line.count != pytest.approx(law, rel=0.01)

    def test_far_from_all_measured_shapes_is_timed_by_the_law(self, tmp_path):
        path = table(tmp_path, product(300.0, m=1024))
        assert lines_of(path)[QUERIES] == lines_of()[QUERIES]
        assert lines_of(path, measured_kernel_distance=0.7)[QUERIES].time_by == "interpolated"

    def test_takes_the_nearer_of_two_shapes_and_the_faster_of_two_libraries(self, tmp_path):
        rows = (
            product(900.0, m=1920),
            product(300.0),
            product(250.0, software="faster"),
            product(400.0, software="slow"),
        )
        line = lines_of(table(tmp_path, *rows), training_clock_fraction=1, clock_spread_fraction=0)[QUERIES]
        assert line.time / line.count == pytest.approx(250e-6)

    @pytest.mark.parametrize("other", [{"accelerator": "H100 SXM"}, {"precision": "fp8"}])
    def test_has_no_time_of_another_accelerator_or_precision(self, tmp_path, other):
        assert lines_of(table(tmp_path, product(300.0, **other)))[QUERIES].time_by == "law"

    def test_that_multiplies_no_matrices_is_timed_by_the_law(self, tmp_path):
        found = lines_of(table(tmp_path, product(300.0)))
        assert {line.time_by for line in found.values() if "contraction" not in line.kind} == {"law"}

    def test_of_the_output_head_stays_in_16_bits(self, tmp_path):
        rows = (product(300.0), product(100.0, precision="fp8"))
        asked = {"training_clock_fraction": 1, "clock_spread_fraction": 0, "matrix_precision": "fp8"}
        line = lines_of(table(tmp_path, *rows), **asked)[QUERIES]
        assert line.time / line.count == pytest.approx(100e-6)


class TestABenchmark:
    def test_of_amped_is_a_table_too(self):
        found = lines_of(RESULT)
        assert {found["fused_attention", phase].time_by for phase in ("forward", "input_gradient")} == {"measured"}
        assert found["attention_residual", "forward"].time_by == "law"

    def test_gives_products_groups_and_causal_attention(self):
        kinds = [kernels.operator for kernels in timed_kernels(RESULT, lambda name: name == "B200")]
        assert {(o.kind, o.phase) for o in kinds} == {
            ("contraction", "forward"), ("grouped_contraction", "forward"),
            ("fused_attention", "forward"), ("fused_attention", "input_gradient"),
        }  # fmt: skip
        assert sum(o.kind == "fused_attention" for o in kinds) == 2  # the attention to all keys is left out

    def test_names_the_accelerator_as_its_driver_does(self):
        assert {kernels.accelerator for kernels in read_bench_result(RESULT)} == {"B200"}

    def test_with_another_schema_is_refused(self, tmp_path):
        (tmp_path / "result.json").write_text(json.dumps({"schema": "other"}))
        with pytest.raises(FileError, match="not a result of `amped bench run`"):
            timed_kernels(tmp_path / "result.json", lambda name: True)


class TestTheQuestion:
    def test_of_many_candidates_is_answered_as_each_alone(self, tmp_path):
        sides = [(m, n, k) for m in (2048, 8192) for n in (4608, 12288, 36864) for k in (3072, 12288)]
        path = table(tmp_path, *(product(m * n * k / 2e8, m=m, n=n, k=k) for m, n, k in sides))
        given = {**ASKED, "measured_kernel_table": str(path), "measured_kernel_distance": 1}
        found = explore("default", **given)
        for row in found.best[:3]:
            alone = estimate("default", **{**given, **{name: row[name] for name in found.swept}})
            assert row["step_time"] == pytest.approx(alone["step_time"], rel=1e-12)
        without = explore("default", **ASKED)
        assert found.best[0]["step_time"] != without.best[0]["step_time"]

    def test_says_that_no_kernel_is_of_the_accelerator(self, tmp_path):
        path = table(tmp_path, product(300.0, accelerator="H100 SXM"))
        scenario = read_scenario("default", {**ASKED, "measured_kernel_table": str(path)})
        assert any("no kernel of B200 SXM" in told for told in scenario.sources.notices)

    def test_of_a_list_of_tables_is_refused_with_what_to_do(self, tmp_path):
        path = str(table(tmp_path, product(300.0)))
        (tmp_path / "other").mkdir()
        with pytest.raises(AmpedError, match="needs one run for each"):
            explore("default", vary={"measured_kernel_table": [path, str(tmp_path / "other")]}, **ASKED)

    @pytest.mark.parametrize(
        ("written", "told"), [("nowhere.csv", "there is no file or folder"), (3, "no file or folder")]
    )
    def test_of_no_file_is_refused(self, written, told):
        with pytest.raises(AmpedError, match=told):
            lines_of(measured_kernel_table=written)

    def test_is_answered_on_the_command_line_operator_by_operator(self, tmp_path):
        table(tmp_path, product(300.0))
        asked = ["estimate", "default", "--accelerator", "B200 SXM", "--precision", "bf16", "--layers",
                 "--set", "measured_kernel_table=products.csv"]  # fmt: skip
        told = amped(*asked, folder=tmp_path).stdout
        assert "time by" in told
        line = next(line for line in told.splitlines() if line.startswith("query_key_value"))
        assert line.split()[-1] == "measured"
        plain = json.loads(amped(*asked, "--json", folder=tmp_path).stdout)["operators"]
        assert {each["time_by"] for each in plain} == {"measured", "law"}
        assert {each["measured_distance"] for each in plain} == {0.0, None}

    def test_without_a_table_every_operator_is_timed_by_the_law(self):
        assert {asdict(line)["time_by"] for line in lines_of().values()} == {"law"}
