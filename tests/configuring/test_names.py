"""Configs: names that do not exist, names that mean the same, and one quantity under two names."""

import pytest

from amped.base.aliases import aliases
from amped.base.errors import FileError
from amped.configuring.scenario import read_scenario
from amped.theory.language.quantity import MAPPING, NETWORK, SYSTEM
from tests.helpers.config import KNOWN, config, refused, sources, the_problem
from tests.helpers.culprits import for_each


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
            ("kernel_dispatch_time", "kernel_launch_time"),
            ("normalisation_bandwidth_fraction", "normalization_bandwidth_fraction"),
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
                "'Llama 3 8B'",
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

    def test_a_table_that_does_not_exist_and_that_nothing_uses(self):
        written = config()
        written[MAPPING]["lookup_config"] = {"lookup_table_name": "zzz"}
        (notice,) = sources(written).notices
        assert notice.startswith(f"{MAPPING}.lookup_config.lookup_table_name: there is no lookup table 'zzz'")

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


class TestAliases:
    pairs = sorted({**aliases().common, **aliases().renamed, **aliases().equal_to}.items())

    @for_each(pairs)
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
