"""Which row of `kernel_efficiencies` an accelerator has, and how a config or its caller names another."""

import json

import pytest
from jsonschema import Draft202012Validator

from amped.configuring.config_schema import config_schema
from amped.configuring.scenario import read_scenario
from amped.library import estimate, explain
from amped.tables.table_files import ABOUT, ACCELERATORS, KERNELS, shipped
from amped.tables.tables import Tables
from amped.theory.language.quantity import ACCELERATOR, NETWORK
from tests.helpers.config import KNOWN, config, sources, the_problem
from tests.helpers.culprits import for_each
from tests.helpers.tables import layered

HERE = f"{ACCELERATOR}.parameters.{KERNELS}"
COLUMNS = {name for name in shipped(KERNELS)["default"] if name not in ABOUT}


def row_of(found):
    return found.rows[KERNELS].name


def with_tables(folder, content, accelerator):
    (folder / "mine.json").write_text(json.dumps(content), "utf-8")
    return read_scenario(config(), {"accelerator": accelerator}, folder).sources


class TestTheRowOfAnAccelerator:
    @pytest.mark.parametrize("accelerator", ["H100 SXM", "A100 SXM 80GB", "MI300X", "V100 SXM2 16GB"])
    def test_its_own(self, accelerator):
        found = sources(config(), accelerator=accelerator)
        assert row_of(found) == accelerator
        assert KERNELS not in found.doubts

    @pytest.mark.parametrize(
        ("accelerator", "row"),
        [("A100 PCIe 80GB", "A100 SXM 80GB"), ("L4", "L40S"), ("TPU v7 Ironwood", "TPU v6e Trillium")],
    )
    def test_its_nearest_kin_s_where_it_has_none_and_that_is_doubted(self, accelerator, row):
        found = sources(config(), accelerator=accelerator)
        assert row_of(found) == row
        doubt = f"no kernel efficiencies of {accelerator} are known: taken from {row}, nearest in vendor's software"
        assert found.doubts[KERNELS].startswith(doubt)

    def test_that_of_the_nearest_in_features_where_the_architecture_is_nobody_s(self, tmp_path):
        mine = shipped(ACCELERATORS)["A100 SXM 80GB"] | {"architecture": "Nobody's", "aliases": []}
        found = with_tables(tmp_path, {ACCELERATORS: {"Mine": mine}}, "Mine")
        assert row_of(found) == "A100 SXM 80GB"
        assert "taken from A100 SXM 80GB" in found.doubts[KERNELS]

    def test_that_of_the_row_it_extends(self, tmp_path):
        mine = {"extends": "H100 SXM", "memory_capacity": "64 GB", "sources": ["mine"]}
        found = with_tables(tmp_path, {ACCELERATORS: {"Mine": mine, "Mine too": {"extends": "Mine"}}}, "Mine too")
        assert row_of(found) == "H100 SXM"
        assert "those of 'H100 SXM' are used" in found.doubts[KERNELS]

    def test_the_one_that_it_names(self, tmp_path):
        mine = {"extends": "H100 SXM", "kernel_efficiencies": "MI300X", "sources": ["mine"]}
        assert row_of(with_tables(tmp_path, {ACCELERATORS: {"Mine": mine}}, "Mine")) == "MI300X"

    def test_a_user_s_row_of_its_name(self, tmp_path):
        measured = {"extends": "Hopper", "gemm_sustained_fraction": 0.5, "sources": ["measured"]}
        found = with_tables(tmp_path, {KERNELS: {"H100 SXM": measured}}, "H100 SXM")
        assert found.given["gemm_sustained_fraction"] == 0.5
        assert found.origins["gemm_sustained_fraction"].row.file.endswith("mine.json")

    @for_each(shipped(KERNELS))
    def test_every_row_has_every_coefficient(self, name):
        columns = Tables().row(KERNELS, name).columns
        assert COLUMNS - {column for column, value in columns.items() if value is not None} == set()

    def test_every_coefficient_is_a_parameter_and_has_no_default_beside_its_rows(self):
        assert [name for name in COLUMNS if name not in KNOWN] == []
        assert [name for name in COLUMNS if KNOWN[name].formulas[0].function() is not None] == []

    @for_each(shipped(ACCELERATORS))
    def test_every_shipped_accelerator_has_one_and_another_s_is_doubted(self, name):
        found, row = sources(config(), accelerator=name), Tables().row(ACCELERATORS, name)
        own = {name, row.columns.get(KERNELS)}
        assert (KERNELS in found.doubts) == (row_of(found) not in own)

    def test_none_of_the_shipped_has_the_default_s(self):
        assert [
            name for name in shipped(ACCELERATORS) if row_of(sources(config(), accelerator=name)) == "default"
        ] == []


class TestNamingARow:
    @pytest.mark.parametrize("spelling", ["Hopper", "hopper", "h100-sxm"])
    def test_the_caller_names_one(self, spelling):
        found = sources(config(), accelerator="A100", kernel_efficiencies=spelling)
        assert row_of(found) == Tables().row(KERNELS, spelling).name
        assert KERNELS not in found.doubts

    @pytest.mark.parametrize("category", [ACCELERATOR, NETWORK])
    def test_the_config_names_one(self, category):
        assert row_of(sources(config(category, kernel_efficiencies="Ampere"))) == "Ampere"

    def test_the_caller_overrules_the_config(self):
        written = config(ACCELERATOR, kernel_efficiencies="Ampere")
        assert row_of(sources(written, kernel_efficiencies="Hopper")) == "Hopper"

    def test_a_value_overrules_the_row(self):
        written = config(ACCELERATOR, gemm_sustained_fraction=0.5, kernel_efficiencies="Ampere")
        assert sources(written).given["gemm_sustained_fraction"] == 0.5
        assert sources(written, gemm_sustained_fraction=0.4).given["gemm_sustained_fraction"] == 0.4
        both = sources(config(), kernel_efficiencies="Ampere", gemm_sustained_fraction=0.4)
        assert (row_of(both), both.given["gemm_sustained_fraction"]) == ("Ampere", 0.4)

    def test_the_caller_s_row_takes_the_place_of_the_config_s_value_and_says_so(self):
        found = sources(config(ACCELERATOR, gemm_sustained_fraction=0.5), kernel_efficiencies="Ampere")
        assert found.given["gemm_sustained_fraction"] == shipped(KERNELS)["Ampere"]["gemm_sustained_fraction"]
        assert any("row 'Ampere' takes the place" in notice for notice in found.notices)

    def test_the_estimate_follows_the_row(self):
        own, other = (estimate("default", kernel_efficiencies=name) for name in ("A100 SXM 80GB", "Pascal"))
        assert own["step_time"] == estimate("default")["step_time"] != other["step_time"]
        told = explain("gemm_sustained_fraction", kernel_efficiencies="Pascal")
        assert told.where.startswith(
            f"{KERNELS}, row 'Pascal': {shipped(KERNELS)['Pascal']['gemm_sustained_fraction']}"
        )

    def test_the_closed_form_needs_none(self):
        slow, fast = (
            estimate("default", performance_model="amped", kernel_efficiencies=name) for name in ("Pascal", "Hopper")
        )
        assert slow.to_dict() == fast.to_dict()

    def test_the_schema_knows_the_name(self):
        validator = Draft202012Validator(config_schema(KNOWN))
        assert validator.is_valid(config(ACCELERATOR, kernel_efficiencies="Ampere"))


class TestWhatNamesNoRow:
    @pytest.mark.parametrize("written", [3, ["Hopper"], {"calculated": True}, {"from_lookup_table": True}])
    def test_it_is_told_once_and_with_its_place(self, written):
        problem = the_problem(config(ACCELERATOR, kernel_efficiencies=written))
        assert (problem.where, problem.what) == (HERE, "is not the name of a row")

    def test_a_row_that_is_not_there_comes_with_its_place_and_the_nearest(self):
        problem = the_problem(config(ACCELERATOR, kernel_efficiencies="Hoper"))
        assert problem.where == HERE
        assert problem.what == f"table {KERNELS} has no row 'Hoper'"
        assert "did you mean 'Hopper'" in problem.advice

    @pytest.mark.parametrize("name", ["Hoper", "", 3])
    def test_nor_is_one_that_the_caller_names(self, name):
        assert f"table {KERNELS} has no row" in the_problem(config(), kernel_efficiencies=name).what

    def test_a_row_without_a_coefficient_says_which(self, tmp_path):
        tables = layered(tmp_path, {KERNELS: {"Mine": {"gemm_sustained_fraction": 0.5}}})
        assert tables.row(KERNELS, "Mine").column("gemm_sustained_fraction") == 0.5
        with pytest.raises(Exception, match=r"'gemm_ramp_depth' is missing"):
            estimate("default", kernel_efficiencies="Mine", lookup_tables=tmp_path / "lookup-0")
