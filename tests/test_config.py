"""Configs: from JSON to sources; what is refused, with which words; AMPeD's older names; the schema that is shipped."""

import contextlib
import copy
import json
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from amped.aliases import aliases
from amped.catalogue import catalogue
from amped.config import read_config, shipped_configs
from amped.config_schema import config_schema
from amped.errors import AmpedError, ConfigError, FileError, MappingError
from amped.library import estimate
from amped.quantity import ACCELERATOR, CATEGORIES, MAPPING, NETWORK, SYSTEM
from amped.scenario import read_scenario
from amped.sources import Calculated, Given, LookedUp

KNOWN = catalogue()
OLD_STYLE = json.loads((Path(__file__).parent / "data" / "amped_old_style.json").read_text("utf-8"))


def config(category=NETWORK, /, base=None, **parameters):
    """A small config of 64 H100 with these parameters in a category; a value that is no object is its "value"."""
    built = copy.deepcopy(base) if base else {
        NETWORK: {"lookup_config": {"lookup_table_row": "Llama 3 8B"}, "parameters": {"batch_size": {"value": 256}}},
        MAPPING: {"parameters": {"tensor_parallel_degree": {"value": 4}, "microbatch_size": {"value": 1}}},
        SYSTEM: {"lookup_config": {"lookup_table_row": "DGX H100"}, "parameters": {"number_of_nodes": {"value": 8}}},
    }  # fmt: skip
    section = built.setdefault(category, {}).setdefault("parameters", {})
    section.update({name: v if isinstance(v, dict) else {"value": v} for name, v in parameters.items()})
    return built


def old_style(category=NETWORK, /, **parameters):
    """AMPeD's own config with these parameters."""
    return config(category, OLD_STYLE, **parameters)


def sources(written, **overrides):
    return read_scenario(written, overrides).sources


def refused(written, **overrides):
    """The problems of a config that is refused: what, where and advice."""
    with pytest.raises(ConfigError) as caught:
        read_scenario(written, overrides)
    return caught.value.problems


def the_problem(written, **overrides):
    (problem,) = refused(written, **overrides)
    return problem


class TestWhereAValueComesFrom:
    def test_a_value_is_given(self):
        origin = sources(config(batch_size=512)).origins["batch_size"]
        assert origin == Given(512.0, 512, f"{NETWORK}.parameters.batch_size")

    def test_calculated_silences_the_table_row(self):
        found = sources(config(feedforward_dimension={"calculated": True}))
        assert found.calculated["feedforward_dimension"] == Calculated(f"{NETWORK}.parameters.feedforward_dimension")
        assert "feedforward_dimension" not in found.given
        assert sources(config()).given["feedforward_dimension"] == 14336

    @pytest.mark.parametrize("value", [None, 7, "many", [1, 2]])
    def test_with_calculated_or_looked_up_the_value_is_ignored(self, value):
        found = sources(config(
            feedforward_dimension={"value": value, "calculated": True, "from_lookup_table": False},
            layers={"value": value, "calculated": False, "from_lookup_table": True},
        ))  # fmt: skip
        assert "feedforward_dimension" not in found.origins
        assert found.given["layers"] == 32

    def test_from_lookup_table_takes_the_column_of_its_name(self):
        origin = sources(config(context={"from_lookup_table": True})).origins["context"]
        assert isinstance(origin, LookedUp)
        assert (origin.value, origin.row.name, origin.column) == (8192.0, "Llama 3 8B", "context")

    def test_lookup_name_takes_another_column(self):
        origin = sources(config(context={"from_lookup_table": True, "lookup_name": "maximum_context"})).origins[
            "context"
        ]
        assert origin.column == "maximum_context"

    def test_lookup_name_may_be_amped_s_own(self):
        entry = {"from_lookup_table": True, "lookup_name": "tokens"}
        assert sources(config(vocabulary_size=entry)).given["vocabulary_size"] == 128256

    def test_what_the_config_leaves_out_comes_from_the_rows_it_names(self):
        found = sources(config())
        assert {c: row.name for c, row in found.rows.items()} == {
            NETWORK: "Llama 3 8B", SYSTEM: "DGX H100", ACCELERATOR: "H100 SXM",
        }  # fmt: skip
        assert found.given["number_of_cores"] == 132

    def test_a_parameter_may_stand_in_another_category(self):
        assert sources(config(MAPPING, dropout=0.5)).given["dropout"] == 0.5

    def test_a_choice_is_read_without_case_spaces_and_hyphens(self):
        assert sources(config(MAPPING, activation_recomputation="Full")).choices["activation_recomputation"] == "full"

    @pytest.mark.parametrize(("written", "value"), [(True, 1.0), (False, 0.0), (1, 1.0), (0, 0.0)])
    def test_a_flag_is_true_or_false_or_one_or_zero(self, written, value):
        assert sources(config(flash_attention=written)).given["flash_attention"] == value

    @pytest.mark.parametrize(("written", "number"), [(16, 2.0), ("16 bit", 2.0), ("2 byte", 2.0)])
    def test_a_precision_is_in_bits_unless_it_says_bytes(self, written, number):
        assert sources(config(weight_precision=written)).given["weight_precision"] == number


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
            (NETWORK, "layer_gemms", 3, "'layer_gemms' is a list of records and cannot be given"),
        ],
    )  # fmt: skip
    def test_bounds_units_flags_and_choices(self, category, name, written, what):
        problem = the_problem(config(category, **{name: written}))
        assert (problem.where, problem.what) == (f"{category}.parameters.{name}", what)

    def test_a_choice_that_is_not_there_comes_with_the_nearest_and_all(self):
        problem = the_problem(config(MAPPING, activation_recomputation="selectiv"))
        assert problem.advice == "did you mean 'selective'? it is one of none, selective, full, block"

    def test_a_value_of_megabytes_is_told_in_a_line(self):
        for written in ("x" * 10**7, "9" * 10**7):
            assert len(str(the_problem(config(batch_size=written)))) < 400
        assert len(str(the_problem(config(MAPPING, activation_recomputation="x" * 10**7)))) < 400

    def test_what_has_no_formula_cannot_be_calculated(self):
        problem = the_problem(config(layers={"calculated": True}))
        assert problem.what == "cannot be calculated: it has no formula"

    def test_a_text_is_never_run(self, tmp_path):
        target = tmp_path / "ran"
        the_problem(config(batch_size=f"__import__('pathlib').Path({str(target)!r}).touch()"))
        the_problem(config(MAPPING, activation_recomputation=f"open({str(target)!r}, 'w')"))
        assert not target.exists()


class TestNamesThatDoNotExist:
    def test_a_category(self):
        problem = the_problem(config() | {"mapping_parameter": {}})
        assert problem.what == "unknown key 'mapping_parameter'"
        assert "did you mean 'mapping_parameters'" in problem.advice

    def test_a_key_of_a_category(self):
        problem = the_problem(config() | {SYSTEM: {"paramters": {}}})
        assert (problem.where, problem.advice) == (SYSTEM, "did you mean 'parameters'?")

    def test_a_key_of_a_parameter(self):
        problem = refused(config(batch_size={"vlue": 8}))[0]
        assert problem.where == f"{NETWORK}.parameters.batch_size"
        assert (problem.what, problem.advice) == ("unknown key 'vlue'", "did you mean 'value'?")

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("btch_size", "batch_size"),
            ("dimensionalty", "dimensionality"),
            ("hiden_size", "hidden_size"),
            ("LAYERS", "layers"),
        ],
    )
    def test_a_parameter(self, name, meant):
        problem = the_problem(config(**{name: 8}))
        assert problem.where == f"{NETWORK}.parameters.{name}"
        assert problem.what == f"unknown parameter '{name}'"
        assert f"'{meant}'" in problem.advice
        assert problem.advice.startswith("did you mean ")

    def test_a_parameter_like_no_other(self):
        assert the_problem(config(zzz=8)).advice == "`amped list parameters` shows them"

    def test_a_rule_is_no_parameter_and_is_not_suggested(self):
        problem = the_problem(config(SYSTEM, the_cluster_has_the_accelerators=True))
        assert problem.what == "unknown parameter 'the_cluster_has_the_accelerators'"
        assert "'the_cluster_has_the_accelerators'" not in problem.advice

    @pytest.mark.parametrize(
        ("lookup", "what", "advice"),
        [
            (
                {"lookup_table_row": "Llama 3 8"},
                "table transformer_network_parameters has no row 'Llama 3 8'",
                "'Llama-3-8B'",
            ),
            (
                {"lookup_table_row": "zzz"},
                "table transformer_network_parameters has no row 'zzz'",
                "`amped list models` shows them",
            ),
            (
                {"lookup_table_name": "transformer_network_parametrs", "lookup_table_row": "Llama 3 8B"},
                "there is no lookup table 'transformer_network_parametrs'",
                "did you mean 'transformer_network_parameters'?",
            ),
            (
                {"lookup_table_name": "zzz", "lookup_table_row": "Llama 3 8B"},
                "there is no lookup table 'zzz'",
                "there are accelerator_specifications,",
            ),
            (
                {"lookup_table_name": "accelerator_specifications", "lookup_table_row": "Llama 3 8B"},
                "table accelerator_specifications has no row 'Llama 3 8B'",
                "`amped list accelerators` shows them",
            ),
        ],
    )
    def test_a_table_or_a_row(self, lookup, what, advice):
        written = config()
        written[NETWORK]["lookup_config"] = lookup
        problem = the_problem(written)
        assert (problem.where, problem.what) == (f"{NETWORK}.lookup_config", what)
        assert advice in problem.advice

    def test_a_column(self):
        problem = the_problem(config(context={"from_lookup_table": True, "lookup_name": "contxt"}))
        assert problem.where == f"{NETWORK}.parameters.context"
        assert problem.what == "row 'Llama 3 8B' of transformer_network_parameters has no column 'contxt'"
        assert problem.advice.startswith("did you mean 'context'")

    @pytest.mark.parametrize(("column", "culprit"), [("family", "'Llama 3'"), ("sources", "Grattafiori")])
    def test_a_column_that_is_no_number_is_told_with_the_parameter_that_wants_it(self, column, culprit):
        problem = the_problem(config(layers={"from_lookup_table": True, "lookup_name": column}))
        assert culprit in problem.what
        assert f"column '{column}'" in str(problem)
        assert f"{NETWORK}.parameters.layers" in str(problem)

    def test_a_lookup_without_a_row_to_look_in(self):
        problem = the_problem(config(MAPPING, tensor_parallel_degree={"from_lookup_table": True}))
        assert problem.where == f"{MAPPING}.parameters.tensor_parallel_degree"
        assert problem.what == "is to be looked up, but mapping_parameters names no table row"

    def test_a_performance_model(self):
        problem = the_problem(config() | {"performance_model": "ampedd"})
        assert problem.where == "performance_model"
        assert problem.advice.startswith("did you mean 'amped'?")

    def test_a_config_that_is_not_there(self):
        with pytest.raises(FileError, match="no such file, and no shipped config of that name") as caught:
            read_scenario("minimel")
        assert "did you mean 'minimal'?" in str(caught.value)


class TestStructure:
    @pytest.mark.parametrize(
        ("written", "where", "what"),
        [
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
        ],
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

    def test_mapping_has_no_table_to_look_in(self):
        written = config()
        written[MAPPING]["lookup_config"] = {"lookup_table_row": "A100"}
        assert "lookup_config" in str(the_problem(written))

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


class TestOneQuantityUnderTwoNames:
    @pytest.mark.parametrize("other", [4096, 4096.0])
    def test_the_same_value_is_accepted(self, other):
        assert sources(config(hidden_size=4096, d_model=other)).given["dimensionality"] == 4096

    @pytest.mark.parametrize("other", ["4096", "4.096 k"])
    def test_the_same_value_in_another_spelling_is_accepted(self, other):
        assert sources(config(hidden_size=4096, d_model=other)).given["dimensionality"] == 4096

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (4096, 1024),
            (4096, {"from_lookup_table": True}),
            (
                {"from_lookup_table": True, "lookup_name": "dimensionality"},
                {"from_lookup_table": True, "lookup_name": "layers"},
            ),
            (8, 9),
        ],
    )
    def test_different_sources_are_refused(self, one, other):
        found = refused(config(hidden_size=one, d_model=other))
        assert f"{NETWORK}.parameters.d_model: 'dimensionality' has two sources" in {
            f"{p.where}: {p.what}" for p in found
        }

    def test_the_name_itself_beside_an_alias_is_refused_where_they_differ(self):
        problem = the_problem(config(hidden_size=1024, dimensionality=4096))
        assert problem.what == "'dimensionality' has two sources"
        assert problem.advice == f"the other is {NETWORK}.parameters.hidden_size; keep one"

    def test_two_categories_may_not_differ(self):
        problem = the_problem(config(MAPPING, batch_size=512))
        assert (problem.where, problem.what) == (f"{MAPPING}.parameters.batch_size", "'batch_size' has two sources")

    def test_the_command_line_may_not_say_two_things_either(self):
        assert "dimensionality" in str(the_problem(config(), hidden_size=8192, d_model=4096))


class TestAmpedsOlderNames:
    def test_the_whole_old_file_is_estimated(self):
        estimated = estimate(OLD_STYLE)
        assert estimated["tensor_parallel_degree"] == 8
        assert estimated["number_of_accelerators"] == 1024
        assert 0 < estimated["step_time"] < 1e3

    @pytest.mark.parametrize(("old", "new"), sorted(aliases().renamed.items()))
    def test_a_renamed_parameter_is_read_under_its_new_name(self, old, new):
        written = {KNOWN[new].category or NETWORK: {"parameters": {old: {"value": 8}}}}
        entry = read_config(written, KNOWN).entries[new]
        assert (entry.written_name, entry.value) == (old, 8)

    def test_two_old_names_of_one_quantity_must_agree(self):
        assert sources(OLD_STYLE).given["head_dimension"] == 128
        problem = the_problem(old_style(key_query_value_length=64))
        assert problem.what == "'head_dimension' has two sources"

    @pytest.mark.parametrize(
        ("name", "value"), [("hidden_layer_dimension_MLP_1", 12288), ("summarization_len", "2.048 k")]
    )
    def test_a_name_for_an_equal_value_is_accepted_where_it_is_equal(self, name, value):
        assert estimate(old_style(**{name: value}))["step_time"] == estimate(OLD_STYLE)["step_time"]

    @pytest.mark.parametrize(
        ("name", "value", "other"),
        [("hidden_layer_dimension_MLP_1", 12289, "dimensionality"), ("summarization_len", 1024, "context")],
    )
    def test_a_name_for_an_equal_value_is_refused_where_it_differs(self, name, value, other):
        with pytest.raises(MappingError, match=f"{value} differs from {other} = ") as caught:
            estimate(old_style(**{name: value}))
        assert caught.value.problems[0].where == f"{NETWORK}.parameters.{name}"

    def test_a_name_for_an_equal_value_checks_the_command_line_too(self):
        with pytest.raises(AmpedError, match="context"):
            estimate("default", summarization_len=1024)

    @pytest.mark.parametrize(
        "written", [{"value": None}, {}, {"calculated": True, "from_lookup_table": True}, "8 parsecs"]
    )
    def test_a_name_for_an_equal_value_needs_one_too(self, written):
        assert the_problem(old_style(summarization_len=written)).where == f"{NETWORK}.parameters.summarization_len"

    def test_retired_names_are_accepted_and_said_once(self):
        notices = sources(OLD_STYLE).notices
        (told,) = [n for n in notices if n.startswith("not used any more: ")]
        named = told.removeprefix("not used any more: ").split(", ")
        written = [name for c in CATEGORIES for name in OLD_STYLE[c]["parameters"]]
        assert named == [name for name in written if name in aliases().retired]

    @pytest.mark.parametrize("name", sorted(aliases().retired))
    def test_a_retired_name_with_a_value_warns(self, name):
        notices = read_config(config(**{name: 7}), KNOWN).notices
        assert notices == (
            f"not used any more: {name}",
            f"warning: these retired parameters have a value that changes nothing: {name} = 7",
        )

    @pytest.mark.parametrize("written", [{"calculated": True}, {"value": None}, {"value": None, "calculated": True}])
    def test_a_retired_name_without_a_value_does_not_warn(self, written):
        assert read_config(config(expert_flag=written), KNOWN).notices == ("not used any more: expert_flag",)

    def test_a_retired_name_changes_nothing(self):
        assert sources(config(OPS_per_MAC=7)).given == sources(config()).given

    def test_a_retired_name_on_the_command_line_is_not_suggested_for_itself(self):
        problem = the_problem(config(), expert_flag=1)
        assert problem.where == "--set expert_flag"
        assert "did you mean 'expert_flag'" not in problem.advice

    @pytest.mark.parametrize(
        ("written", "number"),
        [
            ("2.4 T", 300e9),
            (2.4e12, 300e9),
            ("2.4 Tb", 300e9),
            ("2.4 Tb/s", 300e9),
            ("2.4 Tbit/s", 300e9),
            ("2400 Gbps", 300e9),
            ("300 GB/s", 300e9),
            ("300 GB", 300e9),
            ("300 Gbyte/s", 300e9),
            ("200 GiB/s", 200 * 2.0**30),
        ],
    )
    def test_bandwidths_without_a_byte_are_bits_in_an_old_file(self, written, number):
        found = sources(old_style(SYSTEM, inter_accelerator_bandwidth=written))
        assert found.given["inter_accelerator_bandwidth"] == pytest.approx(number, rel=1e-12)

    def test_the_conversion_to_bytes_is_told(self):
        told = [n for n in sources(OLD_STYLE).notices if "bits in a second" in n]
        assert told == [
            "inter_accelerator_bandwidth: '2.4 T' is read as bits in a second, 300 GB/s",
            "bandwidth_per_network_card: '200 Gb' is read as bits in a second, 25 GB/s",
        ]

    @pytest.mark.parametrize("written", ["300 GB/s", "300 GB", "300 Gbyte/s", "200 GiB/s"])
    def test_what_is_in_bytes_is_not_told_as_bits(self, written):
        found = sources(old_style(SYSTEM, inter_accelerator_bandwidth=written))
        assert not [n for n in found.notices if n.startswith("inter_accelerator_bandwidth") and "bits" in n]

    def test_the_command_line_is_in_bytes_even_for_an_old_file(self):
        assert sources(OLD_STYLE, inter_accelerator_bandwidth="300 G").given["inter_accelerator_bandwidth"] == 300e9

    def test_a_file_without_old_names_has_bytes(self):
        found = sources(config(SYSTEM, inter_accelerator_bandwidth="300 G"))
        assert found.given["inter_accelerator_bandwidth"] == 300e9
        assert not [n for n in found.notices if "bits" in n]


class TestAliases:
    pairs = sorted({**aliases().common, **aliases().renamed, **aliases().equal_to}.items())

    @pytest.mark.parametrize(("alias", "name"), pairs)
    def test_every_alias_is_another_name_of_a_quantity(self, alias, name):
        assert name in KNOWN
        assert KNOWN[name].mark.kind in ("quantity", "parameter")
        assert not KNOWN[name].mark.constrains
        assert alias not in KNOWN
        assert aliases().canonical(alias) == name

    def test_no_retired_name_is_a_quantity_or_an_alias(self):
        assert not {*aliases().retired} & {*KNOWN, *dict(self.pairs)}

    def test_each_alias_stands_in_one_list(self):
        names = aliases().names()
        assert len(names) == len(set(names))

    @pytest.mark.parametrize(
        ("alias", "value"),
        [
            ("hidden_size", 4096),
            ("num_layers", 16),
            ("seq_length", 4096),
            ("global_batch_size", 512),
            ("micro_batch_size", 2),
        ],
    )
    def test_other_tools_spellings_are_read(self, alias, value):
        written = config()
        written[NETWORK]["parameters"] = {} if alias == "global_batch_size" else {"batch_size": {"value": 256}}
        written[MAPPING]["parameters"] = {}
        assert sources(config(base=written, **{alias: value})).given[aliases().canonical(alias)] == value


class TestSchema:
    schema = config_schema(KNOWN)
    shipped = json.loads(resources.files("amped.schema").joinpath("config.schema.json").read_text("utf-8"))
    validator = Draft202012Validator(shipped)

    def test_the_shipped_schema_is_what_the_catalogue_generates(self):
        assert self.shipped == json.loads(json.dumps(self.schema))

    def test_it_is_a_valid_draft_2020_12(self):
        assert self.shipped["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        Draft202012Validator.check_schema(self.shipped)

    @pytest.mark.parametrize("name", shipped_configs())
    def test_it_accepts_every_shipped_config(self, name):
        written = json.loads(resources.files("amped.configs").joinpath(f"{name}.json").read_text("utf-8"))
        assert [error.message for error in self.validator.iter_errors(written)] == []

    def test_it_accepts_amped_s_older_config(self):
        assert [error.message for error in self.validator.iter_errors(OLD_STYLE)] == []

    @pytest.mark.parametrize("name", [n for n, q in KNOWN.items() if q.category and q.mark.kind != "records"])
    def test_every_parameter_is_listed_with_its_meaning_and_choices(self, name):
        quantity = KNOWN[name]
        listed = self.shipped["properties"][quantity.category]["properties"]["parameters"]["properties"][name]
        assert listed["description"].startswith(quantity.summary)
        if quantity.is_selector:
            assert listed["properties"]["value"]["anyOf"][0] == {"enum": list(quantity.mark.choices)}
        elif quantity.mark.unit != "boolean":
            assert f"Unit: {quantity.mark.bare or quantity.mark.unit}." in listed["description"]

    @pytest.mark.parametrize(
        "written",
        [
            {"mapping_parameter": {}},
            {NETWORK: {"parameters": {"btch_size": {"value": 8}}}},
            {NETWORK: {"parameters": {"batch_size": {"vlue": 8}}}},
            {NETWORK: {"parameters": {"batch_size": {"value": True}}}},
            {NETWORK: {"parameters": {"batch_size": {"value": []}}}},
            {MAPPING: {"parameters": {"activation_recomputation": {"value": "ful"}}}},
            {SYSTEM: {"parameters": {"the_cluster_has_the_accelerators": {"value": 1}}}},
            {NETWORK: {"parameters": {"layer_gemms": {"value": 1}}}},
            {"performance_model": "ampedd"},
        ],
    )
    def test_it_refuses_what_the_reader_refuses(self, written):
        assert not self.validator.is_valid(written)
        with pytest.raises(ConfigError):
            read_scenario(config() | written)

    @pytest.mark.parametrize("value", [8, "8 k", [1, "2", 4], None])
    def test_it_accepts_numbers_texts_lists_and_null(self, value):
        assert self.validator.is_valid({NETWORK: {"parameters": {"batch_size": {"value": value, "calculated": True}}}})


class TestSettingAValueTakesAwayWhatItDetermines:
    """Rule 7: `--set X` removes from the config every source that X determines, and says so."""

    @pytest.mark.parametrize(
        ("in_config", "name", "value"),
        [
            ({"tensor_parallel_degree": 4}, "intra_node_tensor_parallel_degree", 2),
            ({"tensor_parallel_degree": 4}, "inter_node_tensor_parallel_degree", 2),
            ({"intra_node_tensor_parallel_degree": 4}, "tensor_parallel_degree", 2),
            ({"inter_node_pipeline_parallel_degree": 4}, "pipeline_parallel_degree", 2),
            ({"intra_node_data_parallel_degree": 4}, "data_parallel_degree", 16),
            ({"inter_node_context_parallel_degree": 4}, "context_parallel_degree", 2),
            ({"intra_node_expert_parallel_degree": 4}, "expert_parallel_degree", 2),
            ({"microbatch_size": 2}, "number_of_microbatches_per_minibatch", 8),
            ({"number_of_microbatches_per_minibatch": 8}, "microbatch_size", 2),
            ({"samples": 10**6}, "tokens_to_train", "300 G"),
            ({"tokens_to_train": "300 G"}, "samples", 10**6),
            ({"tokens_to_train": "300 G"}, "number_of_steps", 1000),
            ({"number_of_steps": 1000}, "samples", 10**6),
            ({"number_of_nodes": 8}, "number_of_accelerators", 64),
            ({"number_of_accelerators": 64}, "number_of_nodes", 8),
            ({"inter_node_bandwidth": "400 GB/s"}, "bandwidth_per_network_card", "50 GB/s"),
        ],
    )  # fmt: skip
    def test_a_whole_its_parts_and_other_ways_to_say_the_same(self, in_config, name, value):
        (replaced,) = in_config
        written = config()
        written[MAPPING]["parameters"] = {}
        written[SYSTEM]["parameters"] = {}
        written = config(MAPPING, written, **in_config)
        assert replaced in sources(written).given
        found = sources(written, **{name: value})
        assert name in found.given
        assert replaced not in found.given
        assert f"--set {name} takes the place of {MAPPING}.parameters.{replaced}" in found.notices

    def test_a_whole_takes_away_both_parts_of_an_old_file(self):
        found = sources(OLD_STYLE, tensor_parallel_degree=4)
        assert found.given["tensor_parallel_degree"] == 4
        assert not {"intra_node_tensor_parallel_degree", "inter_node_tensor_parallel_degree"} & set(found.given)
        assert len([n for n in found.notices if n.startswith("--set tensor_parallel_degree takes the place of")]) == 2

    def test_a_part_keeps_the_other_part(self):
        given_values = sources(OLD_STYLE, intra_node_tensor_parallel_degree=4).given
        assert (
            given_values["intra_node_tensor_parallel_degree"],
            given_values["inter_node_tensor_parallel_degree"],
        ) == (4, 1)

    def test_a_clock_takes_away_the_peaks_of_the_row(self):
        found = sources(config(), frequency="1 GHz")
        assert found.given["frequency"] == 1e9
        assert not {"bf16_peak_flop_rate", "fp16_peak_flop_rate"} & set(found.given)

    def test_an_alias_sets_the_quantity(self):
        assert sources(config(), tensor_model_parallel_size=2).given["tensor_parallel_degree"] == 2

    def test_what_it_does_not_determine_stays_and_nothing_is_said(self):
        found = sources(config(), dropout=0.5)
        assert found.given["tensor_parallel_degree"] == 4
        assert found.notices == sources(config()).notices

    @pytest.mark.parametrize("names", [("tensor_parallel_degree", "intra_node_tensor_parallel_degree")])
    @pytest.mark.parametrize("backwards", [False, True])
    def test_two_values_that_are_set_do_not_take_each_other_away(self, names, backwards):
        written = dict(zip(names, (8, 4), strict=True))
        found = sources(config(), **dict(reversed(written.items())) if backwards else written)
        assert {name: found.given.get(name) for name in names} == written

    def test_a_row_that_is_named_takes_away_what_the_config_has_of_it(self):
        found = sources(config(layers=16), model="Llama 3 70B")
        assert (found.given["layers"], found.rows[NETWORK].name) == (80, "Llama 3 70B")
        assert "row 'Llama 3 70B' takes the place of what the config has for layers" in found.notices

    def test_a_system_brings_its_accelerator_and_an_accelerator_overrules_that(self):
        assert sources("default", system="DGX H100").rows[ACCELERATOR].name == "H100 SXM"
        found = sources("default", system="DGX H100", accelerator="H200")
        assert found.rows[ACCELERATOR].name == "H200 SXM"
        assert "system 'DGX H100' is built with H100 SXM; its network is kept for H200 SXM" in found.notices


class TestSweeps:
    def test_a_list_is_a_sweep_each_value_read_like_one(self):
        found = sources(config(batch_size=[256, "1 k"], inter_accelerator_bandwidth=["900 GB/s", "3.6 Tbit/s"]))
        assert found.sweeps == {"batch_size": (256.0, 1000.0), "inter_accelerator_bandwidth": (900e9, 450e9)}
        assert not {"batch_size", "inter_accelerator_bandwidth"} & set(found.given)

    def test_a_list_of_choices(self):
        assert sources(config(MAPPING, activation_recomputation=["none", "Full"])).sweeps == {
            "activation_recomputation": ("none", "full")
        }

    def test_a_list_takes_the_place_of_what_the_row_has(self):
        found = sources(config(context=[2048, 4096]))
        assert "context" not in found.given

    def test_a_list_from_the_caller(self):
        assert sources(config(), batch_size=[256, 512]).sweeps == {"batch_size": (256.0, 512.0)}

    def test_a_list_of_rows(self):
        written = config()
        written[NETWORK]["lookup_config"]["lookup_table_row"] = ["Llama 3 8B", "GPT-3 175B"]
        assert sources(written).row_sweeps == {NETWORK: ("Llama 3 8B", "GPT-3 175B")}

    @pytest.mark.parametrize("values", [[256, 256], [1000, "1 k"]])
    def test_a_value_that_stands_twice_is_refused(self, values):
        assert the_problem(config(batch_size=values)).what == "a value stands twice in the list"

    def test_estimate_refuses_every_list_and_names_the_verb(self):
        written = config(batch_size=[256, 512], context=[2048, 4096])
        with pytest.raises(ConfigError) as caught:
            estimate(written)
        assert [p.what for p in caught.value.problems] == [
            "'batch_size' is a list, and an estimate takes one value",
            "'context' is a list, and an estimate takes one value",
        ]
        assert "`amped explore` takes lists" in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**320), 10**320) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from([*KNOWN, *aliases().names()]) | st.text(max_size=12)
entries = st.fixed_dictionaries(
    {},
    optional={
        "value": json_values | st.sampled_from(["8 GB", "900 GB/s", "5 us", "8 k", "full", 8, 0, -1, [1, 2]]),
        "calculated": st.booleans() | json_values,
        "from_lookup_table": st.booleans() | json_values,
        "lookup_name": st.sampled_from(["tokens", "layers", "sources", "aliases"]) | json_values,
    },
)
lookups = st.fixed_dictionaries(
    {},
    optional={
        "lookup_table_name": st.sampled_from(["accelerator_specifications", "zzz"]) | json_values,
        "lookup_table_row": st.sampled_from(["A100", "Llama 3 8B", "DGX H100", ["A100", "V100"]]) | json_values,
    },
)
sections = st.fixed_dictionaries(
    {},
    optional={
        "parameters": st.dictionaries(names, entries | json_values, max_size=5) | json_values,
        "lookup_config": lookups | json_values,
    },
)
configs = st.dictionaries(
    st.sampled_from([*CATEGORIES, "performance_model", "description"]) | st.text(max_size=8),
    sections | json_values,
    max_size=5,
)


class TestProperties:
    """Whatever a config holds: sources, or an error of ours."""

    @given(json_values)
    @settings(max_examples=100)
    def test_any_json(self, written):
        with contextlib.suppress(AmpedError):
            read_config(written if isinstance(written, dict) else {NETWORK: written}, KNOWN)

    @given(configs)
    @settings(max_examples=300, deadline=None)
    def test_anything_that_looks_like_a_config(self, written):
        with contextlib.suppress(AmpedError):
            read_scenario(written)

    @given(names, entries)
    @settings(max_examples=300, deadline=None)
    def test_any_parameter_in_a_sound_config(self, name, entry):
        with contextlib.suppress(AmpedError):
            read_scenario(config(**{name: entry}))

    @given(st.sampled_from([n for n, q in KNOWN.items() if q.category]), json_values)
    @settings(max_examples=200, deadline=None)
    def test_any_value_from_the_caller(self, name, value):
        with contextlib.suppress(AmpedError):
            read_scenario(config(), {name: value})

    @given(st.integers(1, 10**9), st.sampled_from(["", "k", " k", " K"]))
    def test_a_count_is_read_as_written(self, number, suffix):
        scale = 1000 if suffix.strip() else 1
        assert sources(config(batch_size=f"{number}{suffix}")).given["batch_size"] == number * scale
