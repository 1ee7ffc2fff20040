"""The user's lookup tables are layered over the shipped ones, and what is no table is told with its file."""

import contextlib
import json
from pathlib import Path

import pytest

from amped.base.errors import AmpedError, ConfigError, FileError, TableError
from amped.configuring.scenario import read_scenario
from amped.library import estimate
from amped.tables.table_files import ACCELERATORS, MODELS, SYSTEMS, shipped, user_folders
from amped.tables.tables import Tables
from amped.theory.language.quantity import ACCELERATOR
from tests.helpers.places import ROOT
from tests.helpers.tables import MINE, layered


class TestTheUsersTables:
    def test_a_file_of_one_table(self, tmp_path):
        tables = layered(tmp_path, {"table": ACCELERATORS, "rows": {"Mine": MINE}})
        row = tables.row(ACCELERATORS, "my-CHIP")
        assert (row.name, row.column("frequency"), row.sources) == ("Mine", "1 GHz", ("measured",))
        assert row.file == str(tmp_path / "lookup-0" / "tables.json")

    def test_the_file_s_name_is_the_table_s_where_it_names_none(self, tmp_path):
        (tmp_path / f"{ACCELERATORS}.json").write_text(json.dumps({"rows": {"Mine": MINE}}))
        assert Tables((tmp_path,)).row(ACCELERATORS, "Mine").column("frequency") == "1 GHz"

    def test_amped_s_form_of_several_tables_in_one_file(self, tmp_path):
        tables = layered(tmp_path, {ACCELERATORS: {"Mine": MINE}, MODELS: {"Net": {"layers": 2, "tokens": 1000}}})
        assert tables.row(ACCELERATORS, "Mine").column("frequency") == "1 GHz"
        assert tables.row(MODELS, "Net").column("layers") == 2

    @pytest.mark.parametrize("asked", ["tokens", "vocabulary_size"])
    def test_amped_s_column_answers_to_both_names(self, tmp_path, asked):
        assert layered(tmp_path, {MODELS: {"Net": {"tokens": 1000}}}).row(MODELS, "Net").column(asked) == 1000

    def test_amped_s_column_fills_what_the_config_leaves_out(self, tmp_path):
        net = {"layers": 2, "dimensionality": 64, "attention_heads": 4, "context": 128, "tokens": 1000}
        (tmp_path / "mine.json").write_text(json.dumps({MODELS: {"Net": net}}))
        found = read_scenario("default", {"model": "Net"}, tmp_path / "mine.json").sources
        assert found.given["vocabulary_size"] == 1000

    def test_one_file_may_be_named_instead_of_a_folder(self, tmp_path):
        path = tmp_path / "mine.json"
        path.write_text(json.dumps({ACCELERATORS: {"Mine": MINE}}))
        assert Tables((path,)).row(ACCELERATORS, "Mine").file == str(path)

    def test_shipped_rows_stay_beside_the_user_s(self, tmp_path):
        tables = layered(tmp_path, {ACCELERATORS: {"Mine": MINE}})
        assert tables.names(ACCELERATORS) == [*shipped(ACCELERATORS), "Mine"]
        assert (
            tables.row(ACCELERATORS, "A100").column("frequency") == shipped(ACCELERATORS)["A100 SXM 80GB"]["frequency"]
        )

    @pytest.mark.parametrize("name", ["A100 SXM 80GB", "a100-sxm-80gb", "A100"])
    def test_a_row_that_extends_nothing_overrules_the_shipped_row_it_is_named_like(self, tmp_path, name):
        row = layered(tmp_path, {ACCELERATORS: {name: {**MINE, "extends": None}}}).row(ACCELERATORS, name)
        assert dict(row.columns) == {**MINE, "extends": None}

    def test_later_folders_overrule_earlier_ones_row_by_row(self, tmp_path):
        first = {ACCELERATORS: {"Mine": {"frequency": "1 GHz"}, "Other": {"frequency": "2 GHz"}}}
        tables = layered(tmp_path, first, {ACCELERATORS: {"Mine": {"frequency": "3 GHz"}}})
        assert [tables.row(ACCELERATORS, name).column("frequency") for name in ("Mine", "Other")] == ["3 GHz", "2 GHz"]
        assert tables.names(ACCELERATORS)[-2:] == ["Mine", "Other"]

    def test_a_table_of_the_user_s_own(self, tmp_path):
        tables = layered(tmp_path, {"table": "cooling_efficiencies", "rows": {"A100": {"overhead": "5 us"}}})
        assert tables.names("cooling_efficiencies") == ["A100"]
        with pytest.raises(TableError, match="did you mean 'cooling_efficiencies'"):
            tables.names("cooling_efficiences")

    def test_the_folder_where_amped_is_run_is_layered_by_itself(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert user_folders() == ()
        (tmp_path / "lookup_tables").mkdir()
        assert user_folders() == ()  # empty
        (tmp_path / "lookup_tables" / "mine.json").write_text(json.dumps({ACCELERATORS: {"Mine": MINE}}))
        assert Tables(user_folders()).row(ACCELERATORS, "Mine").column("frequency") == "1 GHz"

    def test_the_folder_on_the_command_line_overrules_the_one_where_amped_is_run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for name, clock in (("lookup_tables", "1 GHz"), ("theirs", "2 GHz")):
            (tmp_path / name).mkdir()
            (tmp_path / name / "t.json").write_text(json.dumps({ACCELERATORS: {"Mine": {"frequency": clock}}}))
        assert Tables(user_folders(Path("theirs"))).row(ACCELERATORS, "Mine").column("frequency") == "2 GHz"

    def test_the_shipped_folder_is_not_read_twice(self, monkeypatch):
        monkeypatch.chdir(ROOT)
        assert user_folders() == ()

    def test_an_estimate_of_the_user_s_own_accelerator(self, tmp_path):
        mine = shipped(ACCELERATORS)["A100 SXM 80GB"] | {"aliases": [], "bf16_peak_flop_rate": "624 TFLOP/s"}
        (tmp_path / "mine.json").write_text(json.dumps({"table": ACCELERATORS, "rows": {"Double A100": mine}}))
        faster = estimate("default", accelerator="double a100", lookup_tables=tmp_path)
        assert faster.scenario.sources.rows[ACCELERATOR].name == "Double A100"
        assert faster["step_time"] < estimate("default")["step_time"]


class TestTableFilesThatAreNone:
    @pytest.mark.parametrize(
        ("content", "what"),
        [
            ("hello", "line 1, column 1: is not valid JSON"),
            ("[]", "is not a lookup table"),
            ("3", "is not a lookup table"),
            ("{}", "holds no table"),
            ({"table": ACCELERATORS, "rows": []}, f"{ACCELERATORS}: [] is not a table of rows"),
            ({"table": ACCELERATORS, "rows": {"Mine": 3}}, f"{ACCELERATORS}, row 'Mine': 3 is not a row"),
            ({"table": 3, "rows": {}}, "the table's name 3 is not text"),
            ({"table": [3], "rows": {}}, "the table's name [3] is not text"),
            ({"table": {}, "rows": {}}, "the table's name {} is not text"),
            ({ACCELERATORS: 3}, f"{ACCELERATORS}: 3 is not a table of rows"),
            ({ACCELERATORS: {"Mine": [3]}}, f"{ACCELERATORS}, row 'Mine': [3] is not a row"),
            ('{"table": "t", "rows": {"Mine": {}, "Mine": {}}}', "the key 'Mine' stands twice in one object"),
            ('{"table": "t", "rows": {"Mine": {"frequency": NaN}}}', "NaN is not a JSON number"),
            ("[" * 20_000, "nested too deeply"),
        ],
    )
    def test_the_file_and_the_culprit_are_named(self, tmp_path, content, what):
        with pytest.raises(AmpedError) as caught:
            layered(tmp_path, content)
        assert caught.value.file == str(tmp_path / "lookup-0" / "tables.json")
        assert what in str(caught.value)

    def test_all_rows_that_are_none_are_told_at_once(self, tmp_path):
        with pytest.raises(TableError) as caught:
            layered(tmp_path, {ACCELERATORS: {"One": 1, "Two": 2}, MODELS: 3})
        assert len(caught.value.problems) == 3

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(FileError, match="no such folder of lookup tables"):
            Tables((tmp_path / "nowhere",))

    def test_a_folder_without_tables(self, tmp_path):
        with pytest.raises(FileError, match=r"has no \.json file in it"):
            Tables((tmp_path,))

    @pytest.mark.parametrize(
        "about", [{"aliases": "Mine too"}, {"aliases": 3}, {"aliases": [3]}, {"aliases": [[]]}, {"aliases": None}]
    )
    def test_aliases_that_are_no_list_of_names(self, tmp_path, about):
        """Refused with the cell, but for null, which is none at all."""
        content = {ACCELERATORS: {"Mine": {"frequency": "1 GHz", **about}}}
        if about["aliases"] is None:
            assert layered(tmp_path, content).row(ACCELERATORS, "Mine").aliases == ()
            return
        with pytest.raises(TableError, match=r"row 'Mine', column 'aliases': .* is not a list of text"):
            layered(tmp_path, content)

    @pytest.mark.parametrize(
        "about", [{"sources": 3}, {"sources": "a book"}, {"unverified": 3}, {"unverified": "frequency"}]
    )
    def test_sources_and_unverified_that_are_no_lists(self, tmp_path, about):
        """Refused in our words, or passed over, or one text taken as a list of one: never its letters."""
        with contextlib.suppress(TableError):
            row = layered(tmp_path, {ACCELERATORS: {"Mine": {"frequency": "1 GHz", **about}}}).row(ACCELERATORS, "Mine")
            assert {*row.sources, *row.unverified} <= set(about.values())

    @pytest.mark.parametrize(
        ("cell", "what"),
        [
            ("1 parsec", "unknown unit 'parsec'"),
            ("1 GB", "'GB' is not a unit of frequency (Hz)"),
            ({}, "{} is not a number"),
            ([3], "[3] is not a number"),
            (0, "0 is not above 0"),
            ("-1 GHz", "'-1 GHz' is not above 0"),
            ("1e400 Hz", "'1e400 Hz' is not a finite number"),
            ("__import__('os')", "is not a number with a unit"),
        ],
    )
    def test_a_cell_that_is_no_value_is_told_with_file_table_row_and_column(self, tmp_path, cell, what):
        path = tmp_path / "mine.json"
        path.write_text(json.dumps({ACCELERATORS: {"Mine": {"frequency": cell}}}))
        with pytest.raises(ConfigError) as caught:
            estimate("default", accelerator="Mine", lookup_tables=path)
        (problem,) = caught.value.problems
        assert problem.where == f"{path}: {ACCELERATORS}, row 'Mine', column 'frequency'"
        assert what in problem.what

    @pytest.mark.parametrize("accelerator", [3, {"a": 1}, ["A100"], True, "Nope"])
    def test_a_system_whose_accelerator_is_none(self, tmp_path, accelerator):
        path = tmp_path / "mine.json"
        path.write_text(
            json.dumps({SYSTEMS: {"Mine": shipped(SYSTEMS)["DGX H100"] | {"aliases": [], "accelerator": accelerator}}})
        )
        with pytest.raises(AmpedError) as caught:
            estimate("minimal", system="Mine", lookup_tables=path)
        assert "accelerator" in str(caught.value)
        assert "list" not in str(caught.value).replace("amped list", "")

    def test_a_row_without_what_is_needed_is_told_with_who_needs_it(self, tmp_path):
        path = tmp_path / "mine.json"
        path.write_text(json.dumps({ACCELERATORS: {"Mine": {"frequency": "1 GHz"}}}))
        with pytest.raises(AmpedError, match="'number_of_cores' is missing, needed by"):
            estimate("default", accelerator="Mine", lookup_tables=path)
