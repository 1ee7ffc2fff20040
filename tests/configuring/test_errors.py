"""Configs: a value or a structure that is wrong is told with its place, and all that is wrong at once."""

import json

import pytest

from amped.base.errors import AmpedError, ConfigError
from amped.configuring.config import read_config
from amped.configuring.scenario import read_scenario
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from tests.helpers.config import KNOWN, config, refused, the_problem

WRONG_KINDS = [
    ({NETWORK: 3}, NETWORK, "3 is not an object"),
    ({NETWORK: []}, NETWORK, "[] is not an object"),
    ({NETWORK: {"parameters": []}}, f"{NETWORK}.parameters", "[] is not an object"),
    ({NETWORK: {"parameters": {"layers": 3}}}, f"{NETWORK}.parameters.layers", "3 is not an object"),
    (
        {NETWORK: {"parameters": {"layers": {"calculated": "yes"}}}},
        f"{NETWORK}.parameters.layers.calculated",
        "'yes' is not true or false",
    ),
    (
        {NETWORK: {"parameters": {"layers": {"from_lookup_table": 1}}}},
        f"{NETWORK}.parameters.layers.from_lookup_table",
        "1 is not true or false",
    ),
    (
        {NETWORK: {"parameters": {"layers": {"lookup_name": 3}}}},
        f"{NETWORK}.parameters.layers.lookup_name",
        "3 is not text",
    ),
    ({NETWORK: {"lookup_config": "A100"}}, f"{NETWORK}.lookup_config", "'A100' is not an object"),
    (
        {NETWORK: {"lookup_config": {"lookup_table_row": 3}}},
        f"{NETWORK}.lookup_config.lookup_table_row",
        "3 is not the name of a row, nor a list of names",
    ),
    (
        {NETWORK: {"lookup_config": {"lookup_table_row": []}}},
        f"{NETWORK}.lookup_config.lookup_table_row",
        "[] is not the name of a row, nor a list of names",
    ),
    (
        {NETWORK: {"lookup_config": {"lookup_table_row": [3]}}},
        f"{NETWORK}.lookup_config.lookup_table_row",
        "[3] is not the name of a row, nor a list of names",
    ),
    (
        {NETWORK: {"lookup_config": {"lookup_table_name": [3]}}},
        f"{NETWORK}.lookup_config.lookup_table_name",
        "[3] is not text",
    ),
    ({"description": 3}, "description", "3 is not text"),
    ({"performance_model": [3]}, "performance_model", "[3] is not text"),
]


class TestOneParameterThatIsWrong:
    WHERE = f"{NETWORK}.parameters.batch_size"

    @pytest.mark.parametrize(
        ("written", "what"),
        [
            ({"calculated": True, "from_lookup_table": True}, "is to be calculated and to be looked up"),
            ({"value": 8, "calculated": True, "from_lookup_table": True}, "is to be calculated and to be looked up"),
            ({"value": None}, "is null, and neither calculated nor looked up"),
            (
                {"value": None, "calculated": False, "from_lookup_table": False},
                "is null, and neither calculated nor looked up",
            ),
            ({}, "has no value"),
            ({"description": "sequences"}, "has no value"),
            ({"value": []}, "the list is empty"),
            ({"value": [1, 1]}, "a value stands twice in the list"),
            ({"value": [[8]]}, "[8] is not a number"),
            ({"value": {}}, "{} is not a number"),
            ({"value": "many"}, "'many' is not a number with a unit"),
            ({"value": "8 parsecs"}, "unknown unit 'parsecs'"),
            ({"value": "8 GB"}, "'GB' is not a unit of a plain count"),
            ({"value": 2.5}, "2.5 is not a whole number"),
            ({"value": "0.5 m"}, "'0.5 m' is not a whole number"),
            ({"value": 0}, "0 is below 1"),
            ({"value": -8}, "-8 is below 1"),
            ({"value": "1e400"}, "'1e400' is not a finite number"),
            ({"value": float("nan")}, "nan is not a finite number"),
            ({"value": float("inf")}, "inf is not a finite number"),
            ({"value": "__import__('os')"}, "\"__import__('os')\" is not a number with a unit"),
        ],
    )
    def test_a_count(self, written, what):
        problem = the_problem(config(batch_size=written))
        assert (problem.where, problem.what) == (self.WHERE, what)
        assert problem.advice

    @pytest.mark.parametrize("spelling", ["true", "false", "null"])
    def test_a_flag_or_null_is_no_number_and_is_told_as_json_has_it(self, spelling):
        problem = the_problem(config(batch_size=[8, json.loads(spelling)]))
        assert (problem.where, problem.what) == (self.WHERE, f"{spelling} is not a number")

    @pytest.mark.parametrize(
        ("category", "name", "written", "what"),
        [
            (ACCELERATOR, "memory_capacity", 0, "0 is not above 0"),
            (ACCELERATOR, "memory_capacity", "-80 GB", "'-80 GB' is not above 0"),
            (ACCELERATOR, "memory_capacity", "8 s", "'s' is not a unit of memory (byte)"),
            (ACCELERATOR, "memory_capacity", "8 parsecs", "unknown unit 'parsecs'"),
            (ACCELERATOR, "frequency", 0, "0 is not above 0"),
            (ACCELERATOR, "memory_bandwidth", 0, "0 is not above 0"),
            (ACCELERATOR, "vector_flop_rate", 0, "0 is not above 0"),
            (ACCELERATOR, "matrix_efficiency", 2, "2 is above 1"),
            (ACCELERATOR, "matrix_efficiency", 0, "0 is not above 0"),
            (SYSTEM, "inter_accelerator_bandwidth", 0, "0 is not above 0"),
            (SYSTEM, "inter_node_bandwidth", 0, "0 is not above 0"),
            (SYSTEM, "bandwidth_per_network_card", 0, "0 is not above 0"),
            (SYSTEM, "inter_node_latency", "-1 us", "'-1 us' is below 0"),
            (NETWORK, "weight_precision", 0, "0 is not above 0"),
            (MAPPING, "zero_stage", 4, "4 is above 3"),
            (MAPPING, "zero_stage", 1.5, "1.5 is not a whole number"),
            (NETWORK, "flash_attention", "yes", "'yes' is neither true nor false"),
            (NETWORK, "flash_attention", 2, "2 is neither true nor false"),
            (MAPPING, "activation_recomputation", "selectiv", "'selectiv' is no choice of 'activation_recomputation'"),
            (MAPPING, "activation_recomputation", 3, "3 is no choice of 'activation_recomputation'"),
            (NETWORK, "layer_operators", 3, "'layer_operators' is a list of records and cannot be given"),
        ],
    )  # fmt: skip
    def test_bounds_units_flags_and_choices(self, category, name, written, what):
        problem = the_problem(config(category, **{name: written}))
        assert (problem.where, problem.what) == (f"{category}.parameters.{name}", what)

    def test_a_choice_that_is_not_there_comes_with_the_nearest_and_all(self):
        problem = the_problem(config(MAPPING, activation_recomputation="selectiv"))
        assert (
            problem.advice
            == "did you mean 'selective'? it is one of none, selective, full, block, alternate_products, kept_products"
        )

    def test_a_value_of_megabytes_is_told_in_a_line(self):
        for written in ("x" * 2_000_000, "9" * 2_000_000):
            assert len(str(the_problem(config(batch_size=written)))) < 400
        assert len(str(the_problem(config(MAPPING, activation_recomputation="x" * 2_000_000)))) < 400

    def test_what_has_no_formula_cannot_be_calculated(self):
        problem = the_problem(config(layers={"calculated": True}))
        assert problem.what == "cannot be calculated: it has no formula"

    def test_a_text_is_never_run(self, tmp_path):
        target = tmp_path / "ran"
        the_problem(config(batch_size=f"__import__('pathlib').Path({str(target)!r}).touch()"))
        the_problem(config(MAPPING, activation_recomputation=f"open({str(target)!r}, 'w')"))
        assert not target.exists()


class TestStructure:
    @pytest.mark.parametrize(
        ("written", "where", "what"),
        WRONG_KINDS,
    )
    def test_wrong_kinds_are_told_with_their_path(self, written, where, what):
        assert (where, what) in [(problem.where, problem.what) for problem in refused(written)]

    @pytest.mark.parametrize("content", ["[]", "3", '"text"', "null", "true"])
    def test_a_file_that_is_no_object(self, tmp_path, content):
        path = tmp_path / "config.json"
        path.write_text(content)
        with pytest.raises(ConfigError, match="not an object") as caught:
            read_config(path, KNOWN)
        assert caught.value.file == str(path)

    @pytest.mark.parametrize("written", [None, 3, [], [{}], 2.5, b"default", object()])
    def test_an_argument_that_is_no_config(self, written):
        with pytest.raises(AmpedError):
            read_scenario(written)

    @pytest.mark.parametrize(
        "written",
        [
            {3: 4},
            {None: {}},
            {NETWORK: {3: {}}},
            {NETWORK: {"parameters": {3: {"value": 3}}}},
            {NETWORK: {"parameters": {"layers": {3: 3}}}},
        ],
    )
    def test_a_mapping_whose_keys_are_not_text(self, written):
        assert "unknown" in str(refused(written)[0])

    def test_mapping_looks_in_the_table_of_software_alone(self):
        written = config()
        written[MAPPING]["lookup_config"] = {"lookup_table_row": "A100"}
        told = str(the_problem(written))
        assert "lookup_config" in told
        assert "software_specifications has no row 'A100'" in told

    def test_the_file_stands_before_all_its_problems(self, tmp_path):
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(config(layers="x", dimensionality="y")))
        with pytest.raises(ConfigError) as caught:
            read_scenario(path)
        assert str(caught.value).startswith(f"{path}: 2 problems\n")


class TestAllErrorsAtOnce:
    def test_of_structure_and_of_names(self):
        written = {
            "nonsense": 1,
            NETWORK: {"parameters": {"layers": {"vlue": 3}, "dimensionalit": {"value": 8}, "context": 3}},
        }
        assert {p.where + ": " + p.what for p in refused(written)} >= {
            ": unknown key 'nonsense'",
            f"{NETWORK}.parameters.layers: unknown key 'vlue'",
            f"{NETWORK}.parameters.dimensionalit: unknown parameter 'dimensionalit'",
            f"{NETWORK}.parameters.context: 3 is not an object",
        }

    def test_of_names_sources_and_duplicates(self):
        found = refused(config(
            btch_size=3, layers={"value": None}, context={}, hidden_size=1, d_model=2,
            dropout={"calculated": True, "from_lookup_table": True},
        ))  # fmt: skip
        assert [p.where.rpartition(".")[2] for p in found] == ["btch_size", "layers", "context", "dropout", "d_model"]

    def test_of_values(self):
        written = config(layers="x", context="8 s", dimensionality=2.5)
        written[MAPPING]["parameters"]["activation_recomputation"] = {"value": "ful"}
        written[ACCELERATOR] = {"parameters": {"memory_capacity": {"value": "8 parsecs"}}}
        assert {p.where.rpartition(".")[2] for p in refused(written)} == {
            "layers", "context", "dimensionality", "activation_recomputation", "memory_capacity",
        }  # fmt: skip

    def test_of_rows_and_values(self):
        written = config(layers="x")
        written[NETWORK]["lookup_config"]["lookup_table_row"] = "zzz"
        written[SYSTEM]["lookup_config"]["lookup_table_row"] = "DGX H1000"
        assert len(refused(written)) == 3

    def test_of_names_and_of_values(self):
        found = refused(config(btch_size=3, layers="x", context="8 s"))
        assert [p.where.rpartition(".")[2] for p in found] == ["btch_size", "layers", "context"]

    def test_of_values_and_of_lookups_without_a_row(self):
        written = config(layers="x")
        written[MAPPING]["parameters"]["tensor_parallel_degree"] = {"from_lookup_table": True}
        assert [p.where.rpartition(".")[2] for p in refused(written)] == ["layers", "tensor_parallel_degree"]

    def test_of_the_config_and_the_command_line(self):
        found = refused(config(layers="x"), btch_size=3, memory_capacity="8 s")
        assert {p.where for p in found} == {"--set btch_size", "--set memory_capacity", f"{NETWORK}.parameters.layers"}
