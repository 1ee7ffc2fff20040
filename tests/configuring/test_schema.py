"""The schema that is shipped: what the catalogue generates, and as strict as the reader."""

import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from amped.base.errors import ConfigError
from amped.configuring.config import shipped_configs
from amped.configuring.config_schema import config_schema, structure, structure_problems
from amped.configuring.scenario import read_scenario
from amped.theory.language.quantity import MAPPING, NETWORK, SYSTEM
from tests.helpers.config import KNOWN, OLD_STYLE, config


def replaced(written, wrong):
    """A config with one of its values after the other replaced, and with one key more in each object."""
    if isinstance(written, dict):
        yield {**written, "extra": wrong}
        for name, value in written.items():
            yield {**written, name: wrong}
            yield from ({**written, name: inner} for inner in replaced(value, wrong))


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

    @pytest.mark.parametrize(
        "wrong", [None, 1, "x", True, [], ["x"], {}, {"value": 1}, {"x": {}}, {"lookup_table_row": []}]
    )
    def test_a_config_has_problems_where_the_schema_refuses_it(self, wrong):
        written = json.loads(resources.files("amped.configs").joinpath("llama-3-70b.json").read_text("utf-8"))
        validator = Draft202012Validator(structure())
        seen = {True: 0, False: 0}
        for changed in (wrong, *replaced(written, wrong)):
            assert (not structure_problems(changed)) == validator.is_valid(changed)
            seen[validator.is_valid(changed)] += 1
        assert seen[False] > 5

    def test_what_is_no_list_is_told(self):
        (problem,) = structure_problems({"not_modeled": 5})
        assert str(problem) == "not_modeled: 5 is not a list\n    expected a list"

    def test_it_accepts_amped_s_older_config(self):
        assert [error.message for error in self.validator.iter_errors(OLD_STYLE)] == []

    def test_every_parameter_is_listed_with_its_meaning_and_choices(self):
        for name, quantity in KNOWN.items():
            if not quantity.category or quantity.mark.kind == "records":
                continue
            listed = self.shipped["properties"][quantity.category]["properties"]["parameters"]["properties"][name]
            unit = quantity.mark.unit
            assert listed["description"].startswith(quantity.summary), name
            if quantity.is_selector:
                assert listed["properties"]["value"]["anyOf"][0] == {"enum": list(quantity.mark.choices)}, name
            elif unit not in ("boolean", "layout", "pattern", "blocks", "kernel_table"):
                assert f"Unit: {quantity.mark.bare or unit}." in listed["description"], name

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
            {NETWORK: {"parameters": {"layer_operators": {"value": 1}}}},
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
