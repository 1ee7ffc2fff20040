"""The shipped lookup tables are true to themselves, and their rows are found by any spelling."""

from collections import Counter

import pytest

from amped.base.errors import AmpedError, TableError, plain
from amped.base.units import parse
from amped.configuring.layout_text import Blocks, Layout, Pattern
from amped.configuring.scenario import read_scenario
from amped.configuring.values import read_value
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.library import estimate
from amped.tables.table_files import ABOUT, ACCELERATORS, KERNELS, MODELS, SHIPPED, SYSTEMS, shipped
from amped.tables.tables import Tables
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import NETWORK
from tests.helpers.culprits import for_each
from tests.helpers.tables import layered
from tests.helpers.units import unit_of_name

KNOWN = catalogue()
ROWS = [(table, name) for table in SHIPPED for name in shipped(table)]
FOUND = [Tables().row(table, name) for table, name in ROWS]
CELLS = [((table, name, column), written) for table, name in ROWS for column, written in shipped(table)[name].items()]
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
        assert sum(name in shipped(table) for table in SHIPPED if table != KERNELS) == 1

    @for_each(shipped(KERNELS))
    def test_kernel_efficiencies_are_of_an_accelerator_or_a_generation_there_is(self, name):
        generations = {word for row in shipped(ACCELERATORS).values() for word in str(row.get("architecture")).split()}
        named = {row.get(KERNELS) for row in shipped(ACCELERATORS).values()}
        used = {*shipped(ACCELERATORS), *generations, *named, "default", "TPE constants"}
        assert {name, *shipped(KERNELS)[name].get("aliases", ())} & used

    @for_each(SHIPPED)
    def test_no_two_rows_answer_to_one_name(self, table):
        answers = Counter(
            key for name, row in shipped(table).items() for key in {plain(n) for n in (name, *row.get("aliases", ()))}
        )
        assert [key for key, rows in answers.items() if rows > 1] == []

    def test_every_name_and_alias_finds_its_row(self):
        spellings = [(t, name, s) for t, name in ROWS for s in (name, *shipped(t)[name].get("aliases", ()))]
        assert [each for each in spellings if Tables().row(each[0], each[2]).name != each[1]] == []

    def test_every_row_has_sources(self):
        assert [(row.table, row.name) for row in FOUND if not row.sources] == []
        lines = [(row.table, row.name, source) for row in FOUND for source in row.sources]
        assert [line for line in lines if not isinstance(line[2], str) or not line[2].strip()] == []

    def test_unverified_names_columns_of_the_row(self):
        doubted = [(row, column) for row in FOUND for column in row.unverified]
        assert [(row.table, row.name, column) for row, column in doubted if column not in row.columns] == []

    def test_every_column_that_is_a_quantity_is_a_value_of_it(self):
        wrong = []
        for (*row, column), written in CELLS:
            if column in KNOWN and written is not None:
                try:
                    value = read_value(KNOWN[column], written)
                    is_text = isinstance(value, Layout | Pattern | Blocks)
                    right = is_text or (value in KNOWN[column].mark.choices if isinstance(value, str) else value >= 0)
                except AmpedError as error:
                    right, written = False, error
                wrong += [] if right else [(*row, column, written)]
        assert wrong == []

    def test_a_column_whose_name_promises_a_unit_has_it(self):
        wrong = []
        for (*row, column), written in CELLS:
            unit = unit_of_name(column) if column not in ABOUT and column not in KNOWN else None
            if unit in ("byte", "byte/s", "flop/s", "s", "W"):
                try:
                    right = parse(written, unit) > 0
                except AmpedError:
                    right = False
                wrong += [] if right else [(*row, column, written, unit)]
        assert wrong == []

    @for_each(CLOCKED)
    def test_clock_and_units_multiply_to_the_peak_within_three_percent(self, name):
        row = shipped(ACCELERATORS)[name]
        units = row["number_of_cores"] * row["functional_units_per_core"] * row["mac_per_cycle_per_unit"]
        peak = parse(row[f"{row['mac_precision']}_peak_flop_rate"], "flop/s")
        assert 2 * parse(row["frequency"], "Hz") * units == pytest.approx(peak, rel=0.03)

    def test_nearly_every_accelerator_has_a_clock(self):
        assert len(CLOCKED) >= 60

    def test_our_formula_gives_the_row_s_parameter_count_exactly(self):
        wrong = {}
        for name, row in shipped(MODELS).items():
            sources = read_scenario({NETWORK: {"lookup_config": {"lookup_table_row": name}}}).sources
            chosen = plan(KNOWN, ("number_of_parameters",), sources)
            assert "number_of_parameters" in chosen.by_name  # computed, not read from the row
            computed = run(chosen, sources.given).number("number_of_parameters")
            if computed != row["parameters_computed"]:
                wrong[name] = computed, row["parameters_computed"]
        assert wrong == {}

    @for_each(shipped(SYSTEMS))
    def test_a_system_s_accelerator_is_a_row(self, name):
        assert shipped(SYSTEMS)[name]["accelerator"] in shipped(ACCELERATORS)

    # Without the 16-bit peaks of coming ones, on which sources contradict one another.
    @for_each([name for name, row in shipped(ACCELERATORS).items() if row.get("bf16_peak_flop_rate", "known")])
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
            (MODELS, "Lama 3 70B", "'Llama 3 70B'"),
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
