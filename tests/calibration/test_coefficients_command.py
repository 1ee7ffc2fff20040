"""`amped coefficients`: every coefficient and what selects it, and how many numbers of a row were fitted."""

import json
import re

import pytest

from amped.base.errors import plain
from amped.calibration.coefficients import BY_NAME
from amped.calibration.listing import LIMITS, coefficients, counts
from amped.calibration.step_table import shipped_numbers
from amped.tables.table_files import KERNELS
from amped.tables.tables import Tables
from amped.theory.language.catalogue import catalogue
from tests.helpers.cli import amped
from tests.helpers.culprits import for_each
from tests.validation.test_coefficients import NAMES, SELECTED_BY

LISTED = {c.name: c for c in coefficients(Tables(), catalogue())}
SELECTORS = {"accelerator", "precision", "system", "software stack", "all alike"}


def test_every_coefficient_of_the_list_is_printed_and_no_other():
    """The list is written out in tests/validation/test_coefficients.py, by hand."""
    assert set(LISTED) == {name for names in SELECTED_BY.values() for name in names}


@for_each(LISTED.values())
def test_none_is_selected_by_a_row_or_a_network(coefficient):
    assert set(coefficient.selected_by) <= SELECTORS
    assert [row for row in coefficient.values if plain(row) in NAMES] == []
    precise = coefficient.name in SELECTED_BY["accelerator and precision"]
    assert ("precision" in coefficient.selected_by) == precise
    columns = SELECTED_BY["accelerator"] | SELECTED_BY["accelerator and precision"]
    assert ("accelerator" in coefficient.selected_by) == (coefficient.name in columns)


def test_each_has_a_unit_a_meaning_and_values():
    for c in LISTED.values():
        assert c.unit in ("1", "s", "byte", "count", "flop/byte", "J/byte")
        assert c.meaning
        assert c.values
        assert c.fittable == (c.name in BY_NAME)
        assert not c.fittable or (c.lowest, c.highest) == (BY_NAME[c.name].lowest, BY_NAME[c.name].highest)


def test_no_row_has_more_fitted_numbers_than_it_may():
    assert LIMITS == {"kernel_efficiencies": 12, "software_specifications": 6}
    assert [c for c in counts(Tables()) if len(c.fitted) > c.limit] == []


def test_fitted_columns_are_there_and_are_not_doubted_too():
    for name in Tables().names(KERNELS):
        row = Tables().row(KERNELS, name)
        assert set(row.fitted) <= set(row.columns)
        assert not set(row.fitted) & set(row.unverified)


@pytest.fixture
def mine(tmp_path):
    """A machine with two fitted numbers, and another that extends it and has one of them measured."""
    rows = {
        "Chip": {"extends": "default", "gemm_sustained_fraction": 0.6, "kernel_overhead_time": "4 us",
                 "fitted": ["gemm_sustained_fraction", "kernel_overhead_time"], "sources": ["a fit"]},
        "Chip 2": {"extends": "Chip", "gemm_sustained_fraction": 0.7, "sources": ["a benchmark"]},
    }  # fmt: skip
    (tmp_path / "mine.json").write_text(json.dumps({"table": KERNELS, "rows": rows}), "utf-8")
    return tmp_path


def test_fitted_numbers_are_counted_with_those_that_are_inherited(mine):
    found = {c.row: c.fitted for c in counts(Tables((mine,)))}
    assert found["Chip"] == ("gemm_sustained_fraction", "kernel_overhead_time")
    assert found["Chip 2"] == ("kernel_overhead_time",)
    listed = {c.name: c for c in coefficients(Tables((mine,)), catalogue())}
    assert listed["kernel_overhead_time"].values["Chip 2"] == pytest.approx(4e-6)
    assert listed["gemm_sustained_fraction"].fitted_in[-1] == "Chip"


def test_the_table_fits_the_page_and_names_rows_that_were_fitted(mine):
    done = amped("coefficients", "--lookup-tables", mine, folder=mine)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert all(re.search(rf"^{name} ", done.stdout, re.MULTILINE) for name in LISTED)
    assert "Chip (kernel_efficiencies): 2 of 12" in done.stdout
    behind = done.stdout.partition("What is behind each number")[2]
    assert all(re.search(rf"^{n.column} .*{n.rows} ", behind, re.MULTILINE) for n in shipped_numbers())


def test_json_has_every_value_and_the_counts(mine):
    told = json.loads(amped("coefficients", "--json", "--lookup-tables", mine, folder=mine).stdout)
    assert list(told) == ["coefficients", "fitted", "fitted_to_steps"]
    assert {c["name"] for c in told["coefficients"]} == set(LISTED)
    assert {"table": KERNELS, "row": "Chip 2", "fitted": ["kernel_overhead_time"], "limit": 12} in told["fitted"]


def test_a_filter_leaves_those_with_the_text(tmp_path):
    told = json.loads(amped("coefficients", "--json", "-f", "ATTENTION", folder=tmp_path).stdout)["coefficients"]
    assert {c["name"] for c in told} == {name for name in LISTED if "attention" in name}
    nothing = amped("coefficients", "-f", "none such", folder=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no coefficient has 'none such'" in nothing.stderr


def test_a_column_said_to_be_fitted_that_is_not_there_is_refused(mine):
    rows = {"Chip": {"extends": "default", "fitted": ["gemm_depth"], "sources": ["a fit"]}}
    (mine / "mine.json").write_text(json.dumps({"table": KERNELS, "rows": rows}), "utf-8")
    assert "'gemm_depth' is fitted and not there" in amped("check-tables", mine, folder=mine).stderr


# --- of one accelerator -----------------------------------------------------------------------------------------------


def of(accelerator, folder):
    done = amped("coefficients", accelerator, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return {origin["name"]: origin for origin in json.loads(done.stdout)}


def test_an_accelerator_says_what_is_measured_fitted_and_assumed(tmp_path):
    found = of("H100 SXM", tmp_path)
    assert {origin["kin"] for origin in found.values()} == {""}
    assert (found["training_clock_fraction"]["how"], found["training_clock_fraction"]["row"]) == ("fitted", "Hopper")
    assert found["cache_intensity"]["how"] == "measured"
    assert found["bandwidth_ramp_bytes"]["how"] == "assumed"


def test_one_without_a_row_says_from_whom_each_is_taken_and_why(tmp_path):
    found = of("MI355X", tmp_path)
    assert found["gemm_sustained_fraction"]["kin"].startswith("taken from MI325X, nearest in vendor's software")
    assert found["fp8_gemm_sustained_fraction"]["kin"].endswith("; the same ratio to 16-bit products")
    done = amped("coefficients", "MI355X", "--filter", "gemm_sustained", folder=tmp_path)
    assert "(1) taken from MI325X" in " ".join(done.stdout.split())


def test_an_accelerator_that_is_not_there_comes_with_the_nearest(tmp_path):
    done = amped("coefficients", "MI300Y", folder=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'MI300" in done.stderr
