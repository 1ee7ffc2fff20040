"""A datasheet typed as a row: what it takes from the row that it extends or corrects, what it does not, and what is told."""

import json

import pytest

import amped
from amped.base.errors import TableError
from amped.base.files import shipped_json
from amped.configuring.scenario import read_scenario
from amped.tables.table_files import ACCELERATORS, KERNELS, MODELS, SYSTEMS, shipped, table_paths
from amped.tables.table_schema import columns
from amped.theory.language.catalogue import catalogue
from tests.helpers.cli import amped as command
from tests.helpers.tables import layered

QUESTION = ("--model", "Llama 3 8B", "--gpus", "8")
FP16, BF16, FP8 = "fp16_peak_flop_rate", "bf16_peak_flop_rate", "fp8_peak_flop_rate"
PRICE, POWER = "accelerator_price", "thermal_design_power"
# The columns of AMPeD's own table.
NARROW = {"frequency": "1.41 GHz", "cores": 108, "units": 4}
# The smallest datasheet that an estimate can use.
ALONE = {"memory_capacity": "192 GB", "memory_bandwidth": "8 TB/s"}


def written(folder, name="mine.json", **rows):
    """A file of lookup tables with these rows of accelerators."""
    (folder / name).write_text(json.dumps({ACCELERATORS: rows}))
    return folder / name


def typed(folder, *words):
    """What `amped estimate` prints for these words, notes included."""
    done = command("estimate", *QUESTION, *words, folder=folder)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


class TestPeaksInSixteenBits:
    @pytest.mark.parametrize(("given", "other"), [(FP16, BF16), (BF16, FP16)])
    def test_one_stands_for_the_other_and_this_is_told(self, tmp_path, given, other):
        written(tmp_path, Zeta={"extends": "B200 SXM", given: "2000 TFLOP/s"})
        code, told = typed(tmp_path, "--accelerator", "Zeta", "--lookup-tables", "mine.json")
        assert code == 0
        assert f"row 'Zeta' gives {given} alone: {other} is 2000 TFLOP/s, too" in told
        found = amped.estimate(accelerator="Zeta", model="Llama 3 8B", gpus=8, lookup_tables=tmp_path / "mine.json")
        assert found["matrix_peak_flop_rate"] == 2e15

    def test_a_row_that_extends_nothing_needs_no_clock_where_it_has_a_peak(self, tmp_path):
        written(tmp_path, Zeta={**ALONE, FP16: "2000 TFLOP/s"})
        assert typed(tmp_path, "--system", "DGX B200", "--accelerator", "Zeta", "--lookup-tables", "mine.json")[0] == 0

    def test_null_says_that_there_is_none(self, tmp_path):
        row = layered(tmp_path, {ACCELERATORS: {"Zeta": {"extends": "B200 SXM", FP16: "2 PFLOP/s", BF16: None}}})
        assert row.row(ACCELERATORS, "Zeta").columns[BF16] is None

    def test_a_machine_without_a_format_does_not_get_it(self, tmp_path):
        row = layered(tmp_path, {ACCELERATORS: {"Zeta": {"extends": "V100", FP16: "100 TFLOP/s"}}})
        assert BF16 not in row.row(ACCELERATORS, "Zeta").columns

    def test_shipped_rows_stay_as_they_are(self, tmp_path):
        rows = layered(tmp_path, {ACCELERATORS: {"Zeta": ALONE}})
        assert all(
            rows.row(ACCELERATORS, name).columns.keys() >= row.keys() for name, row in shipped(ACCELERATORS).items()
        )
        assert BF16 not in rows.row(ACCELERATORS, "V100").columns


class TestPriceAndPower:
    def test_another_product_has_none_until_its_row_says_so(self, tmp_path):
        written(tmp_path, Zeta={"extends": "B200 SXM", BF16: "2000 TFLOP/s", FP16: "2000 TFLOP/s"})
        code, told = typed(tmp_path, "--accelerator", "Zeta", "--lookup-tables", "mine.json")
        assert code == 0
        assert f"row 'Zeta' does not say its {PRICE} and {POWER}" in told
        assert "so no cost and no energy" in told
        assert " USD ±" not in told
        assert '--price "2.5 USD/h" or --cloud NAME' in told
        assert "MWh" not in told

    def test_its_own_are_taken(self, tmp_path):
        written(tmp_path, Zeta={"extends": "B200 SXM", PRICE: "3 USD/hour", POWER: "700 W"})
        code, told = typed(tmp_path, "--accelerator", "Zeta", "--lookup-tables", "mine.json")
        assert (code, "USD" in told, "MWh" in told, "does not say" in told) == (0, True, True, False)

    @pytest.mark.parametrize("name", ["H100 SXM", "H100"])
    def test_a_correction_of_the_shipped_row_keeps_them(self, tmp_path, name):
        tables = layered(tmp_path, {ACCELERATORS: {name: {"extends": "H100 SXM", "memory_capacity": "94 GB"}}})
        row = tables.row(ACCELERATORS, name)
        assert row.columns[PRICE] == shipped(ACCELERATORS)["H100 SXM"][PRICE]
        assert row.notices == ()

    def test_a_node_does_not_inherit_its_power_either(self, tmp_path):
        tables = layered(tmp_path, {SYSTEMS: {"My node": {"extends": "DGX H100"}}})
        assert "node_power_maximum" not in tables.row(SYSTEMS, "My node").columns


class TestUnknownColumns:
    @pytest.mark.parametrize(
        ("column", "value", "meant"),
        [
            ("price", "3 USD/hour", "'accelerator_price'"),
            ("tdp", "700 W", "'thermal_design_power'"),
            ("matrix_peak", "2000 TFLOP/s", "'bf16_peak_flop_rate' or 'fp16_peak_flop_rate'"),
            ("TDP", "700 W", "'thermal_design_power'"),
            ("memory_bandwith", "8 TB/s", "'memory_bandwidth'"),
        ],
    )
    def test_an_estimate_stops_and_says_what_is_meant(self, tmp_path, column, value, meant):
        path = written(tmp_path, Zeta={**ALONE, column: value})
        code, told = typed(tmp_path, "--accelerator", "Zeta", "--lookup-tables", path)
        assert code == 2
        assert (
            f"{path}: {ACCELERATORS}, row 'Zeta', column '{column}': is no column amped knows did you mean {meant}"
            in told
        )
        assert "is missing" not in told

    def test_all_are_told_at_once(self, tmp_path):
        written(tmp_path, Zeta={"extends": "B200 SXM", "tdp": "700 W", "price": "3 USD/hour"})
        _, told = typed(tmp_path, "--accelerator", "Zeta", "--lookup-tables", "mine.json")
        assert told.count("is no column amped knows") == 2

    def test_rows_of_kernels_and_networks_are_read_as_closely(self, tmp_path):
        (tmp_path / "mine.json").write_text(
            json.dumps(
                {
                    KERNELS: {"K": {"extends": "default", "gemm_fraction": 0.5}},
                    MODELS: {"N": {"extends": "GPT-3", "width": 8}},
                }
            )
        )
        for words in (("--set", "kernel_efficiencies=K"), ("--model", "N")):
            done = command("estimate", *words, "--lookup-tables", "mine.json", folder=tmp_path)
            assert (done.returncode, "is no column amped knows" in done.stderr) == (2, True)

    def test_a_row_that_nobody_asked_for_stops_nothing(self, tmp_path):
        written(tmp_path, Zeta={"tdp": "700 W"})
        assert typed(tmp_path, "--accelerator", "H100 SXM", "--lookup-tables", "mine.json")[0] == 0

    def test_every_word_leads_to_a_column(self):
        tables = [columns(table) for table in (ACCELERATORS, SYSTEMS, MODELS)]
        known = {*catalogue(), *(name for table in tables for name in table)}
        assert {name for names in shipped_json("schema", "column_words.json").values() for name in names} <= known


class TestWhatARowMayExtend:
    def test_itself_in_a_lower_layer_and_rows_beside_it(self, tmp_path):
        rows = {
            "H100 SXM": {"extends": "H100 SXM", "memory_capacity": "94 GB"},
            "Mine": {"extends": "H100 SXM", "memory_bandwidth": "3 TB/s"},
            "Next": {"extends": "Mine", "memory_capacity": "99 GB"},
        }
        tables = layered(tmp_path, {ACCELERATORS: rows})
        capacity = {name: tables.row(ACCELERATORS, name).columns["memory_capacity"] for name in rows}
        assert capacity == {"H100 SXM": "94 GB", "Mine": "94 GB", "Next": "99 GB"}
        assert tables.row(ACCELERATORS, "Next").ancestors == ("Mine", "H100 SXM", "H100 SXM")

    def test_the_aliases_of_a_row_are_those_of_its_correction(self, tmp_path):
        tables = layered(tmp_path, {ACCELERATORS: {"H100 SXM": {"extends": "H100 SXM", "memory_capacity": "94 GB"}}})
        assert tables.row(ACCELERATORS, "H100").columns["memory_capacity"] == "94 GB"

    def test_a_row_whose_alias_it_extends(self, tmp_path):
        row = {"extends": "H100", "aliases": ["H100"], "memory_capacity": "94 GB"}
        assert layered(tmp_path, {ACCELERATORS: {"H100 Mine": row}}).row(ACCELERATORS, "H100").ancestors == (
            "H100 SXM",
        )

    def test_rows_that_extend_one_another_are_told(self, tmp_path):
        tables = layered(tmp_path, {ACCELERATORS: {"A1": {"extends": "B1"}, "B1": {"extends": "A1"}}})
        with pytest.raises(TableError, match="extend one another: A1 ← B1 ← A1"):
            tables.row(ACCELERATORS, "A1")


class TestARowWithoutExtendsWhoseNameIsShipped:
    def test_it_takes_the_rest_from_the_shipped_row_and_this_is_told_once(self, tmp_path):
        network = {"tokens": 50257, "dimensionality": 12288, "heads": 96, "layers": 96}
        path = tmp_path / "lookup_tables" / "lookup_tables.json"
        path.parent.mkdir()
        path.write_text(json.dumps({ACCELERATORS: {"A100": NARROW}, MODELS: {"GPT-3 175B": network}}))
        done = command("estimate", "--full", folder=tmp_path)
        assert done.returncode == 0
        told = " ".join((done.stdout + done.stderr).split())
        assert told.count("columns that it does not have are those of 'GPT-3 175B'") == 1
        for words in ((), ("--set", "performance_model=amped"), ("--accelerator", "A100")):
            assert command("estimate", *words, "--json", folder=tmp_path).returncode == 0

    def test_the_same_numbers_give_the_same_time(self, tmp_path):
        path = written(tmp_path, **{"A100 SXM 80GB": NARROW})
        assert amped.estimate("default", lookup_tables=path)["step_time"] == amped.estimate("default")["step_time"]

    def test_another_clock_does_not_keep_the_peaks_of_the_shipped_one(self, tmp_path):
        tables = layered(tmp_path, {ACCELERATORS: {"A100": {**NARROW, "frequency": "1 GHz"}}})
        row = tables.row(ACCELERATORS, "A100")
        assert BF16 not in row.columns
        assert row.columns["memory_bandwidth"] == shipped(ACCELERATORS)["A100 SXM 80GB"]["memory_bandwidth"]

    def test_null_lets_it_stand_by_itself(self, tmp_path):
        row = layered(tmp_path, {ACCELERATORS: {"A100": {**NARROW, "extends": None}}}).row(ACCELERATORS, "A100")
        assert "memory_bandwidth" not in row.columns


class TestLayers:
    def test_the_option_may_be_given_several_times_and_later_is_over_earlier(self, tmp_path):
        written(
            tmp_path,
            "first.json",
            Mine={"extends": "H100 SXM", "memory_capacity": "90 GB", "memory_bandwidth": "3 TB/s"},
        )
        written(tmp_path, "second.json", Mine={"extends": "Mine", "memory_capacity": "91 GB"})
        layers = ("--lookup-tables", "first.json", "--lookup-tables", "second.json")
        shown = command("show", "Mine", *layers, folder=tmp_path).stdout
        assert "91 GB" in shown
        assert "3 TB/s" in shown
        assert command("estimate", *QUESTION, "--accelerator", "Mine", *layers, folder=tmp_path).returncode == 0

    def test_python_takes_one_path_or_several(self, tmp_path):
        paths = [
            written(tmp_path, f"{n}.json", Mine={"extends": "H100 SXM", "memory_capacity": f"{n} GB"}) for n in (90, 91)
        ]
        for tables in (paths[1], str(paths[1]), paths, tuple(map(str, paths))):
            scenario = read_scenario({}, {"accelerator": "Mine"}, tables)
            assert scenario.sources.given["memory_capacity"] == 91e9
        assert table_paths(None) == table_paths("") == ()

    @pytest.mark.parametrize("tables", [3, {"a": 1}, [3], [None]])
    def test_what_is_no_path_is_refused(self, tables):
        with pytest.raises(amped.AmpedError, match="is no folder of lookup tables"):
            amped.estimate("default", lookup_tables=tables)

    def test_a_search_with_several_layers_saves_configs_that_its_line_runs(self, tmp_path):
        written(tmp_path, "a b.json", Mine={"extends": "H100 SXM"})
        written(tmp_path, "c.json", Mine={"extends": "Mine", "memory_capacity": "91 GB"})
        layers = ("--lookup-tables", "a b.json", "--lookup-tables", "c.json")
        done = command("explore", *QUESTION, "--accelerator", "Mine", *layers, "--save-best", "best", folder=tmp_path)
        assert "--lookup-tables 'a b.json' --lookup-tables c.json" in done.stderr


class TestNamesOfRowsWithAComma:
    NAME = "AMD EPYC, 1 thread"

    @pytest.mark.parametrize("typed_name", [NAME, f'"{NAME}"', "AMD EPYC 1 thread", "amd-epyc, 1 thread"])
    def test_the_whole_text_is_one_row(self, tmp_path, typed_name):
        (tmp_path / "k.json").write_text(json.dumps({KERNELS: {self.NAME: {"extends": "default"}}}))
        words = ("--lookup-tables", "k.json", "--set", f"kernel_efficiencies={typed_name}", "--json")
        assert command("estimate", *words, folder=tmp_path).returncode == 0

    def test_a_list_of_rows_leads_to_explore(self, tmp_path):
        done = command("estimate", "--set", "accelerator=A100,H100 SXM", folder=tmp_path)
        assert done.returncode == 2
        assert f"'A100,H100 SXM' is a list of rows of {ACCELERATORS}" in done.stderr
        assert "--vary" in done.stderr

    def test_a_list_of_numbers_is_still_told(self, tmp_path):
        done = command("estimate", "--set", "context=1024,2048", folder=tmp_path)
        assert (done.returncode, "is a list" in done.stderr) == (2, True)
