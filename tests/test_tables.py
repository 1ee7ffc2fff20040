"""Lookup tables: the shipped ones are true to themselves, and the user's are layered over them."""

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest

from amped.catalogue import catalogue, unit_of_name
from amped.errors import AmpedError, ConfigError, FileError, TableError, plain
from amped.evaluate import run
from amped.library import estimate
from amped.quantity import ACCELERATOR, NETWORK
from amped.resolve import plan
from amped.scenario import read_scenario
from amped.table_files import ABOUT, ACCELERATORS, MODELS, SHIPPED, SYSTEMS, shipped, user_folders
from amped.tables import Tables
from amped.units import parse
from amped.values import read_value

KNOWN = catalogue()
ROWS = [(table, name) for table in SHIPPED for name in shipped(table)]
CLOCKED = [name for name, row in shipped(ACCELERATORS).items() if "frequency" in row]


class TestShippedRows:
    @pytest.mark.parametrize(("table", "least"), [(ACCELERATORS, 60), (MODELS, 40), (SYSTEMS, 12)])
    def test_there_are_enough(self, table, least):
        assert len(Tables().names(table)) >= least

    @pytest.mark.parametrize("family", ["V100", "A100", "H100", "H200", "B200", "MI300X", "TPU v5p"])
    def test_the_families_people_ask_for_are_there_by_their_short_name(self, family):
        assert Tables().row(ACCELERATORS, family).name.startswith(family)

    @pytest.mark.parametrize("name", ["H100 PCIe", "GPT-2 small", "Llama 3 70B", "DGX H100"])
    def test_the_names_of_the_contract_are_there(self, name):
        assert sum(name in shipped(table) for table in SHIPPED) == 1

    @pytest.mark.parametrize("table", SHIPPED)
    def test_no_two_rows_answer_to_one_name(self, table):
        answers = Counter(
            key for name, row in shipped(table).items() for key in {plain(n) for n in (name, *row.get("aliases", ()))}
        )
        assert [key for key, rows in answers.items() if rows > 1] == []

    @pytest.mark.parametrize(("table", "name"), ROWS)
    def test_every_name_and_alias_finds_its_row(self, table, name):
        for spelling in (name, *shipped(table)[name].get("aliases", ())):
            assert Tables().row(table, spelling).name == name

    @pytest.mark.parametrize(("table", "name"), ROWS)
    def test_every_row_has_sources(self, table, name):
        sources = Tables().row(table, name).sources
        assert sources
        assert all(isinstance(source, str) and source.strip() for source in sources)

    @pytest.mark.parametrize(("table", "name"), ROWS)
    def test_unverified_names_columns_of_the_row(self, table, name):
        row = Tables().row(table, name)
        assert [column for column in row.unverified if column not in row.columns] == []

    @pytest.mark.parametrize(("table", "name"), ROWS)
    def test_every_column_that_is_a_quantity_is_a_value_of_it(self, table, name):
        for column, written in shipped(table)[name].items():
            if column in KNOWN:
                read_value(KNOWN[column], written)

    @pytest.mark.parametrize(("table", "name"), ROWS)
    def test_a_column_whose_name_promises_a_unit_has_it(self, table, name):
        promised = {c: unit_of_name(c) for c in shipped(table)[name] if c not in ABOUT and c not in KNOWN}
        for column, unit in promised.items():
            if unit in ("byte", "byte/s", "flop/s", "s", "W"):
                assert parse(shipped(table)[name][column], unit) > 0

    @pytest.mark.parametrize("name", CLOCKED)
    def test_clock_and_units_multiply_to_the_peak_within_three_percent(self, name):
        row = shipped(ACCELERATORS)[name]
        units = row["number_of_cores"] * row["functional_units_per_core"] * row["mac_per_cycle_per_unit"]
        peak = parse(row[f"{row['mac_precision']}_peak_flop_rate"], "flop/s")
        assert 2 * parse(row["frequency"], "Hz") * units == pytest.approx(peak, rel=0.03)

    def test_nearly_every_accelerator_has_a_clock(self):
        assert len(CLOCKED) >= 60

    @pytest.mark.parametrize("name", shipped(MODELS))
    def test_our_formula_gives_the_row_s_parameter_count_exactly(self, name):
        sources = read_scenario({NETWORK: {"lookup_config": {"lookup_table_row": name}}}).sources
        chosen = plan(KNOWN, ("number_of_parameters",), sources)
        assert "number_of_parameters" in chosen.by_name  # computed, not read from the row
        computed = run(chosen, sources.given).number("number_of_parameters")
        assert computed == shipped(MODELS)[name]["parameters_computed"]

    @pytest.mark.parametrize("name", shipped(SYSTEMS))
    def test_a_system_s_accelerator_is_a_row(self, name):
        assert shipped(SYSTEMS)[name]["accelerator"] in shipped(ACCELERATORS)

    @pytest.mark.parametrize("name", shipped(ACCELERATORS))
    def test_every_accelerator_trains_the_default_network(self, name):
        assert 0 < estimate("default", accelerator=name)["training_time"] < float("inf")


class TestFindingRows:
    @pytest.mark.parametrize("spelling", ["H100 PCIe", "h100pcie", "H100-PCIE", "h100_pcie", " h100  pcie "])
    def test_case_spaces_hyphens_and_underscores_do_not_matter(self, spelling):
        assert Tables().row(ACCELERATORS, spelling).name == "H100 PCIe"

    @pytest.mark.parametrize(
        ("table", "name", "advice"),
        [
            (ACCELERATORS, "H100 PCI", "did you mean 'H100 PCIe'"),
            (MODELS, "Lama 3 70B", "'Llama-3-70B'"),
            (SYSTEMS, "DGX H1000", "'DGX H100'"),
            (ACCELERATORS, "zzz", "`amped list accelerators` shows them"),
            (SYSTEMS, "zzz", "`amped list systems` shows them"),
            (MODELS, "x" * 10**6, "`amped list models` shows them"),
            (MODELS, "", "`amped list models` shows them"),
        ],
    )
    def test_a_row_that_is_not_there_comes_with_the_nearest(self, table, name, advice):
        with pytest.raises(TableError, match=f"table {table} has no row") as caught:
            Tables().row(table, name)
        assert advice in str(caught.value)
        assert len(str(caught.value)) < 400

    def test_a_table_that_is_not_there_comes_with_the_nearest(self):
        with pytest.raises(TableError, match="there is no lookup table 'acelerator_specifications'") as caught:
            Tables().names("acelerator_specifications")
        assert "did you mean 'accelerator_specifications'" in str(caught.value)

    def test_a_column_that_is_not_there_comes_with_the_nearest(self):
        row = Tables().row(ACCELERATORS, "A100")
        with pytest.raises(
            TableError, match="row 'A100 SXM 80GB' of accelerator_specifications has no column 'frequncy'"
        ) as caught:
            row.column("frequncy")
        assert "'frequency'" in str(caught.value)

    def test_a_column_without_a_value_is_told_as_empty_and_not_suggested_for_itself(self, tmp_path):
        row = layered(tmp_path, {ACCELERATORS: {"Mine": {"frequency": None}}}).row(ACCELERATORS, "Mine")
        with pytest.raises(TableError, match="frequency") as caught:
            row.column("frequency")
        assert "did you mean 'frequency'" not in str(caught.value)

    def test_amped_s_name_for_the_vocabulary_is_read(self):
        assert Tables().row(MODELS, "GPT-2 small").column("tokens") == 50257


def layered(*contents, folder="lookup"):
    """Tables with a folder for each content; a content is written as the file `tables.json`, text as it stands."""
    root, *contents = contents
    folders = []
    for number, content in enumerate(contents):
        made = Path(root) / f"{folder}-{number}"
        made.mkdir()
        (made / "tables.json").write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        folders.append(made)
    return Tables(tuple(folders))


MINE = {"frequency": "1 GHz", "aliases": ["My chip"], "sources": ["measured"]}


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
    def test_a_row_of_the_user_s_overrules_the_shipped_row_it_is_named_like(self, tmp_path, name):
        row = layered(tmp_path, {ACCELERATORS: {name: MINE}}).row(ACCELERATORS, name)
        assert dict(row.columns) == MINE

    def test_later_folders_overrule_earlier_ones_row_by_row(self, tmp_path):
        first = {ACCELERATORS: {"Mine": {"frequency": "1 GHz"}, "Other": {"frequency": "2 GHz"}}}
        tables = layered(tmp_path, first, {ACCELERATORS: {"Mine": {"frequency": "3 GHz"}}})
        assert [tables.row(ACCELERATORS, name).column("frequency") for name in ("Mine", "Other")] == ["3 GHz", "2 GHz"]
        assert tables.names(ACCELERATORS)[-2:] == ["Mine", "Other"]

    def test_a_table_of_the_user_s_own(self, tmp_path):
        tables = layered(tmp_path, {"table": "kernel_efficiencies", "rows": {"A100": {"overhead": "5 us"}}})
        assert tables.names("kernel_efficiencies") == ["A100"]
        with pytest.raises(TableError, match="did you mean 'kernel_efficiencies'"):
            tables.names("kernel_efficiences")

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
        monkeypatch.chdir(Path(__file__).resolve().parent.parent)
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
            ({"table": ACCELERATORS, "rows": []}, f"{ACCELERATORS}: is not a table of rows"),
            ({"table": ACCELERATORS, "rows": {"Mine": 3}}, f"{ACCELERATORS}, row 'Mine': is 3, not a row"),
            ({"table": 3, "rows": {}}, "the table's name 3 is not text"),
            ({"table": [3], "rows": {}}, "the table's name [3] is not text"),
            ({"table": {}, "rows": {}}, "the table's name {} is not text"),
            ({ACCELERATORS: 3}, f"{ACCELERATORS}: is not a table of rows"),
            ({ACCELERATORS: {"Mine": [3]}}, f"{ACCELERATORS}, row 'Mine': is [3], not a row"),
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
    def test_a_cell_that_is_no_value_is_told_with_table_row_and_column(self, tmp_path, cell, what):
        path = tmp_path / "mine.json"
        path.write_text(json.dumps({ACCELERATORS: {"Mine": {"frequency": cell}}}))
        with pytest.raises(ConfigError) as caught:
            estimate("default", accelerator="Mine", lookup_tables=path)
        (problem,) = caught.value.problems
        assert problem.where == f"{ACCELERATORS}, row 'Mine', column 'frequency'"
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
